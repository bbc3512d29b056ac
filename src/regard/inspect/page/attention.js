/**
 * Screen 2, Who looks at whom: all heads at a glance, one of them as lines, matrix or table, and its numbers.
 *
 * What is unusual: a change of the pivot inside the same numbers moves frames and lines, and draws nothing else anew.
 * What it does not know: how numbers are fetched (`gaze.js`), drawn (`lines.js`, `matrix.js`) and worded
 * (`gaze_words.js`).
 */
import { store, partOf } from "./store.js";
import { Screen, el, keepFocus, heatmap, figure, percent } from "./draw.js";
import { t } from "./strings.js";
import { fail } from "./run.js";
import { choosePart } from "./pivot.js";
import { changesMade } from "./edits.js";
import { GazeData } from "./gaze.js";
import { GazeBars, gazeSentence, gazeTable } from "./gaze_words.js";
import { GazeActions } from "./actions.js";
import { LinesPicture } from "./lines.js";
import { MatrixPicture } from "./matrix.js";
import { Thumbs } from "./thumbs.js";
import { tileOf, tileMap } from "./tiles.js";

const EFFECTS_WAIT_MS = 200;
const MEASURES = ["weights", "norms", "effects"];
const PICTURES = ["lines", "matrix", "table"];

export class AttentionScreen extends Screen {
  build() {
    this.className = "attention";
    this.data = new GazeData({ half: (layer) => this.arrived(layer), exact: () => this.draw() });
    this.thumbs = new Thumbs();
    this.lines = new LinesPicture((side, place, held) =>
      this.point(side === "row" ? place : null, side === "key" ? place : null, held),
    );
    this.matrix = new MatrixPicture((row, key, held) => this.point(row, key, held));
    this.bars = new GazeBars((side, place) =>
      this.point(side === "row" ? place : null, side === "key" ? place : null, true),
    );
    this.actions = new GazeActions();
    this.controls = el("div", { class: "controls" });
    this.picture = el("div", { class: "picture" });
    this.words = el("p", { class: "words", "aria-live": "polite" });
    this.legend = el("div", { class: "legend" });
    this.map = el("div", {});
    this.changes = el("div", {});
    const centre = el("figure", { class: "centre" }, this.picture, el("figcaption", {}, this.legend, this.words));
    const aside = el(
      "div",
      { class: "attention-side" },
      this.thumbs.element,
      this.map,
      this.actions.element,
      el("p", { class: "honest" }, t("attention.honest")),
    );
    this.replaceChildren(
      el("h2", {}, t("screen.attention")),
      el("p", { class: "lead" }, t("attention.lead")),
      this.controls,
      this.changes,
      el("div", { class: "attention-body" }, aside, centre, this.bars.element),
    );
    this.listen(["view", "part", "measure", "layer"], () => this.fetch());
    this.listen(["part", "measure", "picture", "hideSpecials", "join", "heads", "view"], () => this.drawControls());
    this.listen(["head", "heads", "row", "key", "hideSpecials", "join", "picture", "locked", "edits"], (changed) =>
      this.follow(changed),
    );
    this.resize = new ResizeObserver(([entry]) => this.resized(Math.round(entry.contentRect.width)));
    this.resize.observe(this.picture);
    this.drawControls();
    this.fetch();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.resize.disconnect();
    clearTimeout(this.wait);
  }

  get kind() {
    return partOf(store.get("model"), store.get("part"));
  }

  async fetch() {
    if (!store.get("view") || !this.kind) return;
    if (this.laid !== this.kind.name) {
      this.laid = this.kind.name;
      this.thumbs.build(this.kind);
    }
    this.thumbs.mark();
    try {
      await this.data.fetch(this.leaving);
    } catch (error) {
      fail(error);
    }
    this.follow(new Set());
  }

  /** Only another width asks for another drawing; the height follows from what is drawn. */
  resized(width) {
    if (this.width !== width) this.redraw();
    this.width = width;
  }

  arrived(layer) {
    this.thumbs.paint(this.data, layer);
    this.redraw();
  }

  /** The pivot moved, or the way of showing changed. */
  follow(changed) {
    this.thumbs.mark();
    if (changed.has("hideSpecials") || changed.has("join")) this.thumbs.paint(this.data);
    if (store.get("measure") === "effects" && this.data.part && !this.data.hasEffects()) this.askEffects();
    this.draw();
  }

  askEffects() {
    clearTimeout(this.wait);
    this.wait = setTimeout(async () => {
      this.asking?.abort();
      this.asking = new AbortController();
      const { signal } = this.asking;
      try {
        await this.data.fetchEffects(AbortSignal.any([signal, this.leaving]));
        this.redraw();
      } catch (error) {
        if (signal.aborted || this.leaving.aborted) return;
        fail(error);
        store.set({ measure: "weights" });
      }
    }, EFFECTS_WAIT_MS);
  }

  redraw() {
    this.drawn = null;
    this.draw();
  }

