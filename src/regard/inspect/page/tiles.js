/**
 * Long texts: which piece of a matrix is drawn with its tokens, and the whole as a small map to choose it from.
 *
 * What is unusual: there is nothing to scroll or to remember; the piece is the one that the pivot is in.
 * What it does not know: what the numbers are.
 */
import { store } from "./store.js";
import { el, heatmap } from "./draw.js";
import { t } from "./strings.js";
import { lookedAt } from "./gaze.js";

const TILE = 48;

/** @typedef {{rowStart: number, rowStop: number, columnStart: number, columnStop: number, whole: boolean}} Tile */

/** The piece with the pivot in it. @param {import("./gaze.js").Gaze} gaze @returns {Tile} */
export function tileOf(gaze) {
  const { rows, columns, row, key } = gaze;
  const whole = rows.length <= 64 && columns.length <= 64;
  if (whole) return { rowStart: 0, rowStop: rows.length, columnStart: 0, columnStop: columns.length, whole };
  const [r, c] = [Math.max(0, row), key >= 0 ? key : row >= 0 ? (lookedAt(gaze)[0]?.place ?? 0) : 0];
  const start = (place, count) => Math.max(0, Math.min(Math.floor(place / TILE) * TILE, count - 1));
  const [rowStart, columnStart] = [start(r, rows.length), start(c, columns.length)];
  return {
    rowStart,
    rowStop: Math.min(rowStart + TILE, rows.length),
    columnStart,
    columnStop: Math.min(columnStart + TILE, columns.length),
    whole,
  };
}

/** The map of the whole with a frame around the piece; a click moves there. */
export function tileMap(gaze, tile, onPick) {
  const [rows, columns] = [gaze.rows.length, gaze.columns.length];
  const canvas = el("canvas", { class: "map", role: "img", "aria-label": t("attention.map") });
  heatmap(canvas, { data: gaze.values, rows, columns, theme: store.get("theme"), max: gaze.max });
  const share = (place, count) => `${((100 * place) / count).toFixed(3)}%`;
  const frame = el("span", {
    class: "map-frame",
    "aria-hidden": "true",
    style: {
      left: share(tile.columnStart, columns),
      width: share(tile.columnStop - tile.columnStart, columns),
      top: share(tile.rowStart, rows),
      height: share(tile.rowStop - tile.rowStart, rows),
    },
  });
  const pick = (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (offset, size, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / size) * count)));
    onPick(at(event.clientY - box.top, box.height, rows), at(event.clientX - box.left, box.width, columns));
  };
  const words = {
    first: tile.rowStart + 1,
    last: tile.rowStop,
    of: rows,
    left: tile.columnStart + 1,
    right: tile.columnStop,
    width: columns,
  };
  return el(
    "div",
    { class: "map-box" },
    el("div", { class: "map-picture", onclick: pick }, canvas, frame),
    el("p", { class: "hint" }, t("attention.tile", words)),
  );
}
