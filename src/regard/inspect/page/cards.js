/**
 * One step of the sum as a card: title, the chapter's formula with this pivot's numbers, a picture, words, the check.
 *
 * What is unusual: a badge is green only where the page's own computation and the server's number agree; else it is red
 * and gives both numbers. Beside it stands the function of model/equations.py that states the step.
 * What it does not know: how the steps are computed (`steps.js`), the walk from card to card (`sum.js`).
 */
import { store } from "./store.js";
import { el, svg, datum, tokenText, percent, tokenDatum } from "./draw.js";
import { barLine } from "./chips.js";
import { vectorStrips, vectorTable } from "./strips.js";
import { mathml, numberText } from "./formulas.js";
import { t, phrase } from "./strings.js";

/** Keys shown at most; of a longer text those that the row looks at most. */
const MOST_KEYS = 24;

/** A card. @param {object} step of stepsOf @param {object} facts @param {number} number from 1 */
export function stepCard(step, facts, number) {
  const formulas = step.functions.map((name) => facts.model.functions[name]).filter(Boolean);
  const sections = [...new Set(formulas.map(({ section }) => section.replace(/ variants$/, "")))];
  return el(
    "article",
    { class: "step-card", tabindex: "-1", dataset: { step: step.id }, "aria-labelledby": `step-${step.id}` },
    el(
      "header",
      {},
      el("span", { class: "card-number", "aria-hidden": "true" }, String(number)),
      el("h3", { id: `step-${step.id}` }, t(`sum.title.${step.id}`)),
      step.pictures.some(({ kind }) => kind === "vectors") && tableToggle(),
      sections.length > 0 &&
        el(
          "span",
          { class: "card-section", title: t("sum.section", { n: sections.join(", ") }) },
          `§ ${sections.join(", ")}`,
        ),
    ),
    el(
      "div",
      { class: "formulas", tabindex: "0", role: "group", "aria-label": t("sum.formula") },
      formulas.map(({ statement }) => el("div", { class: "formula" }, mathml(statement))),
      step.plugged.map((latex) => el("div", { class: "plugged" }, mathml(latex))),
    ),
    step.pictures.map((picture, i) => pictureOf(picture, facts, `${step.id}|${i}`)),
    el(
      "p",
      { class: "words" },
      step.words.map(([key, values], i) => [
        i && store.get("lang") !== "zh" ? " " : null,
        phrase(key, shownValues(values)),
      ]),
    ),
    (step.checks.length > 0 || formulas.length > 0) &&
      el(
        "footer",
        {},
        step.checks.map((check) => badge(check)),
        functionNames(step, facts),
      ),
  );
}

/** Values of a sentence as elements and texts: tokens, shares, a matrix's name. */
function shownValues(values) {
  const shown = { ...values };
  for (const name of ["token", "key", "first"]) if (shown[name]) shown[name] = tokenDatum(shown[name]);
  if (shown.matrix) shown.matrix = mathml(shown.matrix, false);
  for (const name of ["share", "p"]) if (typeof shown[name] === "number") shown[name] = percent(shown[name]);
  return shown;
}

/** Whether the browser computed the same, in words. */
export function badge({ name, difference, agree, mine, theirs }) {
  const values = {
    what: t(name),
    difference: numberText(difference, 2),
    mine: numberText(mine, 7),
    theirs: numberText(theirs, 7),
  };
  const words = t(agree ? (difference === 0 ? "sum.badge.equal" : "sum.badge.same") : "sum.badge.other", values);
  const mark = el("span", { class: "badge-mark", "aria-hidden": "true" }, agree ? "✓" : "✗");
  return el("p", { class: agree ? "badge agrees" : "badge differs" }, mark, " ", words);
}

function functionNames(step, facts) {
  const names = step.functions.filter((name) => facts.model.functions[name]);
  if (!names.length) return null;
  const { file } = facts.model.functions[names[0]];
  return el(
    "p",
    { class: "card-functions", translate: "no" },
    el("code", {}, file),
    names.map((name) => [" · ", el("code", {}, name)]),
  );
}

function pictureOf(picture, facts, act) {
  if (picture.kind === "vectors") return vectorsPicture(picture, facts, act);
  if (picture.kind === "keys") return keysPicture(picture, facts, act);
  if (picture.kind === "heads") return headsPicture(picture, facts, act);
  if (picture.kind === "turn") return turnPicture(picture);
  return topPicture(picture);
}

/** The keys worth a line, in their order. */
function keysShown(facts) {
  const order = Array.from(facts.alpha, (_, j) => j);
  if (order.length <= MOST_KEYS) return order;
  const most = order.sort((a, b) => facts.alpha[b] - facts.alpha[a]).slice(0, MOST_KEYS);
  return (most.includes(facts.key) ? most : [...most.slice(1), facts.key]).sort((a, b) => a - b);
}