  draw() {
    if (!this.data.part || this.data.part !== this.kind) return;
    const gaze = this.data.now();
    this.changes.replaceChildren(...[changesMade()].filter(Boolean));
    this.classList.toggle("waiting", gaze === null);
    if (gaze === null) {
      if (store.get("measure") === "effects") this.words.replaceChildren(t("attention.effects.wait"));
      return;
    }
    this.actions.draw(gaze);
    const tile = tileOf(gaze);
    const drawn = JSON.stringify([
      store.get("view").id,
      this.kind.name,
      store.get("layer"),
      store.get("head"),
      store.get("heads"),
      gaze.measure,
      store.get("hideSpecials"),
      store.get("join"),
      store.get("picture"),
      tile,
      gaze.measure === "effects" && gaze.row,
    ]);
    if (this.drawn === drawn && store.get("picture") !== "table") this.shown.mark(gaze, tile);
    else this.drawPicture(gaze, tile);
    this.drawn = drawn;
    this.words.replaceChildren(...gazeSentence(gaze));
    this.bars.draw(gaze);
  }

  drawPicture(gaze, tile) {
    const kind = store.get("picture");
    this.width = Math.round(this.picture.clientWidth);
    this.shown = { lines: this.lines, matrix: this.matrix }[kind] ?? null;
    const label = t("attention.picture", { part: t(`part.${this.kind.name}`) });
    if (!this.shown) this.picture.replaceChildren(gazeTable(gaze, tile));
    else {
      this.shown.label = label;
      if (this.picture.firstChild !== this.shown.element) this.picture.replaceChildren(this.shown.element);
      this.shown.draw(gaze, tile, {
        row: t(`attention.rows.${this.kind.name}`),
        key: t(`attention.keys.${this.kind.name}`),
      });
    }
    this.map.replaceChildren(...(tile.whole ? [] : [tileMap(gaze, tile, (row, key) => this.point(row, key, true))]));
    this.drawLegend(gaze);
  }

  /** The scale, by the same function as the colours. */
  drawLegend(gaze) {
    const steps = 128;
    const scale = el("canvas", { "aria-hidden": "true" });
    heatmap(scale, {
      data: Float32Array.from({ length: steps }, (_, i) => (i / (steps - 1)) ** 2),
      rows: 1,
      columns: steps,
      theme: store.get("theme"),
    });
    const ticks = [0, 0.05, 0.25, 0.5, 1].map((value) =>
      el(
        "span",
        { style: { left: `${100 * Math.sqrt(value)}%` }, translate: "no" },
        gaze.measure === "weights" ? percent(value, 0) : figure(value * gaze.max, 2),
      ),
    );
    this.legend.replaceChildren(
      el("span", { class: "label" }, t(`attention.measure.${gaze.measure}`)),
      el("div", { class: "scale" }, scale, el("div", { class: "ticks" }, ticks)),
    );
  }

  /** A place was passed over, or clicked; a click on what is held lets it go. */
  point(row, key, held) {
    if (store.get("locked") && !held) return;
    const groups = this.data.groups();
    const patch = {};
    if (row !== null) Object.assign(patch, { row: groups.rows[row].members[0], key: null });
    if (key !== null) patch.key = groups.columns[key].members[0];
    const same = Object.entries(patch).every(([name, value]) => store.get(name) === value);
    store.set(
      held && same && store.get("locked") ? { locked: false } : { ...patch, locked: held || store.get("locked") },
    );
  }

  drawControls() {
    if (!this.kind) return;
    const press = (name, options, word, value, onChoose) =>
      el(
        "div",
        { class: "choice", role: "group", "aria-label": t(`attention.${name}`) },
        el(
          "span",
          { class: "segments" },
          options.map((option) =>
            el(
              "button",
              {
                type: "button",
                "aria-pressed": String(option === value),
                dataset: { act: `${name}-${option}` },
                onclick: () => onChoose(option),
              },
              t(`${word}.${option}`),
            ),
          ),
        ),
      );
    const parts = store.get("model").parts.map((part) => part.name);
    const tabs = press("part", parts, "part.short", this.kind.name, choosePart);
    tabs.classList.add("tabs");
    const pictures = press("picture-choice", PICTURES, "attention.picture", store.get("picture"), (picture) =>
      store.set({ picture }),
    );
    const measure = el(
      "select",
      {
        "aria-label": t("attention.measure"),
        dataset: { act: "measure" },
        onchange: (event) => store.set({ measure: event.target.value }),
      },
      MEASURES.map((name) =>
        el("option", { value: name, selected: name === store.get("measure") }, t(`attention.measure.${name}`)),
      ),
    );
    const toggle = (name, checked, onchange) =>
      el(
        "label",
        { class: "toggle" },
        el("input", {
          type: "checkbox",
          checked,
          dataset: { act: name },
          onchange: (event) => onchange(event.target.checked),
        }),
        t(`attention.${name}`),
      );
    keepFocus(this.controls, () =>
      this.controls.replaceChildren(
        tabs,
        pictures,
        measure,
        toggle("specials", store.get("hideSpecials"), (hideSpecials) => store.set({ hideSpecials })),
        toggle("join", store.get("join"), (join) => store.set({ join })),
        toggle("mean", store.get("heads") !== null, (on) =>
          store.set({
            heads: on ? Array.from({ length: this.kind.heads }, (_, head) => [store.get("layer"), head]) : null,
          }),
        ),
      ),
    );
  }
}
