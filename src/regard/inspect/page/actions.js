/**
 * The test of a clue: remove the edge that is seen, or switch the head off, and let the model run again.
 *
 * What is unusual: the same button puts back what it took away.
 * What it does not know: what came of it (`edits.js` says that).
 */
import { store, partOf } from "./store.js";
import { el, datum, keepFocus, tokenText } from "./draw.js";
import { t, phrase } from "./strings.js";
import { setEdits } from "./run.js";
import { lookedAt } from "./gaze.js";

export class GazeActions {
  constructor() {
    this.element = el("div", { class: "actions" });
  }

  /** @param {import("./gaze.js").Gaze} gaze */
  draw(gaze) {
    const live = window.regard.source.live;
    const buttons = [this.edgeButton(gaze, live), this.headButton(live)].filter(Boolean);
    keepFocus(this.element, () =>
      this.element.replaceChildren(
        ...buttons,
        ...(live ? [] : [el("span", { class: "hint" }, t("error.needs-server"))]),
      ),
    );
  }

  edgeButton(gaze, live) {
    if (gaze.row < 0) return null;
    const place = gaze.key >= 0 ? gaze.key : lookedAt(gaze)[0]?.place;
    if (place === undefined) return null;
    const part = partOf(store.get("model"), store.get("part"));
    const [layer, head] = [store.get("layer"), store.get("heads") ? null : store.get("head")];
    const edits = gaze.rows[gaze.row].members.flatMap((query) =>
      gaze.columns[place].members.map((key) => ({ kind: "edge", part: part.name, layer, head, query, key })),
    );
    const words = {
      row: datum(tokenText(gaze.rows[gaze.row]), "token"),
      key: datum(tokenText(gaze.columns[place]), "token"),
    };
    return this.button("edge", edits, words, live);
  }

  headButton(live) {
    const part = partOf(store.get("model"), store.get("part"));
    const heads = store.get("heads") ?? [[store.get("layer"), store.get("head")]];
    const edits = heads.map(([layer, head]) => ({ kind: "head", part: part.name, layer, head }));
    return this.button(heads.length > 1 ? "heads" : "head", edits, { n: heads.length }, live);
  }

  /** A button that makes these edits, or undoes them where they are made. */
  button(name, edits, words, live) {
    const marks = new Set(edits.map((edit) => JSON.stringify(edit)));
    const others = store.get("edits").filter((edit) => !marks.has(JSON.stringify(edit)));
    const made = others.length === store.get("edits").length - edits.length;
    const onclick = () => setEdits(made ? others : [...others, ...edits]);
    return el(
      "button",
      { type: "button", class: made ? "act made" : "act", disabled: !live, dataset: { act: name }, onclick },
      phrase(`attention.${made ? "restore" : "remove"}.${name}`, words),
    );
  }
}
