/**
 * All heads of a part at a glance: a grid of small pictures, layers from the bottom up, heads from left to right.
 *
 * What is unusual: one of the pictures takes the tab key, the rest are reached by the page's keys, so that 48 heads
 * are not 48 stops. In "mean" a click adds a head or takes it away.
 * What it does not know: where weights come from.
 */
import { store } from "./store.js";
import { el, heatmap } from "./draw.js";
import { t } from "./strings.js";

const THUMB_MOST = 160; // pixels: a longer text is thinned, keeping the largest of each patch

export class Thumbs {
  constructor() {
    this.element = el("div", { class: "thumbs", role: "group", "aria-label": t("attention.heads") });
    this.buttons = new Map(); // "layer|head" -> button
  }

  /** Lay the grid out for a part. */
  build(part) {
    this.part = part;
    this.buttons.clear();
    this.element.style.setProperty("--heads", part.heads);
    const numbers = (n, first) =>
      Array.from({ length: n }, (_, i) =>
        el("span", { class: "thumb-number", "aria-hidden": "true" }, String(i + first)),
      );
    const lines = Array.from({ length: part.layers }, (_, i) => part.layers - 1 - i).flatMap((layer) => [
      el("span", { class: "thumb-number", "aria-hidden": "true" }, String(layer + 1)),
      ...Array.from({ length: part.heads }, (_, head) => this.button(layer, head)),
    ]);
    const axes = [
      el("span", { class: "thumb-axis", "aria-hidden": "true" }, t("attention.axes.layer"), " ↑"),
      el("span", { class: "thumb-axis right", "aria-hidden": "true" }, t("attention.axes.head"), " →"),
    ];
    const grid = el(
      "div",
      { class: "thumb-grid" },
      lines,
      el("span", { "aria-hidden": "true" }),
      numbers(part.heads, 1),
    );
    grid.style.setProperty("--heads", part.heads);
    this.element.replaceChildren(el("div", { class: "thumb-axes" }, axes), grid);
    this.mark();
  }

  button(layer, head) {
    const button = el(
      "button",
      {
        type: "button",
        class: "thumb",
        "aria-label": t("attention.head", { layer: layer + 1, head: head + 1 }),
        onclick: () => this.choose(layer, head),
      },
      el("canvas", { "aria-hidden": "true" }),
    );
    this.buttons.set(`${layer}|${head}`, button);
    return button;
  }

  choose(layer, head) {
    const chosen = store.get("heads");
    if (!chosen) return store.set({ layer, head });
    const rest = chosen.filter(([l, h]) => l !== layer || h !== head);
    store.set({ layer, head, heads: rest.length < chosen.length && rest.length ? rest : [...rest, [layer, head]] });
  }

  /** Draw those of one layer, or of all. @param {import("./gaze.js").GazeData} data */
  paint(data, only = null) {
    const groups = data.groups();
    const max = data.end();
    for (let layer = 0; layer < this.part.layers; layer++) {
      if (only !== null && layer !== only) continue;
      for (let head = 0; head < this.part.heads; head++) {
        const values = data.thumbnail(layer, head, groups);
        if (!values) continue;
        const size = { rows: groups.rows.length, columns: groups.columns.length };
        heatmap(this.buttons.get(`${layer}|${head}`).firstChild, {
          ...thinned(values, size),
          theme: store.get("theme"),
          max,
        });
      }
    }
  }

  mark() {
    const chosen = new Set((store.get("heads") ?? []).map(([layer, head]) => `${layer}|${head}`));
    const pivot = `${store.get("layer")}|${store.get("head")}`;
    for (const [name, button] of this.buttons) {
      const on = chosen.size ? chosen.has(name) : name === pivot;
      button.classList.toggle("current", name === pivot);
      button.classList.toggle("chosen", chosen.has(name));
      button.setAttribute("aria-pressed", String(on));
      button.tabIndex = name === pivot ? 0 : -1;
    }
  }
}

/** At most THUMB_MOST pixels a side: of each patch its largest value. */
function thinned(data, { rows, columns }) {
  const step = Math.ceil(Math.max(rows, columns) / THUMB_MOST);
  if (step === 1) return { data, rows, columns };
  const [short, narrow] = [Math.ceil(rows / step), Math.ceil(columns / step)];
  const out = new Float32Array(short * narrow);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const place = Math.floor(i / step) * narrow + Math.floor(j / step);
      out[place] = Math.max(out[place], data[i * columns + j]);
    }
  }
  return { data: out, rows: short, columns: narrow };
}
