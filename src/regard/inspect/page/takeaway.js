/**
 * Screen 7, Take away: the address, the picture, the numbers, the page.
 *
 * What is unusual: the picture that is saved is the one that is shown here, drawn by the hands of screen 2 from the
 * same numbers; its styles are written into it, so it stands alone.
 * What it does not know: what is in the files that the server makes.
 */
import { store, pageHash, partOf } from "./store.js";
import { Screen, el, svg, command } from "./draw.js";
import { t, phrase } from "./strings.js";
import { fail } from "./run.js";
import { GazeData } from "./gaze.js";
import { gazeSentence } from "./gaze_words.js";
import { LinesPicture } from "./lines.js";
import { MatrixPicture } from "./matrix.js";
import { tileOf } from "./tiles.js";

const KEPT_STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "font-style",
  "text-anchor",
  "visibility",
];
const MARGIN = 16;
const CAPTION_LINE = 20;

export class TakeScreen extends Screen {
  build() {
    this.className = "take";
    this.data = new GazeData({ half: () => this.drawPreview(), exact: () => this.drawPreview() });
    this.preview = el("div", { class: "preview" });
    this.words = el("p", { class: "words" });
    this.cards = el("div", { class: "cards" });
    this.replaceChildren(el("h2", {}, t("screen.take")), el("p", { class: "lead" }, t("take.lead")), this.cards);
    this.listen(["view"], () => this.redraw());
    this.listen(["part", "layer", "head", "row", "key", "locked"], () => this.redraw());
    this.redraw();
  }

  async redraw() {
    const view = store.get("view");
    this.cards.replaceChildren(
      this.linkCard(),
      ...(view && store.get("part") ? [this.pictureCard()] : []),
      ...(view ? [this.fileCard("numbers", "npz"), this.fileCard("page", "html")] : []),
      ...this.leftOut(),
    );
    if (!view || !store.get("part")) return;
    try {
      await this.data.fetch(this.leaving);
      if (store.get("measure") === "effects" && !this.data.hasEffects()) await this.data.fetchEffects(this.leaving);
      this.drawPreview();
    } catch (error) {
      fail(error);
    }
  }

  card(name, ...children) {
    return el(
      "section",
      { class: `card take-${name}` },
      el("h3", {}, t(`take.${name}`)),
      el("p", { class: "hint" }, phrase(`take.${name}.what`, { command: command() })),
      children,
    );
  }

