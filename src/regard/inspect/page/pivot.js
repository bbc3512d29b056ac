/**
 * The line that says where one is: kind of attention, layer, head, token; each can be stepped, and all screens follow.
 *
 * What is unusual: its elements stay and only their texts change, so that the focus is not lost while one steps.
 * What it does not know: the screens.
 */
import { store, partOf, rowTokens, partSides } from "./store.js";
import { Screen, el, datum, tokenText } from "./draw.js";
import { t, phrase } from "./strings.js";

/** Move one coordinate of the pivot by a step, within what there is. @param {"layer"|"head"|"row"} name */
export function stepPivot(name, step) {
  const [model, view] = [store.get("model"), store.get("view")];
  const part = model && partOf(model, store.get("part"));
  if (!part || !view || !view[part.queries]) return;
  const count = { layer: part.layers, head: part.heads, row: partSides(view, part).queries.length }[name];
  const to = Math.max(0, Math.min(store.get(name) + step, count - 1));
  if (to === store.get(name)) return;
  // a token chosen by key is held, as one chosen by a click is
  store.set(name === "row" ? { row: to, key: null, locked: true } : { [name]: to });
}

/** Choose a kind of attention; rows of another side are counted anew. */
export function choosePart(name) {
  const [model, view] = [store.get("model"), store.get("view")];
  const [from, to] = [partOf(model, store.get("part")), partOf(model, name)];
  const rows = view ? partSides(view, to).queries.length : 1;
  const row = from?.queries === to.queries ? store.get("row") : Math.min(store.get("row"), rows - 1);
  store.set({
    part: name,
    layer: Math.min(store.get("layer"), to.layers - 1),
    head: Math.min(store.get("head"), to.heads - 1),
    row,
    key: null,
    heads: null,
  });
}

export class PivotLine extends Screen {
  build() {
    this.className = "pivot";
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", t("pivot.label"));
    this.kind = el("select", { "aria-label": t("pivot.part"), onchange: (event) => choosePart(event.target.value) });
    this.layer = this.stepper("layer");
    this.head = this.stepper("head");
    this.row = this.stepper("row", "token");
    this.key = el("span", { class: "pivot-key" });
    this.held = el(
      "button",
      {
        class: "quiet held",
        type: "button",
        title: t("pivot.unlock"),
        onclick: () => store.set({ locked: false, key: null }),
      },
      t("pivot.locked"),
      el("span", { "aria-hidden": "true" }, " ×"),
    );
    this.path = el("code", { class: "pivot-path", translate: "no" });
    this.replaceChildren(this.kind, this.layer, this.head, this.row, this.key, this.held, this.path);
    this.listen(["model", "view", "part", "layer", "head", "row", "key", "locked"], () => this.update());
    this.update();
  }

  stepper(name, word = name) {
    const button = (step, label, sign) =>
      el(
        "button",
        { class: "step", type: "button", "aria-label": label, title: label, onclick: () => stepPivot(name, step) },
        sign,
      );
    return el(
      "span",
      { class: "stepper" },
      button(-1, t(`pivot.previous.${word}`), "‹"),
      el("span", { class: "stepper-text" }),
      button(1, t(`pivot.next.${word}`), "›"),
    );
  }

  update() {
    const [model, view] = [store.get("model"), store.get("view")];
    const part = model && partOf(model, store.get("part"));
    this.hidden = !part || !view || !view[part.queries] || !view[part.keys];
    if (this.hidden) return;
    if (this.offered !== model) this.offer(model);
    this.kind.value = part.name;
    const say = (stepper, ...words) => stepper.children[1].replaceChildren(...words);
    say(this.layer, t("pivot.layer", { n: store.get("layer") + 1, of: part.layers }));
    say(this.head, t("pivot.head", { n: store.get("head") + 1, of: part.heads }));
    const token = rowTokens(view, part)[store.get("row")];
    const verb = part.queries === part.keys ? "pivot.reads" : "pivot.writes";
    const next = part.name === "decoder.self" ? partSides(view, part).writes[store.get("row")] : null;
    const words = { token: token && datum(tokenText(token), "token"), next: next && datum(tokenText(next), "token") };
    say(this.row, ...(token ? phrase(next ? "pivot.reads-writes" : verb, words) : []));
    const key = store.get("key") === null ? null : partSides(view, part).keys[store.get("key")];
    this.key.replaceChildren(...(key ? phrase("pivot.key", { token: datum(tokenText(key), "token") }) : []));
    this.held.hidden = !store.get("locked");
    this.path.textContent = part.path.replace("{layer}", store.get("layer"));
  }

  offer(model) {
    this.offered = model;
    this.kind.replaceChildren(...model.parts.map((part) => el("option", { value: part.name }, t(`part.${part.name}`))));
    this.kind.disabled = model.parts.length < 2;
  }
}
