/**
 * Vectors as strips of colour: one cell a number, blue above zero, orange below, the same scale for all of a picture.
 *
 * What is unusual: a scale ends at what all but the largest fiftieth of the numbers stay under, since one large number
 * would wash out all others; the exact numbers stand beside the strip and in the table behind it.
 * What it does not know: what the numbers are.
 */
import { el, oklchToRgb } from "./draw.js";
import { mathml, numberText } from "./formulas.js";
import { t } from "./strings.js";

/** Lightness and chroma from zero to the end of the scale, and the hues below and above zero. */
const SIGNED = {
  light: { zero: [0.965, 0.004], end: [0.5, 0.145] },
  dark: { zero: [0.26, 0.008], end: [0.8, 0.13] },
};
const SIGNED_HUES = { below: 55, above: 252 };
const signedTables = {};

/** 511 colours from -1 to 1. */
function signedTable(theme) {
  const { zero, end } = SIGNED[theme];
  signedTables[theme] ??= Array.from({ length: 511 }, (_, i) => {
    const share = (i - 255) / 255;
    const mix = (n) => zero[n] + Math.abs(share) ** 0.8 * (end[n] - zero[n]);
    return oklchToRgb(mix(0), mix(1), share < 0 ? SIGNED_HUES.below : SIGNED_HUES.above);
  });
  return signedTables[theme];
}

/** The size of number at which the colours end. */
function signedEnd(...vectors) {
  const sizes = vectors.flatMap((data) => Array.from(data, Math.abs)).sort((a, b) => a - b);
  return sizes[Math.floor(0.98 * (sizes.length - 1))] || sizes.at(-1) || 1;
}

/** A matrix in the colours of signed numbers, a cell a pixel; CSS makes it large. */
export function signedMap(canvas, { data, rows, columns, theme, end }) {
  canvas.width = columns;
  canvas.height = rows;
  const picture = new ImageData(columns, rows);
  const table = signedTable(theme);
  for (let i = 0; i < rows * columns; i++) {
    const share = Math.max(-1, Math.min(1, data[i] / end));
    picture.data.set(table[255 + Math.round(255 * share)], 4 * i);
    picture.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/**
 * Named vectors under one another, with a rule before the last one where it is what the others make.
 * @param {{rows: object[], total?: object}} picture rows of {latex, data, token?, note?, key?, faint?}
 * @param {{theme: string, label: (row: object) => Node|null, onKey?: (key: number) => void, chosen?: number|null, act?: string}} how
 *   `act`: what `keepFocus` knows the rows by
 */
export function vectorStrips({ rows, total = null }, { theme, label, onKey = null, chosen = null, act = "" }) {
  const end = signedEnd(...rows.map((row) => row.data), ...(total ? [total.data] : []));
  const all = total ? [...rows, { ...total, total: true }] : rows;
  return el(
    "div",
    { class: "strips" },
    all.map((row) => stripLine(row, { theme, end, label, onKey, chosen, act })),
  );
}

function stripLine(row, { theme, end, label, onKey, chosen, act }) {
  const canvas = el("canvas", { class: "strip", "aria-hidden": "true" });
  signedMap(canvas, { data: row.data, rows: 1, columns: row.data.length, theme, end });
  const first = Array.from(row.data.slice(0, 3), (x) =>
    Math.abs(x) < 1e-3 && x !== 0 ? x.toExponential(0).replace("-", "−") : numberText(x, 3),
  );
  const inside = [
    el("span", { class: "strip-name" }, el("span", { class: "strip-symbol" }, mathml(row.latex, false)), label(row)),
    canvas,
    el("span", { class: "strip-numbers", translate: "no" }, `${first.join("  ")}${row.data.length > 3 ? "  …" : ""}`),
  ];
  const names = [
    "strip-line",
    row.total && "total",
    row.faint && "faint",
    row.key !== undefined && row.key === chosen && "current",
  ];
  const attributes = { class: names.filter(Boolean).join(" ") };
  if (row.key === undefined || !onKey) return el("div", attributes, inside);
  Object.assign(attributes, {
    type: "button",
    dataset: { act: `${act}|${row.key}` },
    "aria-pressed": String(row.key === chosen),
  });
  return el("button", { ...attributes, onclick: () => onKey(row.key) }, inside);
}

/** All numbers of such a picture as a table, a line a vector. */
export function vectorTable({ rows, total = null }, label) {
  const all = total ? [...rows, total] : rows;
  const widest = Math.max(...all.map((row) => row.data.length));
  const numbers = Array.from({ length: widest }, (_, n) => n);
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, t("sum.table.vector")),
    numbers.map((n) => el("th", { scope: "col", translate: "no" }, String(n + 1))),
  );
  const cells = (row) => Array.from(row.data, (x) => el("td", { translate: "no" }, numberText(x)));
  const lines = all.map((row) =>
    el("tr", {}, el("th", { scope: "row" }, mathml(row.latex, false), " ", label(row)), cells(row)),
  );
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, lines));
  return el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": t("table.show") }, table);
}
