/**
 * Attention as a matrix: a row for who looks, a column for what is looked at.
 *
 * What is unusual: the cells are a canvas of one pixel each, made large by the browser, which is as quick for 512
 * tokens as for 5; tokens and frames lie over it as SVG.
 * What it does not know: where weights come from, and what a click means.
 */
import { el, svg, heatmap, tokenText } from "./draw.js";
import { store } from "./store.js";
import { textWidth } from "./lines.js";

const CELL_LEAST = 11;
const CELL_LABELLED = 14; // smaller cells have smaller letters beside them
const CELL_MOST = 38;
const LETTER = 7.3; // pixels of a narrow letter of 12 pixels
const LABEL_MOST = 120;

export class MatrixPicture {
  /** @param {(row: number, key: number, held: boolean) => void} onPoint */
  constructor(onPoint) {
    this.element = el("div", { class: "matrix", tabindex: "0", role: "group" });
    this.onPoint = onPoint;
  }

  draw(gaze, tile) {
    const rows = gaze.rows.slice(tile.rowStart, tile.rowStop);
    const columns = gaze.columns.slice(tile.columnStart, tile.columnStop);
    const widest = (groups) =>
      Math.min(LABEL_MOST, Math.max(...groups.map((group) => textWidth(tokenText(group)) * LETTER), 20));
    const [left, top] = [widest(rows) + 14, widest(columns) * 0.9 + 22];
    const room = Math.max(300, this.element.clientWidth || 600) - left - top * 0.4;
    const cell = Math.max(CELL_LEAST, Math.min(CELL_MOST, Math.floor(room / columns.length)));
    const [width, height] = [columns.length * cell, rows.length * cell];
    this.place = { left, top, cell, tile };
    const canvas = el("canvas", { class: "cells", role: "img", "aria-label": this.label ?? "" });
    const data = cutPiece(gaze, tile);
    heatmap(canvas, { data, rows: rows.length, columns: columns.length, theme: store.get("theme"), max: gaze.max });
    const box = { left, top, width, height };
    for (const name of Object.keys(box)) canvas.style.setProperty(name, `${box[name]}px`);
    const size = { width: left + width + top * 0.55, height: top + height + 4 };
    this.drawing = svg("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, "aria-hidden": "true" });
    this.labels = svg(
      "g",
      { translate: "no" },
      rows.map((group, r) => this.rowLabel(group, r)),
      columns.map((group, c) => this.columnLabel(group, c)),
    );
    this.frames = svg("g");
    this.drawing.append(this.labels, this.frames);
    const point = (event, held) => this.point(event, held);
    const listens = { onmousemove: (event) => point(event, false), onclick: (event) => point(event, true) };
    const dense = cell < CELL_LABELLED ? "matrix-inner dense" : "matrix-inner";
    this.element.replaceChildren(el("div", { class: dense, ...listens }, canvas, this.drawing));
    this.mark(gaze);
  }

  rowLabel(group, r) {
    const { left, top, cell } = this.place;
    return svg(
      "text",
      {
        x: left - 8,
        y: top + (r + 0.5) * cell + 4,
        "text-anchor": "end",
        class: `token row-${r}${group.kind === "text" ? "" : " special"}`,
      },
      tokenText(group),
    );
  }

  columnLabel(group, c) {
    const { left, top, cell } = this.place;
    const [x, y] = [left + (c + 0.5) * cell, top - 8];
    return svg(
      "text",
      {
        x: x + 2,
        y,
        transform: `rotate(-58 ${x} ${y})`,
        class: `token column-${c}${group.kind === "text" ? "" : " special"}`,
      },
      tokenText(group),
    );
  }

  /** Frames around the pivot's row and cell. */
  mark(gaze) {
    const { left, top, cell, tile } = this.place;
    const [r, c] = [gaze.row - tile.rowStart, gaze.key - tile.columnStart];
    const [rows, columns] = [tile.rowStop - tile.rowStart, tile.columnStop - tile.columnStart];
    const inRows = r >= 0 && r < rows;
    const inColumns = gaze.key >= 0 && c >= 0 && c < columns;
    const frame = (name, x, y, width, height) => svg("rect", { class: name, x, y, width, height, rx: 2 });
    this.frames.replaceChildren(
      ...[
        inRows && frame("frame-row", left - 1, top + r * cell - 1, columns * cell + 2, cell + 2),
        inColumns && frame("frame-column", left + c * cell - 1, top - 1, cell + 2, rows * cell + 2),
        inRows && inColumns && frame("frame-cell", left + c * cell - 1, top + r * cell - 1, cell + 2, cell + 2),
      ].filter(Boolean),
    );
    for (const label of this.labels.children)
      label.classList.toggle(
        "current",
        (inRows && label.classList.contains(`row-${r}`)) || (inColumns && label.classList.contains(`column-${c}`)),
      );
  }

  point(event, held) {
    const { left, top, cell, tile } = this.place;
    const box = this.drawing.getBoundingClientRect();
    const [r, c] = [
      Math.floor((event.clientY - box.top - top) / cell),
      Math.floor((event.clientX - box.left - left) / cell),
    ];
    const [rows, columns] = [tile.rowStop - tile.rowStart, tile.columnStop - tile.columnStart];
    if (r < 0 || c < -1e3 || r >= rows || c >= columns) return;
    if (c >= 0) this.onPoint(tile.rowStart + r, tile.columnStart + c, held);
    else if (event.clientX >= box.left) this.onPoint(tile.rowStart + r, null, held);
  }
}

/** The values of a piece of the matrix, row by row. */
function cutPiece({ values, columns }, { rowStart, rowStop, columnStart, columnStop }) {
  const width = columnStop - columnStart;
  const data = new Float32Array((rowStop - rowStart) * width);
  for (let r = rowStart; r < rowStop; r++) {
    const from = r * columns.length;
    data.set(values.subarray(from + columnStart, from + columnStop), (r - rowStart) * width);
  }
  return data;
}
