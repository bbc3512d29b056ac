/**
 * The page itself: header, menu, the line of the pivot, one screen at a time, the keys.
 *
 * What is unusual: screens are custom elements from one list and know nothing of one another; a change of language or
 * theme builds the shown one anew, so none has to listen for that.
 * What it does not know: what any screen shows.
 */
import { store, readHash, fitPivot, pivotNow, FRESH_REQUEST } from "./store.js";
import { makeSource } from "./source.js";
import { aboutLine, errorBox, recall, remember } from "./shell.js";
import { el, command } from "./draw.js";
import { t, phrase } from "./strings.js";
import { rerun, fail } from "./run.js";
import { PivotLine, stepPivot } from "./pivot.js";
import { EditsBar } from "./edits.js";
import { HelpDialog } from "./help.js";
import { TryScreen } from "./try.js";
import { AttentionScreen } from "./attention.js";
import { SumScreen } from "./sum.js";
import { RolesScreen } from "./roles.js";
import { LensScreen } from "./lens.js";
import { CompareScreen } from "./compare.js";
import { TakeScreen } from "./takeaway.js";
import { addTryStrings } from "./strings_try.js";
import { addAttentionStrings } from "./strings_attention.js";
import { addSumStrings } from "./strings_sum.js";
import { addMoreStrings } from "./strings_more.js";

addTryStrings();
addAttentionStrings();
addSumStrings();
addMoreStrings();

const hasAttention = (model) => (model.parts.length ? null : "screen.none.attention");

/** The screens in their order; `refuses` gives the key of the reason why a model cannot have one, or null. */
export const SCREENS = [
  { id: "try", element: TryScreen, refuses: () => null },
  { id: "attention", element: AttentionScreen, refuses: hasAttention },
  { id: "sum", element: SumScreen, refuses: hasAttention },
  { id: "roles", element: RolesScreen, refuses: (model) => (model.can.roles ? null : "screen.none.roles") },
  { id: "lens", element: LensScreen, refuses: (model) => (model.can.lens ? null : "screen.none.lens") },
  { id: "compare", element: CompareScreen, refuses: hasAttention },
  { id: "take", element: TakeScreen, refuses: () => null },
];

