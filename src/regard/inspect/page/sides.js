/**
 * One side of a comparison: the attention of one head over one text as a matrix with its tokens, and the difference of two.
 *
 * What is unusual: a difference is drawn only where rows and columns mean the same on both sides, which the tokens tell.
 * What it does not know: where the two runs come from (`compare.js`).
 */
import { store, partOf, partSides, rowTokens } from "./store.js";
import { el, heatmap, percent, tokenDatum } from "./draw.js";
import { signedMap } from "./strips.js";
import { t } from "./strings.js";

/**
 * The weights of the pivot's head in a view.
 * @returns {Promise<object>} {view, model, rows, reads, columns, data (T x S)}; `rows` are named as in `rowTokens`; data is
 *   null where the model has no such head
 */
export async function fetchSide(source, view, model, signal) {
  const [part, layer, head] = [partOf(model, store.get("part")), store.get("layer"), store.get("head")];
  const fits = part.name === store.get("part") && layer < part.layers && head < part.heads;
  if (!fits || !view[part.queries] || !view[part.keys])
    return { view, model, rows: [], reads: [], columns: [], data: null };
  const name = `${part.path.replace("{layer}", layer)}.weights`;
  const { shape, data } = (await source.tensors(view.id, [name], { dtype: "float32" }, signal)).get(name);
  const size = shape[1] * shape[2];
  const { queries, keys } = partSides(view, part);
  return {
    view,
    model,
    rows: rowTokens(view, part),
    reads: queries,
    columns: keys,
    data: data.subarray(head * size, (head + 1) * size),
  };
}

/** Whether rows and columns of two sides mean the same: the same tokens were read. */
export function sameTokens(one, other) {
  const texts = (tokens) => tokens.map((token) => token.text).join("\n");
  return (
    one.data !== null &&
    other.data !== null &&
    texts(one.columns) === texts(other.columns) &&
    texts(one.reads) === texts(other.reads)
  );
}

/** A matrix with its tokens; rows can be chosen. @param {{name: string, label: Node, side: object, act: string, difference?: Float32Array|null}} what */
export function sideFigure({ name, label, side, act, difference = null }) {
  const [rows, columns] = [side.rows.length, side.columns.length];
  const theme = store.get("theme");
  const canvas = el("canvas", {
    class: "side-canvas",
    "aria-hidden": "true",
    onclick: (event) => pickCell(event, canvas, side),
  });
  if (difference)
    signedMap(canvas, { data: difference, rows, columns, theme, end: Math.max(0.1, ...difference.map(Math.abs)) });
  else heatmap(canvas, { data: side.data, rows, columns, theme });
  const row = Math.min(store.get("row"), rows - 1);
  const rowLabels = side.rows.map((token, i) =>
    el(
      "button",
      {
        type: "button",
        class: i === row ? "side-row current" : "side-row",
        dataset: { act: `${act}|${i}` },
        "aria-pressed": String(i === row),
        onclick: () => store.set({ row: i, key: null, locked: true }),
      },
      tokenDatum(token),
    ),
  );
  const columnLabels = side.columns.map((token) => el("span", { class: "side-column" }, tokenDatum(token)));
  const frame = el("span", { class: "side-frame", "aria-hidden": "true", style: { "--row": row } });
  const grid = el(
    "div",
    { class: "side-grid", style: { "--rows": rows, "--columns": columns } },
    el("div", { class: "side-columns" }, columnLabels),
    el("div", { class: "side-rows" }, rowLabels),
    el("div", { class: "side-picture" }, canvas, frame),
  );
  const box = el("div", { class: "side-box", tabindex: "0", role: "region", "aria-label": name }, grid);
  return el("figure", { class: "side" }, el("figcaption", {}, label), box);
}

function pickCell(event, canvas, side) {
  const box = canvas.getBoundingClientRect();
  const at = (offset, size, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / size) * count)));
  const row = at(event.clientY - box.top, box.height, side.rows.length);
  store.set({ row, key: at(event.clientX - box.left, box.width, side.columns.length), locked: true });
}

/** The weights of one row. */
export function rowOfSide(side, row) {
  const columns = side.columns.length;
  return side.data.subarray(row * columns, (row + 1) * columns);
}

/** Where a row looks most: {key: token, share}. */
export function mostOf(side, row) {
  const weights = rowOfSide(side, row);
  const at = weights.indexOf(Math.max(...weights));
  return { key: side.columns[at], share: weights[at] };
}

/** The pivot's row on both sides as a table. */
export function rowTable(left, right, row, names) {
  const [a, b] = [rowOfSide(left, row), rowOfSide(right, row)];
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, t("sum.column.key")),
    names.map((name) => el("th", { scope: "col" }, name)),
  );
  const cell = (share) => el("td", { translate: "no" }, percent(share));
  const lines = left.columns.map((token, j) =>
    el("tr", {}, el("th", { scope: "row" }, tokenDatum(token)), cell(a[j]), cell(b[j])),
  );
  return el("div", { class: "table-box" }, el("table", {}, el("thead", {}, head), el("tbody", {}, lines)));
}
