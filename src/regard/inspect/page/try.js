/**
 * Screen 1, Try: type a text, see what the model makes of it, token by token.
 *
 * What is unusual: typing runs the model after a moment's rest and gives up the run before. The form keeps its
 * elements, so that the caret stays where it is; only what the model gave is drawn anew.
 * What it does not know: how tasks differ beyond what the model says that it can do.
 */
import { store } from "./store.js";
import { Screen, el, keepFocus } from "./draw.js";
import { t } from "./strings.js";
import { ask } from "./run.js";
import { TryResult } from "./result.js";

const TYPING_MS = 300;
const SINGLE_BOX = { translation: "try.source", "language-model": "try.prompt" };
const MODES = ["greedy", "beam", "sample"];

export class TryScreen extends Screen {
  build() {
    this.model = store.get("model");
    this.className = "try";
    this.boxes = this.textBoxes();
    this.target = this.targetBox();
    this.settings = el("div", { class: "settings" });
    this.result = new TryResult();
    const side = el("div", { class: "try-out" }, this.settings, this.target, this.result.text);
    const examples = this.examples();
    this.replaceChildren(
      el("h2", {}, t("screen.try")),
      el("p", { class: "lead" }, t(`try.lead.${this.model.task}`)),
      el("div", { class: "try-sides" }, el("div", { class: "try-in" }, this.boxes, examples), side),
      this.result.tokens,
    );
    this.drawSettings();
    this.listen(["request"], () => this.follow());
    this.listen(["view", "join", "row", "part", "status"], () => this.result.draw());
    this.result.draw();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this.timer);
  }

  /** One box for a text, two for a pair. */
  textBoxes() {
    const { task, can } = this.model;
    const names = can.pairs
      ? task === "question-answering"
        ? ["try.question", "try.context"]
        : ["try.first-text", "try.second-text"]
      : [SINGLE_BOX[task] ?? "try.text"];
    const { texts } = store.get("request");
    return names.map((name, i) => {
      const box = el("textarea", {
        id: `text-${i}`,
        rows: "2",
        spellcheck: "false",
        dir: "auto",
        oninput: () => this.typed(),
      });
      box.value = texts[i] ?? "";
      return el("div", { class: "field" }, el("label", { for: `text-${i}` }, t(name)), box);
    });
  }

  targetBox() {
    const box = el("textarea", {
      id: "text-target",
      rows: "2",
      spellcheck: "false",
      dir: "auto",
      oninput: () => this.typed(),
    });
    box.value = store.get("request").target ?? "";
    return el("div", { class: "field" }, el("label", { for: "text-target" }, t("try.target")), box);
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => ask(this.written()), TYPING_MS);
  }

  /** What stands in the boxes, as a patch of the request; what was forced before belongs to the old text. */
  written() {
    const texts = this.boxes.map((field) => field.querySelector("textarea").value);
    const target = store.get("request").target === null ? null : this.target.querySelector("textarea").value;
    return { texts, target, prefix: [] };
  }

  /** Another part of the page, or the address, changed what is asked. */
  follow() {
    const { texts, target } = store.get("request");
    const put = (box, text) => {
      if (document.activeElement !== box) box.value = text;
    };
    this.boxes.forEach((field, i) => put(field.querySelector("textarea"), texts[i] ?? ""));
    if (target !== null) put(this.target.querySelector("textarea"), target);
    this.drawSettings();
  }

  examples() {
    if (!this.model.examples.length || !window.regard.source.live) return this.embeddedRuns();
    // what was typed after the command is an example too, and may be one of the data's
    const examples = [
      ...new Map(this.model.examples.map((one) => [JSON.stringify([one.texts, one.to]), one])).values(),
    ];
    const list = examples.map((example) =>
      this.exampleLine(example.texts, () =>
        ask({ texts: example.texts, to: example.to ?? store.get("request").to, target: null, prefix: [] }),
      ),
    );
    return el("div", { class: "examples" }, el("p", { class: "label" }, t("try.examples")), el("ul", {}, list));
  }

  embeddedRuns() {
    const runs = window.regard.source.runs ?? [];
    if (runs.length < 2) return null;
    const list = runs.map((run) =>
      this.exampleLine([run.request.to ?? "", ...run.request.texts].filter(Boolean), () =>
        ask({ texts: run.request.texts, to: run.request.to, target: run.request.target, prefix: [] }),
      ),
    );
    return el("div", { class: "examples" }, el("p", { class: "label" }, t("try.runs")), el("ul", {}, list));
  }

  exampleLine(texts, onclick) {
    return el(
      "li",
      {},
      el("button", { type: "button", class: "example", translate: "no", dir: "auto", onclick }, texts.join(" · ")),
    );
  }

  /** Where to, how, and whether the model or the reader writes. */
  drawSettings() {
    const { model } = this;
    const request = store.get("request");
    this.target.hidden = request.target === null;
    this.settings.hidden = !model.can.write;
    if (!model.can.write) return;
    const languages = model.targets.length
      ? this.choice(
          "to",
          t("try.to"),
          model.targets.map((code) => [code, code]),
          request.to ?? model.targets[0],
          (to) => ask({ to, prefix: [] }),
        )
      : null;
    const forced = request.target !== null;
    const who = model.can.force
      ? this.choice(
          "who",
          t("try.who"),
          [
            ["write", t("try.write")],
            ["force", t("try.force")],
          ],
          forced ? "force" : "write",
          (value) => this.force(value === "force"),
        )
      : null;
    const modes = forced
      ? null
      : this.choice(
          "mode",
          t("try.mode"),
          MODES.map((mode) => [mode, t(`try.mode.${mode}`)]),
          request.mode,
          (mode) => ask({ mode, prefix: [] }),
        );
    const detail = forced ? null : this.modeDetail(request);
    keepFocus(this.settings, () => this.settings.replaceChildren(...[languages, who, modes, detail].filter(Boolean)));
  }

  /** Let the reader write the target: it begins as what the model wrote. */
  force(on) {
    const text = on ? (store.get("view")?.text ?? "") : null;
    if (on) this.target.querySelector("textarea").value = text;
    ask({ target: text, prefix: [] });
  }

  modeDetail(request) {
    if (request.mode === "beam") {
      return this.choice(
        "beam",
        t("try.beam"),
        [2, 4, 8].map((n) => [n, String(n)]),
        request.beam,
        (beam) => ask({ beam }),
      );
    }
    if (request.mode !== "sample") return null;
    const shown = el("output", { translate: "no" }, request.temperature.toFixed(1));
    const slider = el("input", {
      type: "range",
      id: "temperature",
      dataset: { act: "temperature" },
      min: "0.1",
      max: "2",
      step: "0.1",
      value: String(request.temperature),
      oninput: (event) => (shown.textContent = Number(event.target.value).toFixed(1)),
      onchange: (event) => ask({ temperature: Number(event.target.value) }),
    });
    const dice = el(
      "button",
      { type: "button", dataset: { act: "again" }, onclick: () => ask({ seed: request.seed + 1 }) },
      t("try.again"),
    );
    return el(
      "div",
      { class: "choice" },
      el("label", { class: "label", for: "temperature" }, t("try.temperature")),
      slider,
      shown,
      dice,
    );
  }

  /** A few options of which one holds. */
  choice(name, label, options, value, onChoose) {
    const buttons = options.map(([option, text]) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(option === value),
          dataset: { act: `${name}-${option}` },
          translate: name === "to" ? "no" : null,
          onclick: () => option !== value && onChoose(option),
        },
        text,
      ),
    );
    return el(
      "div",
      { class: "choice", role: "group", "aria-label": label },
      el("span", { class: "label" }, label),
      el("span", { class: "segments" }, buttons),
    );
  }
}