  linkCard() {
    const address = `${location.href.split("#")[0]}${pageHash()}`;
    const box = el("input", {
      type: "text",
      readonly: "",
      value: address,
      class: "address",
      translate: "no",
      "aria-label": t("take.link"),
      onfocus: (event) => event.target.select(),
    });
    const said = el("span", { class: "hint", role: "status" });
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(box.value);
        said.textContent = t("take.copied");
      } catch {
        box.select();
        said.textContent = t("take.select");
      }
    };
    return this.card(
      "link",
      el(
        "div",
        { class: "card-row" },
        box,
        el("button", { type: "button", dataset: { act: "copy" }, onclick: copy }, t("take.copy")),
        said,
      ),
    );
  }

  pictureCard() {
    const button = (kind, save) =>
      el("button", { type: "button", dataset: { act: kind }, onclick: () => save().catch(fail) }, t(`take.${kind}`));
    return this.card(
      "picture",
      this.preview,
      this.words,
      el(
        "div",
        { class: "card-row" },
        button("png", () => this.savePng()),
        button("svg", () => this.saveSvg()),
      ),
    );
  }

  /** A file that the server makes; an exported page says that it cannot. */
  fileCard(name, kind) {
    const { source } = window.regard;
    const url = kind === "npz" ? source.npzUrl(store.get("view").id) : source.htmlUrl(store.get("view").id);
    const file = `${store.get("model").name}.${kind}`;
    const link = url
      ? el("a", { class: "button", href: url, download: file, dataset: { act: kind } }, t(`take.${kind}`))
      : el("p", { class: "hint" }, t("error.needs-server"));
    return this.card(name, el("div", { class: "card-row" }, link));
  }

  leftOut() {
    const names = window.regard.source.leftOut?.(store.get("view")?.id) ?? [];
    return names.length ? [el("p", { class: "hint" }, t("take.left-out", { names: names.join(", ") }))] : [];
  }

  drawPreview() {
    const gaze = this.data.now();
    if (!gaze) return;
    const Picture = store.get("picture") === "matrix" ? MatrixPicture : LinesPicture;
    const part = partOf(store.get("model"), store.get("part"));
    this.picture = new Picture(() => {});
    this.preview.replaceChildren(this.picture.element);
    this.picture.label = t("attention.picture", { part: t(`part.${part.name}`) });
    this.picture.draw(gaze, tileOf(gaze), {
      row: t(`attention.rows.${part.name}`),
      key: t(`attention.keys.${part.name}`),
    });
    this.words.replaceChildren(...gazeSentence(gaze));
  }

  /** The picture as an SVG that needs no style sheet: {text, width, height}. */
  standalone() {
    const drawing = this.picture.drawing;
    const [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)));
    const copy = drawing.cloneNode(true);
    inlineStyles(drawing, copy);
    const cells = this.preview.querySelector("canvas.cells");
    if (cells) copy.prepend(cellRects(cells, this.picture.place));
    const style = getComputedStyle(document.body);
    const lines = wrapWords(
      t("take.caption", { model: store.get("model").name, sentence: this.words.textContent }),
      Math.floor(width / 7.2),
    );
    const size = { width: width + 2 * MARGIN, height: height + 2 * MARGIN + CAPTION_LINE * lines.length + 8 };
    const caption = lines.map((line, i) =>
      svg(
        "text",
        {
          x: MARGIN,
          y: height + MARGIN + CAPTION_LINE * (i + 1),
          "font-family": style.fontFamily,
          "font-size": 14,
          fill: style.color,
        },
        line,
      ),
    );
    const paper = svg("rect", { ...size, fill: style.backgroundColor });
    const whole = svg(
      "svg",
      { ...size, viewBox: `0 0 ${size.width} ${size.height}` },
      paper,
      svg("g", { transform: `translate(${MARGIN} ${MARGIN})` }, ...copy.childNodes),
      ...caption,
    );
    return { text: new XMLSerializer().serializeToString(whole), ...size };
  }

  async saveSvg() {
    offer(new Blob([this.standalone().text], { type: "image/svg+xml" }), `${this.fileName()}.svg`);
  }

  async savePng() {
    const { text, width, height } = this.standalone();
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    await image.decode();
    const canvas = el("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    offer(blob, `${this.fileName()}.png`);
  }

  fileName() {
    return [
      store.get("model").name,
      store.get("part"),
      `layer${store.get("layer") + 1}`,
      `head${store.get("head") + 1}`,
    ].join("-");
  }
}

/** Write the styles that the page's sheet gives into a copy. */
function inlineStyles(from, to) {
  const style = getComputedStyle(from);
  for (const name of KEPT_STYLES) if (style.getPropertyValue(name)) to.setAttribute(name, style.getPropertyValue(name));
  [...from.children].forEach((child, i) => inlineStyles(child, to.children[i]));
}

/** The cells of a matrix as rectangles, in the colours of its canvas. */
function cellRects(canvas, { left, top, cell }) {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const rects = Array.from({ length: canvas.width * canvas.height }, (_, i) => {
    const [r, g, b, a] = pixels.subarray(4 * i, 4 * i + 4);
    return (
      a &&
      svg("rect", {
        x: left + (i % canvas.width) * cell,
        y: top + Math.floor(i / canvas.width) * cell,
        width: cell,
        height: cell,
        fill: `rgb(${r},${g},${b})`,
      })
    );
  });
  return svg("g", { "shape-rendering": "crispEdges" }, rects.filter(Boolean));
}

/** Lines of at most so many letters; a text without spaces is cut anywhere. */
function wrapWords(text, most) {
  const lines = [""];
  for (const piece of text.split(/(?<=\s)|(?<=[\u2e80-\u9fff\uff00-\uffef])/)) {
    if (lines.at(-1) && (lines.at(-1) + piece).length > most) lines.push("");
    lines[lines.length - 1] += piece;
  }
  return lines;
}

/** Give a file to the browser to save. */
function offer(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10e3);
}
