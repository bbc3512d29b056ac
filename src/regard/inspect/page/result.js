/**
 * What the model gave for a text: the text, labels, spans; and its tokens as chips, with what else the model weighed.
 *
 * What is unusual: passing over a token that was written shades the tokens of the source by what it looked at there,
 * the mean over all heads of all layers; a first look, which screen 2 takes apart.
 * What it does not know: what is asked next; it calls `ask`.
 */
import { store, partOf } from "./store.js";
import { el, datum, keepFocus, tokenText, colour, inkOn, shade } from "./draw.js";
import { t, phrase } from "./strings.js";
import { ask, fail } from "./run.js";
import { chipRow, alternatives } from "./chips.js";
import { changesMade } from "./edits.js";
import { outputsSaid } from "./outputs.js";

const GAZE_MOST = 2e6; // weights: of a longer text nothing is shaded

/** Where in the target the model's own words begin: the row of tokens before is what it was given. */
function opening({ target: { texts, tokens } }) {
  const first = tokens.findIndex(({ kind, part }) => kind === "text" && part === texts.length - 1);
  return first < 0 ? tokens.length : first;
}

export class TryResult {
  constructor() {
    this.text = el("div", { class: "result-text", "aria-live": "polite" });
    this.tokens = el("section", { class: "result-tokens" });
    this.aside = el("aside", { class: "weighed", "aria-live": "polite" });
    this.gaze = null; // {mean: (T, S), columns: S} of cross-attention, once it is known
    this.shaded = el("p", { class: "hint shaded" }, t("try.shaded"));
  }

  draw() {
    const view = store.get("view");
    const stale = store.get("status").kind === "busy";
    this.text.classList.toggle("stale", stale);
    if (!view) return this.text.replaceChildren(stale ? el("p", { class: "hint" }, t("status.running")) : "");
    if (this.drawn === view && this.drawnJoin === store.get("join")) return this.mark();
    Object.assign(this, { drawn: view, drawnJoin: store.get("join") });
    this.text.replaceChildren(...this.said(view));
    keepFocus(this.tokens, () => this.tokens.replaceChildren(...this.chips(view)));
    this.showWritten(this.chosenRow());
    this.learnGaze(view);
  }

  /** The row that the pivot is on, if it is one of this side. @param {"source"|"target"} side */
  chosenIn(side) {
    const part = partOf(store.get("model"), store.get("part"));
    return part?.queries === side ? store.get("row") : null;
  }

  /** The row whose opinions are shown. */
  chosenRow() {
    return this.chosenIn(store.get("view").target ? "target" : "source");
  }

  mark() {
    for (const [name, chips] of [
      ["source", this.sourceChips],
      ["target", this.targetChips],
    ]) {
      const chosen = this.chosenIn(name) ?? -1;
      for (const chip of chips?.querySelectorAll("[data-token]") ?? []) {
        const first = Number(chip.dataset.token);
        const on = chosen >= first && chosen < first + Number(chip.dataset.count);
        chip.classList.toggle("chosen", on);
        chip.setAttribute("aria-pressed", String(on));
      }
    }
    this.showWritten(this.chosenRow());
  }

  /** The output in words, as the task has it. */
  said(view) {
    if (!view.target) return outputsSaid(view, store.get("model").task);
    const label = el("p", { class: "label" }, t(view.request.target === null ? "try.wrote" : "try.forced"));
    const [prompt, text] = view.target.texts.length > 1 ? view.target.texts : ["", view.text];
    const nothing = prompt || text ? null : el("span", { class: "hint" }, t("try.nothing"));
    const words = [
      prompt && el("span", { class: "prompt", translate: "no" }, prompt),
      el("span", { translate: "no" }, text),
      nothing,
    ];
    return [label, el("p", { class: "written", dir: "auto" }, words), ...this.forcedNote(view)];
  }

  forcedNote(view) {
    const { prefix } = store.get("request");
    if (!prefix.length) return [];
    const first = opening(view) - 1;
    const words = view.target.writes
      .slice(first, first + prefix.length)
      .filter(Boolean)
      .map(tokenText)
      .join(" ");
    const undo = el(
      "button",
      { type: "button", class: "quiet", onclick: () => ask({ prefix: [] }) },
      t("try.prefix.undo"),
    );
    return [el("p", { class: "hint" }, phrase("try.prefix", { words: datum(words, "token") }), " ", undo)];
  }

  chips(view) {
    const rows = [view.source && this.sourceRow(view), view.target && this.targetRow(view)].filter(Boolean);
    const join = el("input", {
      type: "checkbox",
      dataset: { act: "join" },
      checked: store.get("join"),
      onchange: (event) => store.set({ join: event.target.checked }),
    });
    const head = el(
      "div",
      { class: "tokens-head" },
      el("h3", {}, t("try.tokens")),
      el("label", { class: "toggle" }, join, t("try.join")),
    );
    const writes = view.target ?? view.source.writes;
    return [
      changesMade(),
      head,
      el("div", { class: "tokens-body" }, el("div", { class: "tokens-rows" }, rows), writes && this.aside),
    ].filter(Boolean);
  }

