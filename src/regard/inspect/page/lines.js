/**
 * Attention as lines: who looks on the left, what is looked at on the right, a curve for each weight.
 *
 * What is unusual: a line's ink, its width times its strength, is the weight, so that the eye adds as the numbers do.
 * All rows together are a few paths in the background; only the pivot's are elements of their own.
 * What it does not know: where weights come from, and what a click means.
 */
import { el, svg, tokenText, colour, inkOn, shade, percent, figure } from "./draw.js";
import { store } from "./store.js";

const GAP_FACTOR = 0.42;
const BUCKETS = 8;
const FAINT = 0.03; // a weight below it has no line in the background
const NARROW = 520;
const HEADING_LETTER = 7.2; // pixels

export class LinesPicture {
  /** @param {(side: "row"|"key", place: number, held: boolean) => void} onPoint */
  constructor(onPoint) {
    this.element = el("div", { class: "lines" });
    const point = (event, held) => {
      const token = event.target.closest?.("[data-side]");
      if (token) onPoint(token.dataset.side, Number(token.dataset.place), held);
    };
    this.element.addEventListener("mouseover", (event) => point(event, false));
    this.element.addEventListener("click", (event) => point(event, true));
  }

  /**
   * @param {import("./gaze.js").Gaze} gaze
   * @param {import("./tiles.js").Tile} tile
   * @param {{row: string, key: string}} heads words over the columns
   */
  draw(gaze, tile, heads) {
    const width = Math.max(300, this.element.clientWidth || 600);
    const counts = [tile.rowStop - tile.rowStart, tile.columnStop - tile.columnStart];
    const most = Math.max(...counts);
    const step = Math.max(18, Math.min(34, 560 / most));
    const top = 30;
    const height = top + most * step + 8;
    const gap = width < NARROW ? 0.3 : GAP_FACTOR;
    this.place = {
      left: width * (0.5 - gap / 2),
      right: width * (0.5 + gap / 2),
      width,
      step,
      row: (r) => top + (r - tile.rowStart + 0.5 + (most - counts[0]) / 2) * step,
      key: (c) => top + (c - tile.columnStart + 0.5 + (most - counts[1]) / 2) * step,
    };
    this.drawing = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": this.label ?? "",
      class: "lines-svg",
    });
    this.front = svg("g", { class: "front" });
    this.tokens = svg("g", { class: "line-tokens" });
    this.drawing.append(
      this.heading(this.place.left - 10, heads.row, "end"),
      this.heading(this.place.right + 10, heads.key, "start"),
      this.background(gaze, tile),
      this.front,
      this.tokens,
    );
    this.element.replaceChildren(this.drawing);
    this.mark(gaze, tile);
  }

  heading(x, text, anchor) {
    const room = this.place.width - textWidth(text) * HEADING_LETTER; // on a narrow page a long one begins further left
    return svg(
      "text",
      { x: anchor === "end" ? x : Math.min(x, room), y: 14, "text-anchor": anchor, class: "lines-heading" },
      text,
    );
  }

  /** Every weight of the piece, faintly: one path for each strength. */
  background(gaze, tile) {
    const paths = Array.from({ length: BUCKETS }, () => []);
    for (let r = tile.rowStart; r < tile.rowStop; r++) {
      for (let c = tile.columnStart; c < tile.columnStop; c++) {
        const share = Math.abs(gaze.values[r * gaze.columns.length + c]) / gaze.max;
        if (share >= FAINT) paths[Math.min(BUCKETS - 1, Math.floor(share * BUCKETS))].push(this.curve(r, c));
      }
    }
    const strength = (i) => (i + 0.6) / BUCKETS;
    return svg(
      "g",
      { class: "back" },
      paths
        .map(
          (path, i) =>
            path.length &&
            svg("path", {
              d: path.join(""),
              "stroke-width": (0.5 + 3 * strength(i)).toFixed(2),
              "stroke-opacity": (0.3 * strength(i)).toFixed(3),
            }),
        )
        .filter(Boolean),
    );
  }

  curve(r, c) {
    const { left, right, row, key } = this.place;
    const [x0, x1, x2] = [left, (left + right) / 2, right].map((x) => x.toFixed(1));
    const [y0, y1] = [row(r), key(c)].map((y) => y.toFixed(1));
    return `M${x0} ${y0}C${x1} ${y0} ${x1} ${y1} ${x2} ${y1}`;
  }

  /** Draw what depends on the pivot: its row's lines, and the tokens with what they hold. */
  mark(gaze, tile) {
    const { columns, values, row, key, max } = gaze;
    const within = (r) => r >= tile.rowStart && r < tile.rowStop;
    const lines = [];
    const add = (r, c, name) => {
      const value = values[r * columns.length + c];
      const share = Math.abs(value) / max;
      if (!(share >= 0.004)) return;
      const kind = value < 0 ? `${name} negative` : name;
      lines.push(
        svg("path", {
          d: this.curve(r, c),
          class: kind,
          "stroke-width": (0.7 + 6 * share).toFixed(2),
          "stroke-opacity": (0.25 + 0.65 * share).toFixed(3),
        }),
      );
    };
    if (key >= 0) for (let r = tile.rowStart; r < tile.rowStop; r++) if (r !== row) add(r, key, "into");
    if (within(row)) for (let c = tile.columnStart; c < tile.columnStop; c++) add(row, c, c === key ? "edge" : "from");
    this.front.replaceChildren(...lines);
    this.drawTokens(gaze, tile);
  }

  drawTokens(gaze, tile) {
    const { rows, columns, values, row, key, max, measure } = gaze;
    const out = [];
    for (let r = tile.rowStart; r < tile.rowStop; r++) out.push(this.token("row", r, rows[r], r === row, null));
    for (let c = tile.columnStart; c < tile.columnStop; c++) {
      const value = row < 0 ? NaN : values[row * columns.length + c];
      const note =
        Number.isNaN(value) || Math.abs(value) / max < 0.005
          ? null
          : { share: shade(value, max), text: measure === "weights" ? percent(value) : figure(value, 2) };
      out.push(this.token("key", c, columns[c], c === key, note));
    }
    this.tokens.replaceChildren(...out);
  }

  token(side, place, group, current, note) {
    const { left, right, width, step } = this.place;
    const isRow = side === "row";
    const y = this.place[side](place);
    const font = Math.min(15, step * 0.62);
    const text = tokenText(group);
    const room = Math.max(3, Math.floor(((isRow ? left : width - right) - (note ? 62 : 14)) / (font * 0.61)));
    const shown = clipped(text, room);
    const length = textWidth(shown) * font * 0.61 + 12;
    const names = ["line-token", side, current && "current", group.kind !== "text" && "special"];
    const box = {
      x: isRow ? left - length - 4 : right + 4,
      y: y - step / 2 + 1,
      width: length,
      height: step - 2,
      rx: 4,
    };
    const rect = svg("rect", { ...box, class: "token-box" });
    const label = svg(
      "text",
      { x: isRow ? left - 10 : right + 10, y: y + font * 0.34, "text-anchor": isRow ? "end" : "start", class: "token" },
      shown,
    );
    label.style.setProperty("font-size", `${font}px`); // the sheet's would win over an attribute
    if (note) {
      rect.style.setProperty("fill", colour(note.share, store.get("theme")));
      label.style.setProperty("fill", inkOn(note.share, store.get("theme")));
    }
    const number =
      note &&
      svg(
        "text",
        { x: right + 4 + length + 6, y: y + font * 0.32, "font-size": Math.min(12, font), class: "token-number" },
        note.text,
      );
    // a wider place to point at than the token itself
    const hit = svg("rect", {
      x: isRow ? 0 : right,
      y: y - step / 2,
      width: isRow ? left : width - right,
      height: step,
      class: "hit",
    });
    return svg(
      "g",
      { class: names.filter(Boolean).join(" "), dataset: { side, place }, translate: "no" },
      hit,
      rect,
      label,
      ...(number ? [number] : []),
      ...(shown === text ? [] : [svg("title", {}, text)]),
    );
  }
}

/** How many narrow letters wide a text is; those of Chinese, Japanese, Korean and emoji count two. */
export function textWidth(text) {
  return [...text].reduce(
    (width, letter) =>
      width +
      (/[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f300}-\u{1faff}]/u.test(
        letter,
      )
        ? 1.65
        : 1),
    0,
  );
}

function clipped(text, room) {
  if (textWidth(text) <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && textWidth(letters.join("")) > room - 1) letters.pop();
  return `${letters.join("")}…`;
}
