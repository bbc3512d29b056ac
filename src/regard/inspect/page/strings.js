/**
 * Every word that the page says, in English and in Chinese: one table that modules add to.
 *
 * What is unusual: a text may hold {names} that are filled with words, or with elements (`phrase`), so that sentences
 * stay whole for who translates them. In the language "keys" each text is its own key in brackets, by which a test
 * finds words that are not in the table.
 * What it does not know: where a text stands on the page.
 */
import { store } from "./store.js";

const tables = { en: {}, zh: {} };

/** Add `{key: [English, Chinese]}`; a key twice is an error. */
export function addStrings(table) {
  for (const [key, [en, zh]] of Object.entries(table)) {
    if (key in tables.en) throw new Error(`the text ${key} is there twice`);
    Object.assign(tables.en, { [key]: en });
    Object.assign(tables.zh, { [key]: zh });
  }
}

/** Both tables, for the test that compares them. */
export function stringTables() {
  return tables;
}

function stringOf(key) {
  if (!(key in tables.en)) throw new Error(`no text ${key}`);
  const lang = store.get("lang");
  return lang === "keys"
    ? `⟦${key}${(tables.en[key].match(/\{\w+\}/g) ?? []).map((name) => `⟧${name}⟦`).join("")}⟧`
    : tables[lang][key];
}

