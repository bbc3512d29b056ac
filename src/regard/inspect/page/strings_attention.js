/**
 * The words of screens 2 and 7; see `strings.js`.
 *
 * What is unusual: the sentence under a picture is put together from pieces: who looks, how much, at what.
 * What it does not know: where they stand.
 */
import { addStrings } from "./strings.js";

/** Put them into the table. */
export function addAttentionStrings() {
  addStrings({
    "attention.lead": [
      "Every head of every layer. Pass over a token to see what it looks at; click to hold it.",
      "每一层的每一个头。指到一个词元，看它在看什么；点一下就锁定。",
    ],
    "attention.honest": [
      "Attention is a clue, not a cause. Remove the edge or the head to test it.",
      "注意力是线索，不是原因。去掉这条边或这个头，才能检验它。",
    ],
    "attention.heads": ["All heads of this kind of attention", "这种注意力的所有头"],
    "attention.head": ["layer {layer}, head {head}", "第 {layer} 层第 {head} 个头"],
    "attention.axes.layer": ["layer", "层"],
    "attention.axes.head": ["head", "头"],
    "attention.part": ["Kind of attention", "注意力种类"],
    "attention.picture-choice": ["Show as", "显示为"],
    "attention.picture": ["{part} of one head", "{part}，一个头"],
    "attention.picture.lines": ["lines", "连线"],
    "attention.picture.matrix": ["matrix", "矩阵"],
    "attention.picture.table": ["table", "表格"],
    "attention.measure": ["Measure", "度量"],
    "attention.measure.weights": ["weight α", "权重 α"],
    "attention.measure.norms": ["weight × ‖v W_O‖", "权重 × ‖v W_O‖"],
    "attention.measure.effects": ["effect of removal", "去掉后的影响"],
    "attention.specials": ["hide special tokens", "隐藏特殊词元"],
    "attention.join": ["join words", "合并成词"],
    "attention.mean": ["mean of chosen heads", "所选头的平均"],
    "attention.rows.encoder.self": ["it reads", "读入"],
    "attention.keys.encoder.self": ["and looks at", "在看"],
    "attention.rows.decoder.self": ["it reads", "读入"],
    "attention.keys.decoder.self": ["and looks at", "在看"],
    "attention.rows.decoder.cross": ["it writes", "写出"],
    "attention.keys.decoder.cross": ["and looks at the source", "在看原文"],
    "attention.looks": ["{row} looks at", "{row} 在看"],
    "attention.seen": ["{key} is looked at by", "在看 {key} 的是"],
    "attention.all": ["all {n}", "全部 {n} 个"],
    "attention.fewer": ["fewer", "收起"],
    "attention.table": ["The numbers of the picture", "图中的数"],
    "attention.caption.weights": [
      "α: each row is what one token looks at, and sums to 1",
      "α：每一行是一个词元在看什么，和为 1",
    ],
    "attention.caption.norms": [
      "α times the length of v W_O: how long the vector is that a key adds",
      "α 乘 v W_O 的长度：一个键加进来的向量有多长",
    ],
    "attention.caption.effects": [
      "log probability with the edge minus without it, in nats",
      "有这条边与没有这条边的对数概率之差，单位为奈特",
    ],
    "attention.map": ["The whole matrix; click to go to a piece of it", "整个矩阵；点击可转到其中一块"],
    "attention.tile": [
      "Rows {first} to {last} of {of}, columns {left} to {right} of {width}. Click the map to move.",
      "第 {first}–{last} 行（共 {of} 行），第 {left}–{right} 列（共 {width} 列）。点击小图可以移动。",
    ],
    "attention.effects.wait": ["Removing each edge of this row in turn …", "正在逐一去掉这一行的各条边……"],
    "attention.words.head": ["head {head} of layer {layer}", "第 {layer} 层第 {head} 个头"],
    "attention.words.mean": ["the mean of {n} heads", "{n} 个头的平均"],
    "attention.words.writing": ["When it writes {row}, ", "写出 {row} 时，"],
    "attention.words.reading": ["Reading {row}, ", "读入 {row} 时，"],
    "attention.words.weights": ["{head} gives {value} to {key}", "{head}把 {value} 的注意力给了 {key}"],
    "attention.words.then": [", then {value} to {key}", "，其次把 {value} 给了 {key}"],
    "attention.words.norms": [
      "{head} adds a vector of length {value} from {key}",
      "{head}从 {key} 加进一个长度为 {value} 的向量",
    ],
    "attention.words.effects.positive": [
      "{head} needs {key}: without that edge the log probability of what the model says falls by {value} nats",
      "{head}需要 {key}：去掉这条边，模型所说内容的对数概率下降 {value} 奈特",
    ],
    "attention.words.effects.negative": [
      "{head} would do better without {key}: without that edge the log probability of what the model says rises by {value} nats",
      "{head}不看 {key} 反而更好：去掉这条边，模型所说内容的对数概率上升 {value} 奈特",
    ],
    "attention.words.effects.none": [
      "{head} does not need {key}: without that edge the log probability of what the model says stays the same to {value} nats",
      "{head}并不需要 {key}：去掉这条边，模型所说内容的对数概率几乎不变（{value} 奈特）",
    ],
    "attention.words.end": [".", "。"],
    "attention.words.left-out": [
      "{value} of the row went to tokens that are hidden; the rest is shown as if it were all.",
      "这一行有 {value} 给了隐藏的词元；其余部分按合计为 1 显示。",
    ],
    "attention.words.hidden": ["The chosen token is hidden; choose another one.", "所选的词元已隐藏，请另选一个。"],
    "attention.words.unseen": ["That token cannot be seen from here.", "从这里看不到那个词元。"],
    "attention.words.none": ["Nothing can be seen from here.", "从这里什么也看不到。"],
    "attention.remove.edge": ["Remove {row} → {key}", "去掉 {row} → {key}"],
    "attention.restore.edge": ["Put back {row} → {key}", "恢复 {row} → {key}"],
    "attention.remove.head": ["Switch this head off", "关掉这个头"],
    "attention.restore.head": ["Put this head back", "恢复这个头"],
    "attention.remove.heads": ["Switch these {n} heads off", "关掉这 {n} 个头"],
    "attention.restore.heads": ["Put these {n} heads back", "恢复这 {n} 个头"],

    "take.lead": [
      "Keep what you see: as an address, a picture, numbers, or the whole page in one file.",
      "把看到的带走：地址、图、数据，或者整页存成一个文件。",
    ],
    "take.link": ["This place", "这个位置"],
    "take.link.what": [
      "The address holds the text, the token and head, and the changes made. It opens on this machine while {command} runs.",
      "地址里存着文本、词元、头和所做的改动。{command} 运行时，可以在本机打开。",
    ],
    "take.copy": ["Copy the address", "复制地址"],
    "take.copied": ["Copied.", "已复制。"],
    "take.select": [
      "Copying was refused; the address is selected, press Ctrl+C.",
      "浏览器不允许复制；地址已选中，请按 Ctrl+C。",
    ],
    "take.picture": ["This picture", "这幅图"],
    "take.picture.what": ["What screen 2 shows, with its sentence.", "第 2 屏显示的图和说明。"],
    "take.png": ["Save as PNG", "存为 PNG"],
    "take.svg": ["Save as SVG", "存为 SVG"],
    "take.numbers": ["These numbers", "这些数"],
    "take.numbers.what": [
      "Every tensor of this run under its name, for numpy.load.",
      "这次运行的每个张量，按名称存放，可用 numpy.load 读取。",
    ],
    "take.npz": ["Save as NPZ", "存为 NPZ"],
    "take.page": ["This page", "这一页"],
    "take.page.what": [
      "One HTML file with this run inside: it opens from a disk, without a network and without the model.",
      "一个含有这次运行的 HTML 文件：不用网络、不用模型，直接就能打开。",
    ],
    "take.html": ["Save as HTML", "存为 HTML"],
    "take.left-out": ["Too large for this file, and left out: {names}.", "因体积太大而没有放进这个文件：{names}。"],
    "take.caption": ["{model}: {sentence}", "{model}：{sentence}"],
  });
}
