/**
 * Screen 5, the logit lens: what each layer would write, if the final norm and the head read it at once.
 *
 * What is unusual: the picture is a table of tokens that is a heat map too; the fuller a cell's colour, the nearer this
 * layer's distribution is to the last one's: 1 / (1 + KL). The page says that it is an approximation, for lower layers were never trained to be
 * read like this.
 * What it does not know: how a layer is read (`inspect/lens.py`).
 */
import { store, partOf } from "./store.js";
import { Screen, el, tokenText, colour, inkOn, percent, tokenDatum } from "./draw.js";
import { barLine } from "./chips.js";
import { t, phrase } from "./strings.js";
import { fail } from "./run.js";
import { numberText } from "./formulas.js";

const asToken = (text) => ({ text, kind: "text" });

/** The screen. */
export class LensScreen extends Screen {
  build() {
    this.className = "lens";
    this.grid = el("div", {
      class: "table-box lens-grid",
      tabindex: "0",
      role: "region",
      "aria-label": t("screen.lens"),
      hidden: true,
    });
    this.aside = el("aside", { class: "weighed", "aria-live": "polite", hidden: true });
    this.words = el("p", { class: "words" }, t("status.running"));
    this.replaceChildren(
      el("h2", {}, t("screen.lens")),
      el("p", { class: "lead" }, t("lens.lead")),
      this.scale(),
      el("div", { class: "lens-body" }, el("div", { class: "lens-main" }, this.grid, this.words), this.aside),
      el("p", { class: "honest" }, t("lens.honest")),
    );
    this.listen(["view"], () => this.load());
    this.listen(["row", "layer", "part"], () => this.lens && this.mark(this.pivotCell()));
    this.load();
  }

  /** What the colours mean: from far to equal. */
  scale() {
    const theme = store.get("theme");
    const cells = [0, 0.25, 0.5, 0.75, 1].map((share) =>
      el("span", { class: "lens-swatch", style: { "background-color": colour(share, theme) } }),
    );
    return el(
      "p",
      { class: "lens-scale" },
      t("lens.far"),
      el("span", { "aria-hidden": "true" }, cells),
      t("lens.near"),
    );
  }

  async load() {
    const view = store.get("view");
    if (!view?.target) return;
    try {
      const lens = await window.regard.source.lens(view.id, this.leaving);
      if (store.get("view") !== view || this.leaving.aborted) return;
      Object.assign(this, { lens, view });
      this.draw();
    } catch (error) {
      if (!this.leaving.aborted) fail(error);
    }
  }

