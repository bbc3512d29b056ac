/**
 * Screen 6, compare: the pivot's head on two texts, in two models, or at two moments of one training.
 *
 * What is unusual: a moment of training is held to the words that the trained model wrote, so that rows mean the same and
 * one can watch an alignment appear; what it would have written itself stands beside it.
 * What it does not know: how attention is drawn (`sides.js`).
 */
import { store, partOf } from "./store.js";
import { Screen, el, datum, keepFocus, percent, tokenDatum } from "./draw.js";
import { t, phrase } from "./strings.js";
import { fail } from "./run.js";
import { numberText } from "./formulas.js";
import { heldTo, lossOf, outputText } from "./switches.js";
import { fetchSide, sameTokens, sideFigure, mostOf, rowOfSide, rowTable } from "./sides.js";

const PLAY_MS = 450;
const PLAY_MS_REDUCED = 1500;

/** The screen. */
export class CompareScreen extends Screen {
  build() {
    this.className = "compare";
    this.mode = null;
    this.modes = el("div", { class: "segments", role: "group", "aria-label": t("compare.with") });
    this.controls = el("div", { class: "compare-controls" });
    this.figures = el("div", { class: "sides", "aria-live": "off" });
    this.words = el("p", { class: "words", "aria-live": "polite" });
    this.table = el("details", { class: "side-table", hidden: true });
    const lead = el("p", { class: "lead" }, t("compare.lead"));
    this.replaceChildren(
      el("h2", {}, t("screen.compare")),
      lead,
      this.modes,
      this.controls,
      this.figures,
      this.words,
      this.table,
    );
    this.leaving.addEventListener("abort", () => this.stop());
    this.listen(["part", "layer", "head", "row"], () => this.draw());
    this.listen(["view"], () => this.renew());
    this.open();
  }

  /** What there is to compare with: a model beside this one, snapshots, or any other text. */
  async open() {
    this.model = store.get("model");
    const { source } = window.regard;
    try {
      this.others = await source.models();
    } catch (error) {
      return fail(error);
    }
    const alone = source.live ? null : "error.needs-server";
    const refusals = {
      text: null,
      model: alone ?? (this.others.length > 1 ? null : "compare.none.model"),
      steps: alone ?? (this.model.snapshots?.length ? null : "compare.none.steps"),
    };
    this.modes.replaceChildren(...Object.entries(refusals).map(([mode, reason]) => this.modeButton(mode, reason)));
    this.choose(refusals.model === null ? "model" : refusals.steps === null ? "steps" : "text");
  }

  modeButton(mode, reason) {
    const refuse = () => this.controls.replaceChildren(el("p", { class: "hint" }, t(reason)));
    return el(
      "button",
      {
        type: "button",
        class: "segment",
        dataset: { mode },
        "aria-disabled": reason ? "true" : null,
        title: reason && t(reason),
        onclick: () => (reason ? refuse() : this.choose(mode)),
      },
      t(`compare.mode.${mode}`),
    );
  }

  choose(mode) {
    this.stop();
    this.mode = mode;
    this.other = null;
    for (const button of this.modes.children) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    this.controls.replaceChildren(
      ...{ text: () => this.textControls(), model: () => [], steps: () => this.stepControls() }[mode](),
    );
    this.renew();
  }

  /** The left side has changed, or what it is compared with. */
  renew() {
    if (!this.mode || !store.get("view")) return;
    if (this.mode === "text") this.compareText();
    if (this.mode === "model") this.compareModel();
    if (this.mode === "steps") this.compareStep();
  }

  // ---------------------------------------------------------------- what stands on the right

  textControls() {
    const request = store.get("request");
    const others = this.model.examples
      .map(({ texts }) => texts)
      .filter((texts) => JSON.stringify(texts) !== JSON.stringify(request.texts));
    this.texts ??= others[0] ?? request.texts;
    this.boxes = request.texts.map((_, i) =>
      el(
        "textarea",
        {
          rows: 2,
          spellcheck: "false",
          dir: "auto",
          translate: "no",
          "aria-label": t(i ? "compare.text.second" : "compare.text"),
        },
        this.texts[i] ?? "",
      ),
    );
    return [
      el(
        "form",
        {
          class: "row",
          onsubmit: (event) => {
            event.preventDefault();
            this.texts = this.boxes.map((box) => box.value);
            this.renew();
          },
        },
        this.boxes,
        el("button", { type: "submit", class: "primary" }, t("compare.run")),
      ),
    ];
  }

