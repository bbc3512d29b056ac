/**
 * The words of screen 1 and of what edits change; see `strings.js`.
 *
 * What is unusual: the lead is one sentence for each task, as what one types and gets differs.
 * What it does not know: where they stand.
 */
import { addStrings } from "./strings.js";

/** Put them into the table. */
export function addTryStrings() {
  addStrings({
    "try.lead.translation": [
      "Type a sentence. The model translates it, and each token says how sure the model was.",
      "输入一句话。模型会把它译出来，每个词元都标着模型有多大把握。",
    ],
    "try.lead.language-model": [
      "Begin a text. The model goes on, and each token says how likely it was.",
      "写个开头。模型会接着写下去，每个词元都标着它的概率。",
    ],
    "try.lead.masked-lm": [
      "Type a sentence. At each place the model says which token it expects there.",
      "输入一句话。模型会说出它认为每个位置上应当是哪个词元。",
    ],
    "try.lead.classification": [
      "Type a text. The model says which class it is in, and how sure it is.",
      "输入一段文字。模型会说出它属于哪一类，以及有多大把握。",
    ],
    "try.lead.tagging": ["Type a sentence. The model marks the names it finds.", "输入一句话。模型会标出其中的名称。"],
    "try.lead.question-answering": [
      "Ask a question about a text. The model marks the answer in it.",
      "就一段文字提问。模型会在文中标出答案。",
    ],
    "try.lead.embedding": [
      "Type a sentence. This model turns it into one vector and writes nothing; what its layers look at is on the next screen.",
      "输入一句话。这个模型把它变成一个向量，并不写出文字；它的各层在看什么，见下一屏。",
    ],
    "try.source": ["Source", "原文"],
    "try.text": ["Text", "文本"],
    "try.prompt": ["Beginning", "开头"],
    "try.question": ["Question", "问题"],
    "try.context": ["Text to answer from", "含有答案的文字"],
    "try.first-text": ["First text", "第一段文字"],
    "try.second-text": ["Second text", "第二段文字"],
    "try.target": ["The target to force", "指定的译文"],
    "try.examples": ["Or one of these", "或者用下面的例子"],
    "try.runs": ["The runs in this file", "这个文件里的运行"],
    "try.to": ["Into", "译成"],
    "try.who": ["Who writes", "由谁来写"],
    "try.write": ["the model", "模型"],
    "try.force": ["I do", "我"],
    "try.mode": ["How", "怎样写"],
    "try.mode.greedy": ["greedy", "贪心"],
    "try.mode.beam": ["beam", "束搜索"],
    "try.mode.sample": ["sample", "采样"],
    "try.beam": ["Width", "束宽"],
    "try.temperature": ["Temperature", "温度"],
    "try.again": ["Draw again", "再抽一次"],
    "try.wrote": ["The model writes", "模型写出"],
    "try.forced": ["You wrote; the model read along", "你来写，模型跟着读"],
    "try.says": ["The model says", "模型的判断"],
    "try.answers": ["The model answers", "模型的回答"],
    "try.no-answer": ["the text does not say", "文中没有答案"],
    "try.marks": ["The model marks", "模型的标注"],
    "try.no-spans": ["The model marks nothing here.", "模型在这里没有标出什么。"],
    "try.no-output": ["This model gives a vector, not words.", "这个模型给出向量，不给文字。"],
    "try.nothing": ["nothing", "（空）"],
    "try.tokens": ["Token by token", "逐个词元"],
    "try.tokens.source": ["It reads", "它读入"],
    "try.tokens.target": ["It writes", "它写出"],
    "try.tokens.continues": ["It reads your words, then goes on", "它先读你的话，再接着写"],
    "try.join": ["join the pieces of a word", "把一个词的各片合起来"],
    "try.hover": [
      "Point at a token that was written to see what else the model weighed there. A click takes it to all screens.",
      "指到写出的一个词元，看模型在那里还考虑过什么。点一下，各屏都会转到它。",
    ],
    "try.hover.masked": [
      "Point at a token to see what the model expects in its place.",
      "指到一个词元，看模型认为那里应当是什么。",
    ],
    "try.first": ["{token} was the likeliest token here: {p}.", "{token} 是这里最可能的词元：{p}。"],
    "try.ranked": ["{token} came number {rank} here: {p}.", "{token} 在这里排第 {rank}：{p}。"],
    "try.instead": ["Why not {token}? Force it, and let the model go on", "为什么不是 {token}？指定它，让模型接着写"],
    "try.instead.hint": [
      "Why not another? Click one: it is forced here, and the model goes on from it.",
      "为什么不是别的？点一个：这里就换成它，模型从它接着写。",
    ],
    "try.prefix": ["Forced to begin with {words}.", "指定以 {words} 开头。"],
    "try.prefix.undo": ["Let the model choose", "让模型自己选"],
    "try.see": ["See what it looks at", "看它在看什么"],
    "try.shaded": [
      "Shaded: what it looked at while writing that, the mean of all heads.",
      "底色：写出它时在看哪里（所有头的平均）。",
    ],

    "changes.title": ["What the change does", "改动的结果"],
    "changes.differ": ["The model now writes something else.", "模型现在写得不一样了。"],
    "changes.same": ["The words stay the same; the probabilities move.", "写出的词没有变，概率变了。"],
    "changes.nothing": [
      "The words stay the same, and so do the probabilities, to a thousandth. It was not needed here.",
      "写出的词没有变，概率的变化也不到千分之一。在这里并不需要它。",
    ],
    "changes.inside": [
      "This model gives no words or classes to compare; the pictures show the changed model.",
      "这个模型没有可以对比的文字或类别；图上是改动后的模型。",
    ],
    "changes.before": ["Before", "改动前"],
    "changes.after": ["After", "改动后"],
    "changes.moved": ["Probabilities", "概率"],
  });
}
