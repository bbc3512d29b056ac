/**
 * The help: what the page is, its keys, and how to read what it shows.
 *
 * What is unusual: nothing; it is the browser's own dialog, which keeps the focus and closes with Esc.
 * What it does not know: the model.
 */
import { Screen, el } from "./draw.js";
import { t, addStrings } from "./strings.js";

const HELP_KEYS = [
  [["1", "7"], "help.key.screens"],
  [["←", "→"], "help.key.token"],
  [["↑", "↓"], "help.key.layer"],
  [["[", "]"], "help.key.head"],
  [["n", "b"], "help.key.walk"],
  [["Esc"], "help.key.esc"],
  [["?"], "help.key.help"],
  [["t"], "help.key.theme"],
  [["l"], "help.key.language"],
];
const HELP_TEXTS = ["help.pivot", "help.row", "help.honest", "help.address"];

export class HelpDialog extends Screen {
  build() {
    const keys = HELP_KEYS.map(([caps, what]) =>
      el(
        "div",
        {},
        el(
          "dt",
          {},
          caps.map((cap, i) => [i && caps[0] === "1" ? " – " : " ", el("kbd", { translate: "no" }, cap)]),
        ),
        el("dd", {}, t(what)),
      ),
    );
    const close = el("button", { type: "button", onclick: () => this.dialog.close() }, t("app.close"));
    this.dialog = el(
      "dialog",
      { class: "help", "aria-labelledby": "help-title" },
      el("h2", { id: "help-title" }, t("help.title")),
      HELP_TEXTS.map((key) => el("p", {}, t(key))),
      el("h3", {}, t("help.keys")),
      el("dl", {}, keys),
      close,
    );
    this.replaceChildren(this.dialog);
  }

  toggle() {
    if (this.dialog.open) this.dialog.close();
    else this.dialog.showModal();
  }
}

addStrings({
  "help.title": ["How to read this page", "怎样读这一页"],
  "help.pivot": [
    "All screens share one place in the model: a kind of attention, a layer, a head, a token. It stands in the line under the menu. Passing over a token shows it; a click holds it.",
    "各屏共用模型里的同一个位置：一种注意力、一层、一个头、一个词元。它写在菜单下面的那一行。指到一个词元就显示它，点一下就锁定。",
  ],
  "help.row": [
    "A row of attention is what one token looks at; its weights sum to 1. In cross-attention a row is named after the token being written, in self-attention after the token being read.",
    "注意力的一行，是一个词元在看哪些词元；这一行的权重之和为 1。交叉注意力的一行用正在写出的词元命名，自注意力的一行用正在读入的词元命名。",
  ],
  "help.honest": [
    "Attention is a clue, not a cause. To know whether the model needs what it looks at, remove the edge or switch the head off, and see what it writes then.",
    "注意力是线索，不是原因。要知道模型是否真的需要它所看的东西，就去掉这条边或关掉这个头，再看它写出什么。",
  ],
  "help.address": [
    "The address of the page holds the text, the place and the changes made: copy it, and the same picture opens again.",
    "页面地址里存着文本、当前位置和所做的改动：复制这个地址，就能再次打开同一幅图。",
  ],
  "help.keys": ["Keys", "按键"],
  "help.key.screens": ["the seven screens", "七个屏"],
  "help.key.token": ["previous, next token", "前一个、后一个词元"],
  "help.key.layer": ["layer above, below", "上一层、下一层"],
  "help.key.head": ["previous, next head", "前一个、后一个头"],
  "help.key.walk": ["next, previous step of the sum", "算式的下一步、上一步"],
  "help.key.esc": ["let the token go", "解除锁定"],
  "help.key.help": ["this help", "打开这份帮助"],
  "help.key.theme": ["light, dark", "浅色、深色"],
  "help.key.language": ["English, 中文", "English、中文"],
});
