/**
 * Screen 4, head roles: what each head does over many sentences, what it is worth, and the text without it.
 *
 * What is unusual: label and worth stand side by side and need not agree; sorted by worth, the table says which heads the
 * model can do without. What was measured stays with the page as long as it is open, and with the server for longer.
 * What it does not know: how a role is found (`inspect/roles.py`).
 */
import { store } from "./store.js";
import { Screen, el, colour, figure, inkOn, percent } from "./draw.js";
import { t } from "./strings.js";
import { NeedsServer } from "./source.js";
import { ask, fail } from "./run.js";
import { editedRequests, outputText } from "./switches.js";

/** Measured so far: model hash and number of sentences -> {roles, sentences}. */
const measured = new Map();
const COUNTS = [10, 50, 200];
const CHEAP = 0.01;
const SORTS = {
  head: () => 0,
  role: (a, b) => roleOrder(a) - roleOrder(b) || liftOf(b) - liftOf(a),
  score: (a, b) => liftOf(b) - liftOf(a),
  effect: (a, b) => a.effect - b.effect,
};
const ROLE_ORDER = [
  "previous",
  "self",
  "next",
  "offset",
  "local",
  "duplicate",
  "induction",
  "long-range",
  "band",
  "copy",
  "rare",
  "source-end",
  "sink",
  "uniform",
  "mixed",
];

const roleOrder = (head) => ROLE_ORDER.indexOf(head.role);

/** How much of what chance leaves a head explains. */
function liftOf(head) {
  return head.role === "mixed"
    ? 0
    : Math.max(0, Math.min(1, (head.score - head.baseline) / Math.max(1e-6, 1 - head.baseline)));
}

/** A role in words. */
function roleName(head) {
  if (head.role !== "offset") return t(`role.${head.role}`);
  return t(head.offset < 0 ? "role.offset.back" : "role.offset.ahead", { n: Math.abs(head.offset) });
}

/** The screen. */
export class RolesScreen extends Screen {
  build() {
    this.className = "roles";
    this.sort = "head";
    this.count = 50;
    this.controls = el("div", { class: "row roles-controls" });
    this.found = el("div", { class: "roles-found" });
    const [lead, honest] = ["lead", "honest"].map((name) => el("p", { class: name }, t(`roles.${name}`)));
    this.replaceChildren(el("h2", {}, t("screen.roles")), lead, this.controls, this.found, honest);
    this.leaving.addEventListener("abort", () => this.work?.abort());
    this.listen(["layer", "head", "part"], () => this.mark());
    this.open();
  }

  get key() {
    return `${store.get("model").hash} ${this.count}`;
  }

  /** An exported page has its roles in it, or none. */
  async open() {
    this.showControls();
    if (measured.has(this.key)) this.show();
    else if (!window.regard.source.live) await this.measure();
  }

  showControls() {
    const select = el(
      "select",
      {
        "aria-label": t("roles.sentences.label"),
        onchange: (event) => {
          this.count = Number(event.target.value);
          this.open();
        },
      },
      COUNTS.map((n) => el("option", { value: n, selected: n === this.count }, t("roles.sentences", { n }))),
    );
    const start = el("button", { type: "button", class: "primary", onclick: () => this.measure() }, t("roles.measure"));
    this.controls.replaceChildren(...(window.regard.source.live ? [select, start] : []));
  }

  showProgress() {
    const bar = el("progress", { max: 1, value: 0, "aria-label": t("roles.progress.label") });
    const words = el("span", { class: "numbers", role: "status" }, t("roles.starting"));
    const stop = el("button", { type: "button", onclick: () => this.work.abort() }, t("roles.stop"));
    this.controls.replaceChildren(el("div", { class: "roles-progress" }, bar, words, stop));
    return ({ progress, of }) => {
      bar.max = of;
      bar.value = progress;
      words.replaceChildren(t("roles.progress", { n: progress, of }));
    };
  }

