/**
 * Screen 3, "Show the sum": one row of one head, from the token's vector to what the layer hands on, a card a step.
 *
 * What is unusual: the cards are all there, one under another; walking is only moving the light from one to the next, so
 * that scrolling, reading and searching the page work as on any page. A new pivot replaces their contents at the same step.
 * What it does not know: how a step is computed (`steps.js`) and drawn (`cards.js`).
 */
import { store, partOf } from "./store.js";
import { Screen, el, keepFocus, tokenDatum } from "./draw.js";
import { t, phrase } from "./strings.js";
import { gatherFacts } from "./facts.js";
import { stepsOf } from "./steps.js";
import { stepCard } from "./cards.js";
import { numpyProgram } from "./numpy.js";
import { SwitchPanel } from "./switches.js";
import { fail } from "./run.js";

/** The screen. */
export class SumScreen extends Screen {
  build() {
    this.className = "sum";
    this.step = null;
    this.lead = el("p", { class: "lead" });
    this.rail = el("ol", { class: "rail" });
    this.cards = el("div", { class: "walk-cards" });
    this.walk = this.walkButtons();
    this.numpy = el("dialog", { class: "numpy", "aria-labelledby": "numpy-title" });
    this.switches = new SwitchPanel(this.leaving);
    const rail = el("nav", { class: "rail-box", "aria-label": t("sum.steps") }, this.rail);
    this.replaceChildren(
      el("h2", {}, t("screen.sum")),
      this.lead,
      this.switches.element,
      el("div", { class: "walk" }, rail, this.cards),
      this.walk,
      this.numpy,
    );
    this.listen(["view", "part", "layer", "head", "row", "key"], () => this.update());
    const keys = (event) => this.press(event);
    addEventListener("keydown", keys);
    this.leaving.addEventListener("abort", () => removeEventListener("keydown", keys));
    this.update();
  }

  walkButtons() {
    const button = (step, words) =>
      el("button", { type: "button", class: "walk-step", onclick: () => this.go(step) }, words);
    this.place = el("span", { class: "walk-place", role: "status" });
    const copy = el("button", { type: "button", class: "quiet", onclick: () => this.showNumpy() }, t("sum.numpy"));
    const back = button(-1, ["‹ ", t("sum.back")]);
    return el(
      "div",
      { class: "walk-bar", role: "group", "aria-label": t("sum.walk") },
      back,
      this.place,
      button(1, [t("sum.next"), " ›"]),
      copy,
    );
  }

  /** Fetch what the pivot needs and draw it; of two pivots in quick succession only the later one is drawn. */
  async update() {
    const [model, view] = [store.get("model"), store.get("view")];
    const part = model && partOf(model, store.get("part"));
    if (!view || !part || !view[part.queries]?.tokens.length || !view[part.keys]?.tokens.length) {
      this.lead.replaceChildren(t("sum.nothing"));
      this.walk.hidden = true;
      return;
    }
    const pivot = Object.fromEntries(["part", "layer", "head", "row", "key"].map((name) => [name, store.get(name)]));
    this.wanted = pivot;
    try {
      const facts = await gatherFacts(window.regard.source, model, view, pivot, this.leaving);
      if (this.wanted === pivot && !this.leaving.aborted)
        await this.draw(facts, () => this.wanted === pivot && !this.leaving.aborted);
    } catch (error) {
      if (!this.leaving.aborted) fail(error);
    }
  }