class App extends HTMLElement {
  connectedCallback() {
    window.regard = { source: makeSource(), store };
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => recall("theme") ?? store.set({ theme: dark.matches ? "dark" : "light" }));
    const lang = recall("lang") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
    store.set({ lang, theme: recall("theme") ?? (dark.matches ? "dark" : "light"), ...readHash(location.hash) });
    if (/[#&]row=/.test(location.hash)) store.set({ locked: true });
    this.build();
    store.on(["lang", "theme"], () => this.build());
    store.on(["screen", "model"], () => this.showScreen());
    store.on(["status", "view"], () => this.showStatus());
    addEventListener("hashchange", () => this.follow());
    addEventListener("keydown", (event) => this.press(event));
    this.open();
  }

  /** Ask for the model, then run what the address asks for, or what was typed, or the first example. */
  async open() {
    store.set({ status: { kind: "busy" } });
    try {
      const model = await window.regard.source.model();
      store.set({ model, ...fitPivot(model, null, pivotNow()) });
      if (store.get("request") === FRESH_REQUEST) store.set(this.firstAsked(model));
      await rerun();
    } catch (error) {
      this.main.replaceChildren();
      fail(error);
    }
  }

  /** What is asked first: what an exported page holds, or what was typed after the command, or an example. */
  firstAsked(model) {
    const held = window.regard.source.runs?.[0]?.request;
    if (held)
      return {
        request: Object.fromEntries(Object.keys(FRESH_REQUEST).map((name) => [name, held[name]])),
        edits: held.edits,
      };
    const { texts, to, target } = model.asked ?? model.examples[0] ?? { texts: model.can.pairs ? ["", ""] : [""] };
    const request = { texts, to: to ?? model.targets[0] ?? null, target: model.asked ? (target ?? null) : null };
    return { request: { ...FRESH_REQUEST, ...request } };
  }

  /** The address was changed by hand, or by going back. */
  follow() {
    const patch = readHash(location.hash);
    const reruns = ["request", "edits"].some(
      (key) => patch[key] && JSON.stringify(patch[key]) !== JSON.stringify(store.get(key)),
    );
    store.set(patch);
    if (reruns) rerun();
  }

  build() {
    const [lang, theme] = [store.get("lang"), store.get("theme")];
    document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
    document.documentElement.dataset.theme = theme;
    document.title = t("app.title");
    this.main = el("main", { id: "main", tabindex: "-1" });
    this.menu = el("nav", { class: "screens", "aria-label": t("app.screens") });
    this.about = el("p", { class: "about" });
    this.status = el("div", { class: "status", role: "status" });
    this.help = el("regard-help");
    this.replaceChildren(
      el(
        "a",
        {
          class: "skip",
          href: "#main",
          onclick: (event) => {
            event.preventDefault();
            this.main.focus();
          },
        },
        t("app.skip"),
      ),
      el("header", {}, this.header(), this.menu, el("regard-pivot"), el("regard-edits"), this.status),
      this.main,
      this.footer(),
      this.help,
    );
    this.shown = null;
    this.showScreen();
    this.showStatus();
  }

  header() {
    const [lang, theme] = [store.get("lang"), store.get("theme")];
    const other = theme === "dark" ? "light" : "dark";
    return el(
      "div",
      { class: "top" },
      el("h1", { translate: "no" }, "regard"),
      this.about,
      el(
        "div",
        { class: "switches" },
        el(
          "button",
          {
            class: "quiet",
            type: "button",
            onclick: () => this.switchLanguage(),
            "aria-label": t("app.language.label"),
            lang: lang === "zh" ? "en" : "zh-CN",
            translate: "no",
          },
          t("app.language"),
        ),
        el("button", { class: "quiet", type: "button", onclick: () => this.switchTheme() }, t(`app.theme.${other}`)),
        el("button", { class: "quiet", type: "button", onclick: () => this.help.toggle() }, t("app.help")),
      ),
    );
  }

  footer() {
    return el(
      "footer",
      {},
      window.regard.source.live ? t("app.tagline") : phrase("app.exported", { command: command() }),
    );
  }

  showScreen() {
    const model = store.get("model");
    this.menu.replaceChildren(...SCREENS.map((screen, i) => this.menuEntry(screen, i, model)));
    if (model) this.about.replaceChildren(...aboutLine(model));
    const screen = SCREENS.find(({ id }) => id === store.get("screen")) ?? SCREENS[0];
    if (!model) this.main.replaceChildren(el("p", { class: "lead late" }, t("app.loading")));
    if (!model || this.shown === screen.id) return;
    this.shown = screen.id;
    const reason = screen.refuses(model);
    this.main.replaceChildren(reason ? el("p", { class: "lead" }, t(reason)) : el(`regard-${screen.id}`));
  }

  menuEntry({ id, refuses }, i, model) {
    const reason = model && refuses(model);
    const current = id === store.get("screen");
    return el(
      "button",
      {
        type: "button",
        class: "screen-link",
        "aria-current": current && "page",
        "aria-disabled": reason ? "true" : null,
        title: reason && t(reason),
        onclick: () => store.set({ screen: id }),
      },
      el("span", { class: "screen-number" }, String(i + 1)),
      el("span", { class: "screen-name" }, t(`screen.${id}`)),
    );
  }

  showStatus() {
    const [status, view] = [store.get("status"), store.get("view")];
    this.dataset.busy = status.kind === "busy";
    const notes = (view?.notes ?? []).map((note) => el("p", { class: "note", translate: "no" }, note));
    // Another tab may have had the server open what now lies there: then the runs are no longer of this page's model.
    const another = view && !view.request.snapshot && view.hash !== store.get("model")?.hash;
    const changed =
      view?.changed || another
        ? el(
            "p",
            { class: "note" },
            t("status.changed"),
            " ",
            el("button", { type: "button", onclick: () => location.reload() }, t("status.reload")),
          )
        : null;
    this.status.replaceChildren(
      ...(status.kind === "error" ? [errorBox(status.error, () => (store.get("model") ? rerun() : this.open()))] : []),
      ...(changed ? [changed] : []),
      ...notes,
    );
  }

  switchTheme() {
    store.set({ theme: store.get("theme") === "dark" ? "light" : "dark" });
    remember("theme", store.get("theme"));
  }

  switchLanguage() {
    store.set({ lang: store.get("lang") === "zh" ? "en" : "zh" });
    remember("lang", store.get("lang"));
  }

  press(event) {
    const writing = event.target.closest?.(
      "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]",
    );
    if (event.ctrlKey || event.metaKey || event.altKey || writing || this.querySelector("dialog[open]")) return;
    const acts = {
      Escape: () => store.set({ locked: false, key: null }),
      "?": () => this.help.toggle(),
      t: () => this.switchTheme(),
      l: () => this.switchLanguage(),
      ArrowLeft: () => stepPivot("row", -1),
      ArrowRight: () => stepPivot("row", 1),
      ArrowUp: () => stepPivot("layer", 1),
      ArrowDown: () => stepPivot("layer", -1),
      "[": () => stepPivot("head", -1),
      "]": () => stepPivot("head", 1),
    };
    SCREENS.forEach(({ id }, i) => (acts[i + 1] = () => store.set({ screen: id })));
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
for (const { id, element } of SCREENS) customElements.define(`regard-${id}`, element);
customElements.define("regard-pivot", PivotLine);
customElements.define("regard-edits", EditsBar);
customElements.define("regard-help", HelpDialog);
customElements.define("regard-app", App);