  async measure() {
    this.work = new AbortController();
    const { signal } = this.work;
    const key = this.key;
    const onProgress = this.showProgress();
    try {
      measured.set(key, await window.regard.source.roles({ part: null, sentences: this.count }, onProgress, signal));
      if (!this.leaving.aborted) this.show();
    } catch (error) {
      if (error instanceof NeedsServer)
        this.found.replaceChildren(el("p", { class: "words" }, t("error.needs-server")));
      else if (!signal.aborted) fail(error);
    }
    if (!this.leaving.aborted) this.showControls();
  }

  show() {
    const { roles } = measured.get(this.key);
    this.heads = roles;
    const parts = store.get("model").parts.filter((part) => roles.some((head) => head.part === part.name));
    this.tableBox = el("div", { class: "roles-table-box" });
    this.found.replaceChildren(
      this.removable(roles),
      ...parts.map((part) => this.grid(part)),
      el("h3", {}, t("roles.all")),
      this.tableBox,
    );
    this.showTable();
    this.mark();
  }

  /** How many heads the model does without, in a sentence. */
  removable(roles) {
    const cheap = roles.filter((head) => head.effect !== null && head.effect < CHEAP);
    if (roles.every((head) => head.effect === null)) return el("p", { class: "words" }, t("roles.no.effect"));
    const button = el("button", { type: "button", onclick: () => this.sortBy("effect") }, t("roles.sort.effect"));
    return el(
      "p",
      { class: "words" },
      t("roles.removable", { n: cheap.length, of: roles.length, nats: String(CHEAP) }),
      " ",
      button,
    );
  }

  /** One kind of attention as layers by heads, the last layer on top. */
  grid(part) {
    const theme = store.get("theme");
    const layers = Array.from({ length: part.layers }, (_, layer) => part.layers - 1 - layer);
    const cell = (layer, head) => {
      const found = this.heads.find((one) => one.part === part.name && one.layer === layer && one.head === head);
      const share = 0.85 * liftOf(found);
      return el(
        "button",
        {
          type: "button",
          class: "role-cell",
          dataset: { head: `${part.name} ${layer} ${head}` },
          style: { "background-color": colour(share, theme), color: inkOn(share, theme) },
          "aria-label": `${t("attention.head", { layer: layer + 1, head: head + 1 })}: ${roleName(found)}`,
          onclick: () => this.choose(found),
        },
        roleName(found),
        found.role !== "mixed" && el("small", {}, percent(found.score)),
      );
    };
    const label = (layer) => el("span", { class: "head-label", "aria-hidden": "true" }, String(layer + 1));
    const rows = layers.map((layer) => [
      label(layer),
      Array.from({ length: part.heads }, (_, head) => cell(layer, head)),
    ]);
    const grid = el("div", { class: "role-grid", style: { "--heads": part.heads } }, rows);
    return el(
      "section",
      { class: "roles-part" },
      el("h3", {}, t(`part.${part.name}`)),
      el("div", { class: "role-scroll" }, grid),
    );
  }

  choose({ part, layer, head }) {
    store.set({ part, layer, head, row: part === store.get("part") ? store.get("row") : 0, key: null });
    this.tableBox.querySelector("tr.current")?.scrollIntoView({ block: "nearest" });
  }

  mark() {
    const name = `${store.get("part")} ${store.get("layer")} ${store.get("head")}`;
    for (const node of this.found.querySelectorAll("[data-head]"))
      node.classList.toggle("current", node.dataset.head === name);
  }

  sortBy(sort) {
    this.sort = sort;
    this.showTable();
    this.mark();
    this.tableBox.scrollIntoView({ block: "start" });
  }

