/**
 * What each piece of the chapter is for: the same row without it, before and after side by side, and what is written then.
 *
 * What is unusual: two runs are made of a writing model. One is held to the tokens that were written, so that the row
 * means the same before and after; one writes freely, to see what becomes of the text.
 * What it does not know: how a piece is taken away (`inspect/edits.py`).
 */
import { partOf } from "./store.js";
import { el, datum, figure, keepFocus, percent, tokenDatum } from "./draw.js";
import { t, phrase } from "./strings.js";
import { numberText } from "./formulas.js";
import { largest } from "./maths.js";
import { fail } from "./run.js";

const SHOWN_KEYS = 12;

/** The switches that make sense for a pivot: {id, edit}. */
function switchesOf({ model, part, layer, head }) {
  const [stack, kind] = [part.name.split(".")[0], part.name.split(".")[1]];
  const decodes = model.parts.some((one) => one.name === "decoder.self");
  return [
    { id: "unscaled", edit: { kind: "unscaled" } },
    decodes && { id: "unmasked", edit: { kind: "unmasked" } },
    model.positions !== "none" && { id: "no-positions", edit: { kind: "no-positions" } },
    { id: "head", edit: { kind: "head", part: part.name, layer, head } },
    { id: "no-residual", edit: { kind: "no-residual", layer, stack, sublayer: `${kind}_attn` } },
  ].filter(Boolean);
}

/** The requests that show what an edit does: {held, free}; one and the same where nothing is written. */
export function editedRequests(view, edit) {
  const edits = [...(view.request.edits ?? []), edit];
  const free = { ...view.request, edits };
  if (!view.target) return { held: free, free };
  return { held: heldTo(view, { ...view.request, edits }), free };
}

/** A request that must say what this view says. Of a text that was typed the target stands in the request already. */
export function heldTo(view, request) {
  if (!view.target || view.request.target !== null) return request;
  const last = view.target.texts.length - 1;
  const begun = view.target.tokens.findIndex((token) => (last === 0 ? token.kind === "text" : token.part === last));
  const from = begun < 0 ? view.target.tokens.length - 1 : begun - 1;
  return {
    ...request,
    mode: "greedy",
    max_tokens: 0,
    prefix: view.target.writes
      .slice(from)
      .filter(Boolean)
      .map((one) => one.id),
  };
}

/** The buttons and what they showed last. */
export class SwitchPanel {
  constructor(signal) {
    this.signal = signal;
    this.buttons = el("div", { class: "switch-row" });
    this.result = el("div", { class: "switch-result", "aria-live": "polite" });
    const title = t("sum.switch.title");
    this.element = el(
      "section",
      { class: "switch-panel", "aria-label": title },
      el("h3", {}, title),
      this.buttons,
      this.result,
    );
  }

  /** Follow a pivot; what was switched stays switched. */
  show(facts) {
    this.facts = facts;
    const switches = switchesOf(facts);
    if (!switches.some(({ id }) => id === this.chosen)) this.chosen = null;
    keepFocus(this.buttons, () => this.buttons.replaceChildren(...switches.map(({ id }) => this.button(id))));
    this.run();
  }

  button(id) {
    return el(
      "button",
      {
        type: "button",
        class: "switch",
        "aria-pressed": String(id === this.chosen),
        dataset: { switch: id, act: id },
        onclick: () => this.choose(id === this.chosen ? null : id),
      },
      t(`sum.switch.${id}`),
    );
  }

  choose(id) {
    this.chosen = id;
    for (const button of this.buttons.children)
      button.setAttribute("aria-pressed", String(button.dataset.switch === id));
    this.run();
  }

  async run() {
    const { facts, chosen } = this;
    if (!chosen) {
      this.result.replaceChildren();
      return;
    }
    const { edit } = switchesOf(facts).find(({ id }) => id === chosen);
    const { source } = window.regard;
    try {
      const { held, free } = editedRequests(facts.view, edit);
      const [heldView, freeView] = await runBoth(source, held, free, this.signal);
      const name = `${facts.part.name}.weights`;
      const rows = { dtype: "float32", rows: `${facts.row}:${facts.row + 1}` };
      const weights = (await source.tensors(heldView.id, [name], rows, this.signal)).get(name);
      if (this.facts !== facts || this.chosen !== chosen) return;
      this.result.replaceChildren(...this.words(facts, chosen, rowOfHead(weights, facts), heldView, freeView));
    } catch (error) {
      if (!this.signal.aborted) fail(error);
    }
  }

