/**
 * A picture of attention in words: one sentence under it, sorted bars beside it, the plain numbers in its place.
 *
 * What is unusual: the sentence is made from the same numbers as the picture, so it is also what the picture says to
 * those who do not see it.
 * What it does not know: how it is drawn, and what a click means.
 */
import { store, partOf } from "./store.js";
import { el, datum, keepFocus, tokenText, percent, figure } from "./draw.js";
import { t, phrase } from "./strings.js";
import { barLine } from "./chips.js";
import { lookedAt, lookedAtBy } from "./gaze.js";

const FEWEST = 3;
const BARS = 10;
const NO_EFFECT = 0.005; // nats: half a percent of the probability
const TELLING = 0.0005; // of the scale: what is less is listed only when all are

/** A value as its measure is told: shares in percent, lengths and nats as numbers. */
export function gazeValue(value, measure) {
  if (measure === "weights") return percent(value);
  return figure(value, Math.abs(value) < 10 ? 3 : 1);
}

/** With all digits that mean something. */
function gazeValueFully(value, { measure, exact }) {
  return measure === "weights" && exact
    ? figure(value, 4)
    : measure === "weights"
      ? figure(value, 3)
      : gazeValue(value, measure);
}

function groupName(group) {
  return datum(tokenText(group), group.kind === "text" ? "token" : "token special");
}

/** Which head, or whose mean, in words. */
export function headWords() {
  const heads = store.get("heads");
  if (heads && heads.length > 1) return t("attention.words.mean", { n: heads.length });
  const [layer, head] = heads?.[0] ?? [store.get("layer"), store.get("head")];
  return t("attention.words.head", { layer: layer + 1, head: head + 1 });
}

/** The sentence under the picture. @param {import("./gaze.js").Gaze} gaze @returns {(string|Node)[]} */
export function gazeSentence(gaze) {
  if (gaze.row < 0) return [t("attention.words.hidden")];
  const part = partOf(store.get("model"), store.get("part"));
  const places = lookedAt(gaze);
  if (!places.length) return [t("attention.words.none")];
  const [first, second] = gaze.key >= 0 ? [places.find(({ place }) => place === gaze.key), null] : places;
  if (!first) return [t("attention.words.unseen")];
  const of = (place) => groupName(gaze.columns[place]);
  const when = phrase(part.queries === part.keys ? "attention.words.reading" : "attention.words.writing", {
    row: groupName(gaze.rows[gaze.row]),
  });
  const value = Math.abs(first.value);
  const what = {
    head: headWords(),
    key: of(first.place),
    value: gazeValue(gaze.measure === "effects" ? value : first.value, gaze.measure),
  };
  const sign = value < NO_EFFECT ? "none" : first.value < 0 ? "negative" : "positive";
  const name = gaze.measure === "effects" ? `effects.${sign}` : gaze.measure;
  const more =
    second && gaze.measure === "weights" && second.value >= 0.05
      ? phrase("attention.words.then", { key: of(second.place), value: percent(second.value) })
      : [];
  const hidden = gaze.hidden >= 0.005 ? [" ", t("attention.words.left-out", { value: percent(gaze.hidden) })] : [];
  return [when, phrase(`attention.words.${name}`, what), more, t("attention.words.end"), hidden].flat();
}

/** The column whose onlookers are listed: the pivot's key, else the token itself, else what the row looks at most. */
function listedColumn(gaze) {
  if (gaze.key >= 0) return gaze.key;
  const part = partOf(store.get("model"), store.get("part"));
  if (part.queries !== part.keys) return lookedAt(gaze)[0]?.place ?? -1;
  return gaze.row < 0 ? -1 : gaze.columns.findIndex(({ members }) => members[0] === gaze.rows[gaze.row].members[0]);
}

/** "Token i looks at", and "is looked at by". */
export class GazeBars {
  /** @param {(side: "row"|"key", place: number) => void} onChoose */
  constructor(onChoose) {
    this.element = el("div", { class: "gaze-bars" });
    this.onChoose = onChoose;
    this.all = false;
  }

  draw(gaze) {
    this.gaze = gaze;
    const looks =
      gaze.row < 0
        ? []
        : this.list(
            phrase("attention.looks", { row: groupName(gaze.rows[gaze.row]) }),
            lookedAt(gaze),
            gaze.columns,
            "key",
          );
    const column = listedColumn(gaze);
    const known = gaze.measure !== "effects" && column >= 0;
    const seen = known
      ? this.list(
          phrase("attention.seen", { key: groupName(gaze.columns[column]) }),
          lookedAtBy(gaze, column),
          gaze.rows,
          "row",
        )
      : [];
    keepFocus(this.element, () => this.element.replaceChildren(...looks, ...seen));
  }

  list(title, places, groups, side) {
    const { max } = this.gaze;
    const current = side === "key" ? this.gaze.key : this.gaze.row;
    const telling = places.filter(({ value }, i) => i < FEWEST || Math.abs(value) > TELLING * max).slice(0, BARS);
    const shown = this.all ? places : telling;
    const end = Math.max(max === 1 ? 0 : max, ...shown.map(({ value }) => Math.abs(value)), 1e-9);
    const lines = shown.map(({ place, value }) =>
      barLine(groupName(groups[place]), value / (max === 1 ? 1 : end), gazeValueFully(value, this.gaze), {
        current: place === current,
        negative: value < 0,
        button: { dataset: { act: `${side}-${place}` }, onclick: () => this.onChoose(side, place) },
      }),
    );
    const more =
      places.length > telling.length
        ? el(
            "button",
            {
              type: "button",
              class: "quiet",
              onclick: () => {
                this.all = !this.all;
                this.draw(this.gaze);
              },
            },
            this.all ? t("attention.fewer") : t("attention.all", { n: places.length }),
          )
        : null;
    return [el("h3", {}, title), el("ol", { class: "bars" }, lines), ...(more ? [more] : [])];
  }
}

/** The picture as a table of numbers, of the piece that is drawn. */
export function gazeTable(gaze, tile) {
  const columns = gaze.columns.slice(tile.columnStart, tile.columnStop);
  const number = (value) => (Number.isNaN(value) ? "" : figure(value, 3));
  const head = el(
    "tr",
    {},
    el("td", {}),
    columns.map((group) => el("th", { scope: "col", translate: "no" }, tokenText(group))),
  );
  const body = gaze.rows.slice(tile.rowStart, tile.rowStop).map((group, i) => {
    const r = tile.rowStart + i;
    const cells = columns.map((_, c) => {
      const place = tile.columnStart + c;
      const at = r === gaze.row && place === gaze.key;
      return el(
        "td",
        { class: at ? "current" : null, translate: "no" },
        number(gaze.values[r * gaze.columns.length + place]),
      );
    });
    return el(
      "tr",
      { class: r === gaze.row ? "current" : null },
      el("th", { scope: "row", translate: "no" }, tokenText(group)),
      cells,
    );
  });
  return el(
    "div",
    { class: "table-box", tabindex: "0", role: "group", "aria-label": t("attention.table") },
    el(
      "table",
      { class: "numbers-table" },
      el("caption", {}, t(`attention.caption.${gaze.measure}`)),
      el("thead", {}, head),
      el("tbody", {}, body),
    ),
  );
}