  /** The lit card at once, the others one by one from the nearest on, so that a pivot can change while they come. */
  async draw(facts, wanted) {
    this.facts = facts;
    const names = {
      token: tokenDatum(facts.named),
      head: facts.head + 1,
      layer: facts.layer + 1,
      part: t(`sum.part.${facts.part.name}`),
    };
    this.lead.replaceChildren(
      ...phrase(facts.part.queries === facts.part.keys ? "sum.lead.self" : "sum.lead.cross", names),
    );
    const steps = stepsOf(facts);
    this.ids = steps.map((step) => step.id);
    if (!this.ids.includes(this.step)) [this.step] = this.ids;
    const old = new Map([...this.cards.children].map((card) => [card.dataset.step, card]));
    if ([...old.keys()].join() !== this.ids.join()) {
      this.cards.replaceChildren(
        ...this.ids.map((id) => old.get(id) ?? el("article", { class: "step-card", dataset: { step: id } })),
      );
    }
    this.rail.replaceChildren(...steps.map((step, i) => this.railEntry(step, i)));
    const lit = this.ids.indexOf(this.step);
    const order = this.ids.map((_, i) => i).sort((a, b) => Math.abs(a - lit) - Math.abs(b - lit));
    for (const [place, i] of order.entries()) {
      if (place > 0) await new Promise((done) => (place === 1 ? requestAnimationFrame(done) : setTimeout(done)));
      if (!wanted()) return;
      this.replaceCard(i, stepCard(steps[i], facts, i + 1));
      if (place > 0) continue;
      this.walk.hidden = false;
      this.mark(this.step);
      this.switches.show(facts);
    }
    this.dataset.drawn = `${facts.view.id} ${facts.part.name} ${facts.layer} ${facts.head} ${facts.row}`;
  }

  replaceCard(i, card) {
    const before = this.cards.children[i];
    const focused = before === document.activeElement;
    card.classList.toggle("current", card.dataset.step === this.step);
    card.addEventListener("focusin", () => this.mark(card.dataset.step));
    keepFocus(this.cards, () => before.replaceWith(card));
    if (focused) card.focus({ preventScroll: true });
  }

  railEntry(step, i) {
    const differs = step.checks.some((check) => !check.agree);
    const state = step.checks.length ? (differs ? "✗" : "✓") : "";
    return el(
      "li",
      {},
      el(
        "button",
        { type: "button", dataset: { to: step.id }, onclick: () => this.go(i - this.ids.indexOf(this.step)) },
        el("span", { class: "card-number" }, String(i + 1)),
        el("span", {}, t(`sum.title.${step.id}`)),
        el("span", { class: differs ? "rail-mark differs" : "rail-mark agrees", "aria-hidden": "true" }, state),
      ),
    );
  }

  /** Light the card of a step. */
  mark(step) {
    this.step = step;
    const at = this.ids.indexOf(step);
    for (const card of this.cards.children) card.classList.toggle("current", card.dataset.step === step);
    for (const button of this.rail.querySelectorAll("button")) {
      if (button.dataset.to === step) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    }
    const count = el("span", { class: "walk-count", translate: "no" }, `${at + 1} / ${this.ids.length}`);
    this.place.replaceChildren(count, " ", el("span", { class: "walk-title" }, t(`sum.title.${step}`)));
    const [back, next] = this.walk.querySelectorAll(".walk-step");
    back.disabled = at === 0;
    next.disabled = at === this.ids.length - 1;
  }

  /** Walk so many cards on (or back), and bring the card into sight. */
  go(count) {
    const to = Math.max(0, Math.min(this.ids.indexOf(this.step) + count, this.ids.length - 1));
    this.mark(this.ids[to]);
    const card = this.cards.children[to];
    card.focus({ preventScroll: true });
    card.scrollIntoView({
      block: "start",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
  }

  press(event) {
    const writing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || writing || !this.ids) return;
    if (event.key === "n") this.go(1);
    if (event.key === "b") this.go(-1);
  }

  showNumpy() {
    const program = numpyProgram(this.facts);
    const done = el("span", { class: "hint", role: "status" });
    const copy = async () => {
      await navigator.clipboard.writeText(program).then(
        () => done.replaceChildren(t("sum.numpy.copied")),
        () => done.replaceChildren(t("sum.numpy.by.hand")),
      );
    };
    const code = el("pre", { tabindex: "0", role: "region", "aria-label": t("sum.numpy"), translate: "no" }, program);
    const buttons = [
      el("button", { type: "button", class: "primary", onclick: copy }, t("sum.numpy.copy")),
      el("button", { type: "button", onclick: () => this.numpy.close() }, t("app.close")),
    ];
    const words = [el("h2", { id: "numpy-title" }, t("sum.numpy")), el("p", {}, t("sum.numpy.words"))];
    this.numpy.replaceChildren(...words, code, el("div", { class: "row" }, buttons, done));
    this.numpy.showModal();
    copy();
  }
}