function leftOut(facts) {
  const n = facts.nKeys - Math.min(facts.nKeys, MOST_KEYS);
  return n > 0 && el("p", { class: "hint" }, t("sum.left.out", { n, shown: MOST_KEYS }));
}

const chooseKey = (key) => store.set({ key, locked: true });

function rowLabel(row) {
  if (row.token) return tokenDatum(row.token);
  return row.note ? el("span", { class: "strip-note" }, t(row.note)) : null;
}

/** Strips, and the table behind them, made when it is asked for: a press on the card's `tableToggle` changes one for the other. */
function vectorsPicture(picture, facts, act) {
  const ofKeys = picture.rows[0]?.key !== undefined;
  const shown = ofKeys ? { ...picture, rows: keysShown(facts).map((j) => picture.rows[j]) } : picture;
  const strips = vectorStrips(shown, {
    theme: store.get("theme"),
    label: rowLabel,
    onKey: chooseKey,
    chosen: facts.key,
    act,
  });
  const figure = el(
    "figure",
    { class: "vectors" },
    picture.name && el("p", { class: "label" }, t(picture.name)),
    strips,
    ofKeys && leftOut(facts),
  );
  figure.addEventListener("table", ({ detail }) => {
    figure.replaceChild(
      detail ? vectorTable(shown, rowLabel) : strips,
      figure.querySelector(detail ? ".strips" : ".table-box"),
    );
  });
  return figure;
}

function tableToggle() {
  const toggle = el(
    "button",
    {
      type: "button",
      class: "quiet table-toggle",
      "aria-pressed": "false",
      onclick: () => {
        const table = toggle.getAttribute("aria-pressed") === "false";
        toggle.setAttribute("aria-pressed", String(table));
        for (const figure of toggle.closest(".step-card").querySelectorAll(".vectors"))
          figure.dispatchEvent(new CustomEvent("table", { detail: table }));
      },
    },
    t("table.show"),
  );
  return toggle;
}

/** A number for each key, as bars that can be clicked. */
function keysPicture({ bars, values, heading, signed, struck = false }, facts, act) {
  const shown = keysShown(facts);
  const most = Math.max(...shown.map((j) => Math.abs(bars[j])).filter(Number.isFinite), 1e-12);
  const lines = shown.map((j) => {
    const hidden = struck && !facts.mask[j];
    const name = datum(tokenText(facts.keys[j]), hidden ? "token struck" : "token");
    const current = j === facts.key;
    const number = numberText(values[j], 3);
    const share = Number.isFinite(bars[j]) ? bars[j] / (signed ? most : 1) : 0;
    const button = { onclick: () => chooseKey(j), dataset: { act: `${act}|${j}` } };
    return barLine(name, share, number, { button, current, negative: bars[j] < 0 });
  });
  return el(
    "figure",
    { class: "keys" },
    el("p", { class: "label" }, t(heading)),
    el("ol", { class: "bars" }, lines),
    leftOut(facts),
  );
}

/** How much each head gives, and a way to it. */
function headsPicture({ values }, facts, act) {
  const most = Math.max(...values, 1e-12);
  const lines = values.map((value, head) => {
    const button = { onclick: () => store.set({ head }), dataset: { act: `${act}|${head}` } };
    return barLine(t("sum.head", { n: head + 1 }), value / most, numberText(value, 3), {
      button,
      current: head === facts.head,
    });
  });
  return el(
    "figure",
    { class: "heads" },
    el("p", { class: "label" }, t("sum.column.heads")),
    el("ol", { class: "bars" }, lines),
  );
}

/** The first pairs of q as arrows: pale where they were, dark where their position turned them to. */
function turnPicture({ pairs }) {
  const circles = pairs.map(({ n, angle, before, after }) => {
    const size = 1.15 * Math.max(Math.hypot(...before), 1e-9);
    const arrow = ([x, y], name) =>
      svg("line", { class: name, x1: 0, y1: 0, x2: (40 * x) / size, y2: (-40 * y) / size });
    const degrees = numberText(((angle * 180) / Math.PI) % 360, 3);
    return el(
      "div",
      { class: "turn" },
      svg(
        "svg",
        { viewBox: "-44 -44 88 88", role: "img", "aria-label": t("sum.turn.pair", { n: n + 1, degrees }) },
        svg("circle", { r: 34.8 }),
        arrow(before, "was"),
        arrow(after, "is"),
      ),
      el("span", { class: "turn-label" }, t("sum.turn.pair", { n: n + 1, degrees })),
    );
  });
  return el("figure", { class: "turns" }, circles);
}

function topPicture({ rows, written }) {
  const name = (text) => tokenDatum({ text, kind: "text" });
  const lines = rows.map(({ id, text, p, logit }) =>
    barLine(name(text), p, `${percent(p)} · ${numberText(logit, 3)}`, { current: id === written }),
  );
  return el(
    "figure",
    { class: "keys" },
    el("p", { class: "label" }, t("sum.column.top")),
    el("ol", { class: "bars" }, lines),
  );
}