  draw() {
    const { layers, top } = this.lens;
    const tokens = this.view.target.tokens;
    const head = el(
      "tr",
      {},
      el("th", { scope: "col" }, t("lens.reads")),
      tokens.map((token) => el("th", { scope: "col" }, tokenDatum(token))),
    );
    const line = (layer) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, this.layerName(layer)),
        top[layer].map((_, row) => this.cell(layer, row)),
      );
    const order = layers.map((_, layer) => layer).reverse();
    const writes = this.view.target.writes.map((one) => el("td", {}, one ? tokenDatum(one) : ""));
    const written = el("tr", { class: "lens-written" }, el("th", { scope: "row" }, t("lens.written")), writes);
    this.cells = new Map();
    const body = el("tbody", {}, written, order.map(line));
    this.grid.replaceChildren(el("table", {}, body, el("tfoot", {}, head)));
    for (const cell of this.grid.querySelectorAll("button")) this.cells.set(cell.dataset.cell, cell);
    this.grid.hidden = this.aside.hidden = false;
    this.mark(this.pivotCell());
  }

  layerName(layer) {
    const depth = layer - this.firstLayer() + 1;
    return depth > 0 ? t("lens.layer", { n: depth }) : t("lens.embedding");
  }

  /** Before layer 1 the lens may also read the embeddings. */
  firstLayer() {
    return this.lens.layers.length - partOf(store.get("model"), "decoder.self").layers;
  }

  cell(layer, row) {
    const [[text, p]] = this.lens.top[layer][row];
    const share = 1 / (1 + this.lens.divergence[layer][row]);
    const theme = store.get("theme");
    const show = () => this.show(layer, row);
    const choose = () => {
      const part = partOf(store.get("model"), store.get("part"));
      this.held = { layer, row };
      const to = part.queries === "target" ? part.name : "decoder.self";
      store.set({ part: to, row, layer: Math.max(0, layer - this.firstLayer()), key: null, locked: true });
      this.mark(this.held);
    };
    const shown = tokenText(asToken(text));
    const button = el(
      "button",
      {
        type: "button",
        class: "lens-cell",
        translate: "no",
        tabindex: "-1",
        dataset: { cell: `${layer}|${row}` },
        title: `${shown} ${percent(p)}`,
        style: { "background-color": colour(share, theme), color: inkOn(share, theme) },
        onmouseenter: show,
        onfocus: show,
        onmouseleave: () => this.show(this.now.layer, this.now.row),
        onclick: choose,
      },
      shown,
    );
    return el("td", {}, button);
  }

  /** The cell of the pivot: its row if that is one of the target's, its layer. */
  pivotCell() {
    const part = partOf(store.get("model"), store.get("part"));
    const rows = this.view.target.tokens.length;
    if (part?.queries !== "target")
      return { layer: this.lens.layers.length - 1, row: Math.min(store.get("row"), rows - 1) };
    const held =
      this.held &&
      this.held.row === store.get("row") &&
      Math.max(0, this.held.layer - this.firstLayer()) === store.get("layer");
    return held
      ? this.held
      : { layer: store.get("layer") + this.firstLayer(), row: Math.min(store.get("row"), rows - 1) };
  }

  mark(cell) {
    this.now = cell;
    for (const [name, button] of this.cells) {
      const on = name === `${cell.layer}|${cell.row}`;
      button.classList.toggle("current", on);
      button.setAttribute("aria-pressed", String(on));
      button.tabIndex = on ? 0 : -1;
    }
    this.bringIntoSight(this.cells.get(`${cell.layer}|${cell.row}`).parentElement);
    this.show(cell.layer, cell.row);
  }

  /** Scroll the table alone, never the page, to a cell's column; the layers' names stay in front of it. */
  bringIntoSight(column) {
    const names = this.grid.querySelector("tbody th").offsetWidth;
    const [left, right] = [column.offsetLeft - names, column.offsetLeft + column.offsetWidth - this.grid.clientWidth];
    if (this.grid.scrollLeft > left) this.grid.scrollLeft = left;
    if (this.grid.scrollLeft < right) this.grid.scrollLeft = right;
  }

  /** The ten likeliest of a cell, and where in the layers the model made up its mind. */
  show(layer, row) {
    const top = this.lens.top[layer][row];
    const values = { layer: this.layerName(layer), token: tokenDatum(this.view.target.tokens[row]) };
    const far = numberText(Math.max(0, this.lens.divergence[layer][row]), 2);
    this.aside.replaceChildren(
      el("h3", {}, phrase("lens.at", values)),
      el(
        "ol",
        { class: "bars" },
        top.map(([text, p], i) => barLine(tokenDatum(asToken(text)), p, percent(p), { current: i === 0 })),
      ),
      el("p", { class: "hint" }, t("lens.divergence", { nats: far })),
    );
    this.words.replaceChildren(...this.settled(row));
  }

  /** From which layer on the likeliest token stays what it is in the end. */
  settled(row) {
    const last = this.lens.layers.length - 1;
    const [[text]] = this.lens.top[last][row];
    let layer = last;
    while (layer > 0 && this.lens.top[layer - 1][row][0][0] === text) layer--;
    const token = tokenDatum(this.view.target.tokens[row]);
    const values = { token, said: tokenDatum(asToken(text)), layer: this.layerName(layer) };
    return phrase(layer === last ? "lens.settled.last" : "lens.settled", values);
  }
}