  showTable() {
    const heads = [...this.heads].sort(SORTS[this.sort]);
    const column = (id, hidden) => {
      const button = el("button", { type: "button", onclick: () => this.sortBy(id) }, t(`roles.column.${id}`));
      return el(
        "th",
        { scope: "col", class: hidden && "narrow-hidden", "aria-sort": this.sort === id ? "ascending" : "none" },
        button,
      );
    };
    const plain = (key, hidden) => el("th", { scope: "col", class: hidden && "narrow-hidden" }, t(key));
    const effects = this.heads.some((one) => one.effect !== null);
    const head = el(
      "tr",
      {},
      column("head"),
      column("role"),
      column("score", true),
      effects && column("effect"),
      plain("roles.column.see"),
    );
    this.tableBox.replaceChildren(
      el(
        "table",
        { class: "roles-table" },
        el("thead", {}, head),
        el(
          "tbody",
          {},
          heads.map((one) => this.line(one)),
        ),
      ),
    );
  }

  line(head) {
    const name = t("roles.head", { layer: head.layer + 1, head: head.head + 1, part: t(`part.short.${head.part}`) });
    const told = { score: percent(head.score), baseline: percent(head.baseline), sigma: percent(head.sigma) };
    const scale = el(
      "span",
      { class: "role-scale", role: "img", "aria-label": t("roles.scale", told) },
      el("span", { class: "role-score", style: { width: percentOf(head.score) } }),
      el("span", { class: "role-baseline", style: { left: percentOf(head.baseline) } }),
    );
    const near = head.role === "mixed" ? head.scores[0] : null;
    const nearest = near && el("span", { class: "hint" }, " ", t("roles.nearest", { role: roleName(near) }));
    const see = el(
      "button",
      { type: "button", disabled: head.example === null, onclick: () => this.see(head) },
      t("roles.see"),
    );
    const without = el(
      "button",
      { type: "button", onclick: (event) => this.ablate(head, event.target.closest("tr")) },
      t("roles.ablate"),
    );
    return el(
      "tr",
      { dataset: { head: `${head.part} ${head.layer} ${head.head}` } },
      el("th", { scope: "row" }, name),
      el("td", { class: head.role === "mixed" ? "role-name mixed" : "role-name" }, roleName(head), nearest),
      el("td", { class: "narrow-hidden" }, el("span", { class: "numbers" }, t("roles.score", told)), scale),
      head.effect !== null &&
        el("td", { class: "number" }, `${head.effect < 0 ? "−" : "+"}${figure(Math.abs(head.effect), 3)}`),
      el("td", {}, el("span", { class: "row" }, see, window.regard.source.live && without)),
    );
  }

  /** Screen 2 on the row that shows a head's role best. */
  async see(head) {
    const { sentence, row, key } = head.example;
    const { texts, target, to } = measured.get(this.key).sentences[sentence];
    const pivot = { part: head.part, layer: head.layer, head: head.head, row, key };
    await ask({ texts, target, to, prefix: [], mode: "greedy" });
    store.set({ ...pivot, heads: null, locked: true, screen: "attention" });
  }

  /** The text that is on the page, without this head. */
  async ablate(head, line) {
    const open = line.nextElementSibling?.classList.contains("ablated");
    if (open) return line.nextElementSibling.remove();
    const view = store.get("view");
    const box = el("td", { colspan: "5" }, t("status.running"));
    line.after(el("tr", { class: "ablated" }, box));
    try {
      const { free } = editedRequests(view, { kind: "head", part: head.part, layer: head.layer, head: head.head });
      const without = await window.regard.source.run(free, this.leaving);
      box.replaceChildren(...this.compared(view, without));
    } catch (error) {
      line.nextElementSibling?.remove();
      if (!this.leaving.aborted) fail(error);
    }
  }

  compared(view, without) {
    const [before, after] = [outputText(view), outputText(without)];
    if (!before) return [t("sum.switch.vectors")];
    const line = (key, words) => el("div", { class: "output-line" }, el("span", { class: "label" }, t(key)), words);
    const same = el(
      "p",
      { class: "hint" },
      t(before.textContent === after.textContent ? "sum.switch.equal" : "sum.switch.changed"),
    );
    return [el("div", { class: "outputs" }, line("sum.switch.with", before), line("sum.switch.without", after), same)];
  }
}

function percentOf(share) {
  return `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%`;
}