  words(facts, id, after, heldView, freeView) {
    const before = facts.alpha;
    const top = before.indexOf(Math.max(...before));
    const values = {
      token: tokenDatum(facts.named),
      key: tokenDatum(facts.keys[top]),
      from: percent(before[top]),
      to: percent(after[top]),
      before: figure(spread(before), 1),
      after: figure(spread(after), 1),
    };
    return [
      el("p", { class: "words" }, t(`sum.switch.purpose.${id}`)),
      el("p", { class: "words" }, phrase(id === "head" ? "sum.switch.head.effect" : "sum.switch.effect", values)),
      weightPairs(facts, before, after),
      outputPair(facts, freeView, heldView),
    ];
  }
}

async function runBoth(source, held, free, signal) {
  const heldView = await source.run(held, signal);
  return [heldView, held === free ? heldView : await source.run(free, signal)];
}

function rowOfHead({ shape, data }, { layer, head }) {
  const [, heads, rows, keys] = shape;
  const from = (layer * heads + head) * rows * keys;
  return data.subarray(from, from + keys);
}

/** To how many tokens a row's attention amounts: the exponential of its entropy; 1 is one token alone. */
export function spread(weights) {
  return Math.exp(weights.reduce((sum, a) => sum - (a > 0 ? a * Math.log(a) : 0), 0));
}

/** The keys that either row looks at most, with both weights. */
function weightPairs({ keys }, before, after) {
  const size = Array.from(keys, (_, j) => Math.max(before[j], after[j]));
  const most = largest(size, SHOWN_KEYS)
    .filter((j) => size[j] > 0)
    .sort((a, b) => a - b);
  const bar = (share, name) => {
    const filled = el("span", { class: `bar ${name}`, style: { width: `${(100 * share).toFixed(1)}%` } });
    const track = el("span", { class: "bar-track", "aria-hidden": "true" }, filled);
    return el(
      "td",
      {},
      el("span", { class: "pair" }, track, el("span", { class: "bar-number", translate: "no" }, percent(share))),
    );
  };
  const lines = most.map((j) =>
    el("tr", {}, el("th", { scope: "row" }, tokenDatum(keys[j])), bar(before[j], "before"), bar(after[j], "after")),
  );
  const head = el(
    "tr",
    {},
    ["sum.column.key", "sum.switch.with", "sum.switch.without"].map((key) => el("th", { scope: "col" }, t(key))),
  );
  return el("table", { class: "pairs" }, el("thead", {}, head), el("tbody", {}, lines));
}

/** What the model gives before and after: text, or labels with their probabilities. */
function outputPair({ view, model }, free, held) {
  const [before, after] = [outputText(view), outputText(free)];
  const line = (key, words) => el("div", { class: "output-line" }, el("span", { class: "label" }, t(key)), words);
  const loss = view.target && partOf(model, "decoder.self") ? lossOf(held) - lossOf(view) : null;
  return el(
    "div",
    { class: "outputs" },
    line("sum.switch.with", before ?? t("sum.switch.vectors")),
    line("sum.switch.without", after ?? t("sum.switch.vectors")),
    before &&
      el(
        "p",
        { class: "words" },
        t(before.textContent === after.textContent ? "sum.switch.equal" : "sum.switch.changed"),
      ),
    lossWords(loss),
  );
}

function lossWords(loss) {
  if (loss === null || !Number.isFinite(loss)) return null;
  return el(
    "p",
    { class: "words" },
    t(`sum.switch.${loss > 0 ? "worse" : "better"}`, { nats: numberText(Math.abs(loss), 2) }),
  );
}

/** Mean -log p of a target's tokens. */
export function lossOf(view) {
  const p = view.target.writes.filter((one) => one && one.p !== null).map((one) => one.p);
  return -p.reduce((sum, x) => sum + Math.log(x), 0) / p.length;
}

/** What a view gives, as an element. */
export function outputText(view) {
  if (view.text !== null && view.text !== undefined) return datum(view.text || "∅", "written");
  if (!view.outputs.length) return null;
  const one = ({ label, p }) => [datum(label, "token"), " ", el("span", { class: "numbers" }, percent(p)), " "];
  return el("span", { class: "labels" }, view.outputs.slice(0, 4).map(one));
}
