/**
 * What is changed in the model: each edit as words and as a chip that can be undone; and what the edits changed in the
 * output, said in words and shown token by token.
 *
 * What is unusual: the two outputs are compared by what stands at the same place while the tokens agree; from the first
 * that differs on, places no longer mean the same and no probabilities are set against each other.
 * What it does not know: how an edit is made (`inspect/edits.py`).
 */
import { store, partOf, partSides, rowTokens } from "./store.js";
import { Screen, el, datum, tokenText, percent } from "./draw.js";
import { t, phrase } from "./strings.js";
import { removeEdit, setEdits } from "./run.js";

/** An edit in words, as a list of strings and elements. */
export function editWords(edit) {
  const numbers = { layer: edit.layer + 1, head: (edit.head ?? 0) + 1 };
  if (edit.kind === "head") return phrase("edit.head", { ...numbers, part: t(`part.${edit.part}`) });
  if (edit.kind === "edge") {
    const [query, key] = edgeTokens(edit);
    return phrase(edit.head === null ? "edit.edge.all" : "edit.edge", {
      ...numbers,
      query,
      key,
      part: t(`part.${edit.part}`),
    });
  }
  if (edit.kind === "no-residual")
    return phrase("edit.no-residual", {
      ...numbers,
      sublayer: datum(edit.sublayer, "token"),
      stack: t(`stack.${edit.stack}`),
    });
  return [t(`edit.${edit.kind}`)];
}

function edgeTokens(edit) {
  const [view, part] = [store.get("before") ?? store.get("view"), partOf(store.get("model"), edit.part)];
  const tokens = view ? [rowTokens(view, part)[edit.query], partSides(view, part).keys[edit.key]] : [];
  return [0, 1].map((i) => (tokens[i] ? datum(tokenText(tokens[i]), "token") : String([edit.query, edit.key][i] + 1)));
}

export class EditsBar extends Screen {
  build() {
    this.className = "edits";
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", t("edits.label"));
    this.listen(["edits", "view"], () => this.update());
    this.update();
  }

  update() {
    const edits = store.get("edits");
    this.hidden = !edits.length;
    const chips = edits.map((edit) => {
      const words = el("span", {}, editWords(edit));
      return el(
        "button",
        {
          class: "edit",
          type: "button",
          "aria-label": t("edits.remove", { edit: words.textContent }),
          onclick: () => removeEdit(edit),
        },
        words,
        el("span", { "aria-hidden": "true", class: "cross" }, "×"),
      );
    });
    const all =
      edits.length > 1
        ? el("button", { class: "quiet", type: "button", onclick: () => setEdits([]) }, t("edits.clear"))
        : null;
    this.replaceChildren(el("span", { class: "label" }, t("edits.label")), ...chips, ...(all ? [all] : []));
  }
}

/** What the edits changed in what the model gives, as an element; null where nothing is edited. */
export function changesMade() {
  const [before, after] = [store.get("before"), store.get("view")];
  if (!before || !after?.edited) return null;
  const body = after.target ? writtenChanges(before, after) : labelChanges(before, after);
  return el("section", { class: "changes", "aria-live": "polite" }, el("h3", {}, t("changes.title")), ...body);
}

function labelChanges(before, after) {
  const old = new Map(before.outputs.map((output) => [output.label, output.p]));
  if (!after.outputs.length) return [el("p", {}, t("changes.inside"))];
  return [
    el(
      "ul",
      { class: "change-list" },
      after.outputs
        .slice(0, 8)
        .map(({ label, p }) =>
          el(
            "li",
            {},
            datum(label, "token"),
            " ",
            el(
              "span",
              { class: "numbers" },
              old.has(label) ? `${percent(old.get(label))} → ${percent(p)}` : percent(p),
            ),
          ),
        ),
    ),
  ];
}

function writtenChanges(before, after) {
  const [old, now] = [before.target.writes.filter(Boolean), after.target.writes.filter(Boolean)];
  let same = 0;
  while (same < Math.min(old.length, now.length) && old[same].id === now[same].id) same++;
  const differ = same < Math.max(old.length, now.length);
  const moved = old
    .slice(0, same)
    .map((token, i) => ({ token, i, from: token.p, to: now[i].p }))
    .filter(({ from, to }) => from !== null && Math.abs(from - to) >= 0.0005);
  moved.sort((a, b) => Math.abs(b.to - b.from) - Math.abs(a.to - a.from));
  const lines = moved
    .slice(0, 6)
    .map(({ token, from, to }) =>
      el(
        "li",
        {},
        datum(tokenText(token), "token"),
        " ",
        el("span", { class: `numbers ${to < from ? "falls" : "rises"}` }, `${percent(from)} → ${percent(to)}`),
      ),
    );
  const told = (label, tokens) =>
    el("div", { class: "change-row" }, el("span", { class: "label" }, label), toldTokens(tokens, same));
  const moves = el(
    "div",
    { class: "change-row" },
    el("span", { class: "label" }, t("changes.moved")),
    el("ul", { class: "change-list" }, lines),
  );
  return [
    el("p", { class: "words" }, differ ? t("changes.differ") : moved.length ? t("changes.same") : t("changes.nothing")),
    ...(differ ? [told(t("changes.before"), old), told(t("changes.after"), now)] : []),
    ...(lines.length ? [moves] : []),
  ];
}

/** Tokens as running text, marked from the first that differs on. */
function toldTokens(tokens, same) {
  const words = (some) =>
    some
      .filter(({ kind }) => kind === "text")
      .map(({ text }) => text.replaceAll("▁", " "))
      .join("");
  return el(
    "span",
    { class: "change-text", translate: "no", dir: "auto" },
    words(tokens.slice(0, same)),
    el("mark", {}, words(tokens.slice(same))),
  );
}