  compareText() {
    const request = { ...store.get("request"), texts: this.texts, target: null, prefix: [], edits: store.get("edits") };
    return this.bring(t("compare.other"), this.model, () => window.regard.source.run(request, this.leaving));
  }

  async compareModel() {
    const view = store.get("view");
    try {
      this.second ??= await window.regard.source.model(1);
    } catch (error) {
      return fail(error);
    }
    const forced = view.target && this.second.can.force ? { target: view.text, prefix: [] } : {};
    const request = { ...store.get("request"), ...forced, edits: [], model: 1 };
    return this.bring(datum(this.second.name), this.second, () => window.regard.source.run(request, this.leaving));
  }

  stepControls() {
    const steps = this.model.snapshots;
    this.at ??= 0;
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: steps.length - 1,
      step: 1,
      value: this.at,
      "aria-label": t("compare.step.slider"),
      "aria-valuetext": this.stepName(),
      oninput: () => this.moveTo(Number(this.slider.value)),
    });
    this.playing = el(
      "button",
      { type: "button", class: "primary", onclick: () => (this.turn ? this.stop() : this.play()) },
      t("compare.play"),
    );
    this.stepLabel = el("output", { class: "step-label" }, this.stepName());
    return [
      el("div", { class: "row" }, this.playing, this.slider, this.stepLabel),
      el("p", { class: "hint" }, t("compare.watch")),
    ];
  }

  stepName() {
    return t("compare.steps", { n: this.model.snapshots[this.at].step.toLocaleString("en").replaceAll(",", "\u202f") });
  }

  moveTo(at) {
    this.at = at;
    this.slider.value = at;
    this.slider.setAttribute("aria-valuetext", this.stepName());
    this.stepLabel.replaceChildren(this.stepName());
    return this.compareStep();
  }

  compareStep() {
    const view = store.get("view");
    const snapshot = this.model.snapshots[this.at].id;
    const { source } = window.regard;
    const free = () => source.run({ ...store.get("request"), edits: store.get("edits"), snapshot }, this.leaving);
    const held = () => source.run(heldTo(view, { ...view.request, snapshot }), this.leaving);
    return this.bring(
      this.stepName(),
      this.model,
      view.target ? held : free,
      view.target && view.request.target === null ? free : null,
    );
  }

  /** From the first snapshot to the last, each as soon as it is there and the eye had its time. */
  async play() {
    const turn = (this.turn = {});
    this.playing.replaceChildren(t("compare.stop"));
    const pause = matchMedia("(prefers-reduced-motion: reduce)").matches ? PLAY_MS_REDUCED : PLAY_MS;
    if (this.at === this.model.snapshots.length - 1) await this.moveTo(0);
    while (this.turn === turn && this.at < this.model.snapshots.length - 1) {
      await Promise.all([this.moveTo(this.at + 1), new Promise((done) => setTimeout(done, pause))]);
    }
    if (this.turn === turn) this.stop();
  }

  stop() {
    this.turn = null;
    this.playing?.replaceChildren(t("compare.play"));
  }

  /** Make the right side's run (and, for `freely`, what it writes by itself), then draw; of several the last one asked for. */
  async bring(label, model, run, freely = null) {
    const wanted = (this.wanted = {});
    if (!this.figures.childElementCount) this.figures.replaceChildren(el("p", { class: "hint" }, t("status.running")));
    try {
      const view = await run();
      const free = freely ? await freely() : view;
      if (this.wanted !== wanted || this.leaving.aborted) return;
      this.other = { label, model, view, free };
      await this.draw();
    } catch (error) {
      if (this.wanted === wanted && !this.leaving.aborted) fail(error);
    }
  }

  // ---------------------------------------------------------------- drawing

  async draw() {
    const [view, other] = [store.get("view"), this.other];
    const part = view && partOf(this.model, store.get("part"));
    if (!other || !part || !view[part.queries]) return;
    const drawing = (this.drawing = {});
    try {
      const { source } = window.regard;
      const [left, right] = await Promise.all([
        fetchSide(source, view, this.model, this.leaving),
        fetchSide(source, other.view, other.model, this.leaving),
      ]);
      if (this.drawing !== drawing || this.leaving.aborted) return;
      this.show(left, right, other);
    } catch (error) {
      if (!this.leaving.aborted) fail(error);
    }
  }

  show(left, right, other) {
    const names = [
      this.mode === "text" ? t("compare.now") : this.mode === "model" ? datum(this.model.name) : t("compare.this"),
      other.label,
    ];
    const held = this.mode === "steps" && other.view.target ? other.view : null;
    const captions = [this.caption(names[0], left.view, null), this.caption(names[1], other.free, held)];
    const aligned = sameTokens(left, right);
    const figures = [sideFigure({ name: t("compare.left"), label: captions[0], side: left, act: "left" })];
    if (right.data)
      figures.push(sideFigure({ name: t("compare.right"), label: captions[1], side: right, act: "right" }));
    else figures.push(el("p", { class: "hint" }, captions[1], " ", t("compare.no.head")));
    if (aligned) {
      const [name, difference] = [t("compare.difference"), right.data.map((b, i) => b - left.data[i])];
      figures.push(
        sideFigure({ name, label: el("span", { class: "hint" }, name), side: left, act: "difference", difference }),
      );
    }
    const scrolled = [...this.figures.querySelectorAll(".side-box")].map((box) => [box.scrollLeft, box.scrollTop]);
    keepFocus(this.figures, () => this.figures.replaceChildren(...figures));
    [...this.figures.querySelectorAll(".side-box")].forEach((box, i) => scrolled[i] && box.scrollTo(...scrolled[i]));
    this.say(left, right, aligned, names);
    this.dataset.drawn = `${left.view.id} ${other.view.id}`;
  }

  caption(name, view, held) {
    const said = outputText(view);
    return el(
      "span",
      { class: "side-name" },
      el("b", {}, typeof name === "string" ? name : name.cloneNode(true)),
      said,
      held && el("span", { class: "hint" }, t("compare.loss", { nats: numberText(lossOf(held), 3) })),
    );
  }

  say(left, right, aligned, names) {
    const row = Math.min(store.get("row"), left.rows.length - 1);
    this.table.hidden = !aligned;
    if (!right.data) return this.words.replaceChildren();
    const most = (side) => {
      const at = Math.min(row, side.rows.length - 1);
      const { key, share } = mostOf(side, at);
      return phrase("compare.row", { row: tokenDatum(side.rows[at]), key: tokenDatum(key), share: percent(share) });
    };
    if (!aligned)
      return this.words.replaceChildren(
        ...most(left),
        "; ",
        ...most(right),
        t("compare.stop.mark"),
        " ",
        t("compare.no.difference"),
      );
    const [a, b] = [rowOfSide(left, row), rowOfSide(right, row)];
    const changes = Array.from(a, (x, j) => Math.abs(b[j] - x));
    const at = changes.indexOf(Math.max(...changes));
    const named = { row: tokenDatum(left.rows[row]), key: tokenDatum(left.columns[at]) };
    const values = { ...named, from: percent(a[at]), to: percent(b[at]) };
    this.words.replaceChildren(...phrase(changes[at] < 0.0005 ? "compare.words.same" : "compare.words", values));
    const open = this.table.open;
    const heads = names.map((name) => (typeof name === "string" ? name : name.cloneNode(true)));
    const summary = el("summary", {}, phrase("compare.table", { row: tokenDatum(left.rows[row]) }));
    this.table.replaceChildren(summary, rowTable(left, right, row, heads));
    this.table.open = open;
  }
}