  sourceRow(view) {
    const { tokens, writes } = view.source;
    const guesses = writes ? tokens.map((token, i) => ({ ...token, p: writes[i]?.p ?? null })) : tokens;
    const show = writes ? { onShow: (i) => this.look(i) } : {};
    const label = t("try.tokens.source");
    this.sourceChips = chipRow(guesses, {
      label,
      join: store.get("join"),
      chosen: this.chosenIn("source"),
      onChoose: (i) => this.choose("source", i),
      ...show,
    });
    const shaded = view.parts.includes("decoder.cross") ? this.shaded : null;
    return [el("p", { class: "label" }, label), this.sourceChips, shaded];
  }

  targetRow(view) {
    const writes = view.target.writes.map((token) => token ?? { text: "…", kind: "lead", word: -1 });
    const [first, forced] = [opening(view) - 1, store.get("request").prefix.length];
    const given = (i) => i < first + forced;
    const label = t(first > 0 ? "try.tokens.continues" : "try.tokens.target");
    const how = {
      onShow: (i) => this.look(i),
      onHide: () => this.shade(null),
      onChoose: (i) => this.choose("target", i),
      given,
    };
    this.targetChips = chipRow(writes, { label, join: store.get("join"), chosen: this.chosenIn("target"), ...how });
    const [lead] = view.target.tokens; // a language model without a token of beginning says nothing of the first
    if (lead.kind === "text")
      this.targetChips.prepend(
        el("span", { class: "chip kind-lead", translate: "no" }, el("span", { class: "chip-text" }, tokenText(lead))),
      );
    return [el("p", { class: "label" }, label), this.targetChips];
  }

  /** Take the pivot to a token of a side, in the kind of attention that it asks in. */
  choose(side, row) {
    const [model, parts] = [store.get("model"), store.get("view").parts];
    const now = partOf(model, store.get("part"));
    const fits = parts.map((name) => partOf(model, name)).filter((part) => part.queries === side);
    if (!fits.length) return;
    const part = now?.queries === side ? now : fits.at(-1);
    store.set({ part: part.name, row, key: null, locked: true });
  }

  look(row) {
    this.showWritten(row);
    this.shade(row);
  }

  showWritten(row) {
    const view = store.get("view");
    const side = view?.target ?? view?.source;
    const written = row === null ? null : side?.writes?.[row];
    if (!written)
      return this.aside.replaceChildren(el("p", { class: "hint" }, t(view?.target ? "try.hover" : "try.hover.masked")));
    const free = view.target && view.request.target === null && window.regard.source.live && row >= opening(view) - 1;
    const see = () => {
      this.choose(side.name, row);
      store.set({ screen: "attention" });
    };
    const button = view.parts.length
      ? el("button", { type: "button", dataset: { act: "see" }, onclick: see }, t("try.see"))
      : null;
    this.aside.replaceChildren(
      ...[...alternatives(written, free ? ([, id]) => this.instead(row, id) : null), button].filter(Boolean),
    );
  }

  /** Decode on from another token at this place: all before it stays as it was. */
  instead(row, id) {
    const view = store.get("view");
    const before = view.target.writes.slice(opening(view) - 1, row).map((token) => token.id);
    ask({ prefix: [...before, id], target: null });
  }

  /** Fetch cross-attention once for a view, for `shade`. */
  async learnGaze(view) {
    this.gaze = null;
    const cross = view.parts.includes("decoder.cross") ? partOf(store.get("model"), "decoder.cross") : null;
    const size = view.target && view.source ? view.target.tokens.length * view.source.tokens.length : 0;
    if (!cross || cross.layers * cross.heads * size > GAZE_MOST) return;
    try {
      const { shape, data } = (
        await window.regard.source.tensors(view.id, ["decoder.cross.weights"], { dtype: "float16" })
      ).get("decoder.cross.weights");
      const [layers, heads, rows, columns] = shape;
      const mean = new Float32Array(rows * columns);
      data.forEach((weight, i) => (mean[i % mean.length] += weight / (layers * heads)));
      if (store.get("view") === view) this.gaze = { mean, columns };
    } catch (error) {
      fail(error);
    }
  }

  /** Shade the source by what one row looked at; null: by nothing. */
  shade(row) {
    const theme = store.get("theme");
    this.shaded.classList.toggle("shown", row !== null && this.gaze !== null);
    for (const chip of this.sourceChips?.children ?? []) {
      const first = Number(chip.dataset.token);
      const places =
        row === null || !this.gaze
          ? []
          : Array.from({ length: Number(chip.dataset.count) }, (_, i) => row * this.gaze.columns + first + i);
      const strength = shade(places.reduce((sum, place) => sum + this.gaze.mean[place], 0));
      chip.style.setProperty("background-color", places.length ? colour(strength, theme) : "");
      chip.firstElementChild.style.setProperty("color", places.length ? inkOn(strength, theme) : "");
    }
  }
}