/** The text of a key in the page's language, its {names} filled. */
export function t(key, values = {}) {
  if (store.get("lang") === "keys") return `⟦${key}⟧`;
  return stringOf(key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** The same as a list of strings and elements, for `values` that may be elements. */
export function phrase(key, values = {}) {
  return stringOf(key)
    .split(/(\{\w+\})/)
    .filter(Boolean)
    .map((piece) => (/^\{\w+\}$/.test(piece) ? (values[piece.slice(1, -1)] ?? "") : piece));
}

addStrings({
  "app.title": ["regard: look inside", "regard：看进模型里面"],
  "app.tagline": ["Every number of your own Transformer.", "你自己的 Transformer，每一个数都看得见。"],
  "app.skip": ["Skip to the picture", "跳到图"],
  "app.screens": ["Screens", "各屏"],
  "app.help": ["Help", "帮助"],
  "app.language": ["中文", "English"],
  "app.language.label": ["Switch the language: 中文", "切换语言：English"],
  "app.theme.dark": ["Dark", "深色"],
  "app.theme.light": ["Light", "浅色"],
  "app.loading": ["Opening the model …", "正在打开模型……"],
  "app.close": ["Close", "关闭"],
  "app.again": ["Try again", "再试一次"],
  "app.exported": [
    "An exported page: it holds these runs and cannot run the model. Open the model with {command} to ask anything else.",
    "这是导出的页面：它只含这几次运行，不能再运行模型。要问别的，请用 {command} 打开模型。",
  ],

  "screen.try": ["Try", "试一试"],
  "screen.attention": ["Who looks at whom", "谁在看谁"],
  "screen.sum": ["Show the sum", "算给你看"],
  "screen.roles": ["Head roles", "头的分工"],
  "screen.lens": ["Logit lens", "逐层预测"],
  "screen.compare": ["Compare", "对比"],
  "screen.take": ["Take away", "带走"],
  "screen.none.attention": ["This model has no attention to show.", "这个模型没有可以显示的注意力。"],
  "screen.none.roles": [
    "Head roles are measured on a model with a development set or a text to run on; this page has none.",
    "头的分工要在开发集或一段文本上测量；这一页没有。",
  ],
  "screen.none.lens": [
    "Only a decoder predicts a token at every layer; this model has none.",
    "只有解码器才能在每一层预测词元；这个模型没有解码器。",
  ],

  "model.size": ["{n} parameters", "{n} 个参数"],
  "model.layers.both": ["{encoder} + {decoder} layers", "{encoder} + {decoder} 层"],
  "model.layers.one": ["{n} layers", "{n} 层"],
  "model.heads": ["{n} heads", "{n} 个头"],
  "model.width": ["width {n}", "宽度 {n}"],
  "task.translation": ["translation", "翻译"],
  "task.language-model": ["language model", "语言模型"],
  "task.masked-lm": ["masked language model", "掩码语言模型"],
  "task.classification": ["classification", "分类"],
  "task.tagging": ["tagging", "序列标注"],
  "task.question-answering": ["question answering", "抽取式问答"],
  "task.embedding": ["text embedding", "文本向量"],

  "part.encoder.self": ["Encoder self-attention", "编码器自注意力"],
  "part.decoder.self": ["Decoder self-attention", "解码器自注意力"],
  "part.decoder.cross": ["Cross-attention", "交叉注意力"],
  "part.short.encoder.self": ["Encoder self", "编码器自注意力"],
  "part.short.decoder.self": ["Decoder self", "解码器自注意力"],
  "part.short.decoder.cross": ["Cross", "交叉注意力"],

  "pivot.label": ["Where you are", "当前位置"],
  "pivot.part": ["Kind of attention", "注意力种类"],
  "pivot.layer": ["layer {n} of {of}", "第 {n}/{of} 层"],
  "pivot.head": ["head {n} of {of}", "第 {n}/{of} 个头"],
  "pivot.writes": ["writes {token}", "写出 {token}"],
  "pivot.reads": ["reads {token}", "读入 {token}"],
  "pivot.reads-writes": ["reads {token}, writes {next}", "读入 {token}，写出 {next}"],
  "pivot.key": ["looks at {token}", "看 {token}"],
  "pivot.previous.layer": ["layer below", "下面一层"],
  "pivot.next.layer": ["layer above", "上面一层"],
  "pivot.previous.head": ["previous head", "前一个头"],
  "pivot.next.head": ["next head", "后一个头"],
  "pivot.previous.token": ["previous token", "前一个词元"],
  "pivot.next.token": ["next token", "后一个词元"],
  "pivot.locked": ["held", "已锁定"],
  "pivot.unlock": ["Let go (Esc)", "解锁（Esc）"],

  "edits.label": ["What is changed in the model", "对模型做的改动"],
  "edits.remove": ["Undo: {edit}", "撤销：{edit}"],
  "edits.clear": ["Undo all", "全部撤销"],
  "edit.head": ["without head {head} of layer {layer}, {part}", "去掉{part}第 {layer} 层第 {head} 个头"],
  "edit.edge": [
    "without {query} → {key}, layer {layer}, head {head}, {part}",
    "去掉{part}第 {layer} 层第 {head} 个头的 {query} → {key}",
  ],
  "edit.edge.all": [
    "without {query} → {key}, layer {layer}, all heads, {part}",
    "去掉{part}第 {layer} 层所有头的 {query} → {key}",
  ],
  "edit.unscaled": ["without 1/√dₖ", "不除以 √dₖ"],
  "edit.unmasked": ["without the causal mask", "不用因果掩码"],
  "edit.no-positions": ["without positions", "不用位置信息"],
  "edit.no-residual": [
    "without the residual connection of {sublayer} in layer {layer}, {stack}",
    "去掉{stack}第 {layer} 层 {sublayer} 的残差连接",
  ],
  "stack.encoder": ["encoder", "编码器"],
  "stack.decoder": ["decoder", "解码器"],

  "status.running": ["The model is running …", "模型正在运行……"],
  "status.changed": [
    "The model’s files changed on disk since this page was opened.",
    "模型文件在打开本页之后被改动过。",
  ],
  "status.reload": ["Open the new one", "打开新的模型"],
  "error.title": ["That did not work", "没有成功"],
  "error.no-answer": [
    "The page's server does not answer. Is {command} still running?",
    "页面的服务器没有回应。{command} 还在运行吗？",
  ],
  "error.needs-server": [
    "This needs the running model; an exported page only holds what was saved in it.",
    "这一步需要正在运行的模型；导出的页面只含保存下来的内容。",
  ],
  "error.expected": ["Expected {expected}; got {got}.", "应为 {expected}；实际是 {got}。"],

  "table.show": ["Table", "表格"],
});
