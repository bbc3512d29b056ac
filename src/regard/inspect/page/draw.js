/**
 * Hands that draw: elements, SVG, heat maps, one scale of colour, numbers as text, and what every screen has.
 *
 * What is unusual: the colour scale is one hue whose lightness falls (light theme) or rises (dark theme) evenly in
 * OKLab, so that it says the same to the colour-blind and in print. Texts of data reach the page as text nodes only;
 * what is data and not the page's own words carries translate="no".
 * What it does not know: the model, and the store but for the language.
 */
import { store } from "./store.js";

/**
 * An element; `attributes` may hold functions (`onclick`), `style` as an object, booleans; null children are left
 * out.
 */
export function el(tag, attributes = {}, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fillElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fillElement(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Build a part of the page anew without taking the focus from it: `data-act` says which element is which. */
export function keepFocus(container, rebuild) {
  const held = container.contains(document.activeElement) ? document.activeElement.dataset.act : null;
  rebuild();
  if (held) [...container.querySelectorAll("[data-act]")].find((node) => node.dataset.act === held)?.focus();
}

/** A piece of the data (a token, a text) inside a sentence. */
export function datum(text, name = "datum") {
  return el("b", { class: name, translate: "no", dir: "auto" }, text);
}

/** How the page is opened, as it is typed. */
export function command() {
  return el("code", { translate: "no" }, "regard look");
}

/** What all screens share: `listen` lasts as long as the screen is shown, `leaving` aborts when it goes. */
export class Screen extends HTMLElement {
  #offs = [];
  #leave = new AbortController();

  connectedCallback() {
    this.#leave = new AbortController();
    this.build();
  }

  disconnectedCallback() {
    this.#leave.abort();
    for (const off of this.#offs.splice(0)) off();
  }

  /** An AbortSignal for what the screen fetches. */
  get leaving() {
    return this.#leave.signal;
  }

  listen(keys, fn) {
    this.#offs.push(store.on(keys, fn));
  }
}

// Stops of the scale in OKLCH: [lightness, chroma] from 0 to 1; one hue.
const SCALE_HUE = 252;
const SCALES = {
  light: [
    [0.975, 0.006],
    [0.86, 0.06],
    [0.66, 0.125],
    [0.47, 0.14],
    [0.3, 0.1],
  ],
  dark: [
    [0.235, 0.016],
    [0.38, 0.07],
    [0.56, 0.125],
    [0.75, 0.115],
    [0.94, 0.045],
  ],
};
const scaleTables = {};

export function oklchToRgb(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const [l, m, s] = [
    lightness + 0.3963377774 * a + 0.2158037573 * b,
    lightness - 0.1055613458 * a - 0.0638541728 * b,
    lightness - 0.0894841775 * a - 1.291485548 * b,
  ].map((x) => x ** 3);
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((x) =>
    Math.round(255 * Math.max(0, Math.min(1, x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055))),
  );
}

function scaleTable(theme) {
  if (!scaleTables[theme]) {
    const stops = SCALES[theme];
    scaleTables[theme] = Array.from({ length: 256 }, (_, i) => {
      const place = (i / 255) * (stops.length - 1);
      const low = Math.min(Math.floor(place), stops.length - 2);
      const mix = (n) => stops[low][n] + (place - low) * (stops[low + 1][n] - stops[low][n]);
      return oklchToRgb(mix(0), mix(1), SCALE_HUE);
    });
  }
  return scaleTables[theme];
}

function scaleIndex(value) {
  return Math.round(255 * Math.max(0, Math.min(1, value)));
}

/** The scale's colour of a value from 0 to 1, as CSS. */
export function colour(value, theme) {
  return `rgb(${scaleTable(theme)[scaleIndex(value)].join(" ")})`;
}

/** Black or white, whichever is better read on top of `colour(value, theme)`; one of them always is (WCAG, 4.5). */
export function inkOn(value, theme) {
  const linear = scaleTable(theme)[scaleIndex(value)].map((x) =>
    x / 255 <= 0.04045 ? x / 3294.6 : ((x / 255 + 0.055) / 1.055) ** 2.4,
  );
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return luminance > 0.179 ? "#000000" : "#ffffff";
}

/**
 * Where a value stands on the scale: its root, so that a twentieth can still be seen. The legend is drawn by it too.
 */
export function shade(value, max = 1) {
  return Math.sqrt(Math.min(1, Math.abs(value) / max));
}

/** A matrix as pixels, one each; CSS makes them large. The end of the scale is `max`; NaN is left clear. */
export function heatmap(canvas, { data, rows, columns, theme, max = 1 }) {
  canvas.width = columns;
  canvas.height = rows;
  const picture = new ImageData(columns, rows);
  const table = scaleTable(theme);
  for (let i = 0; i < rows * columns; i++) {
    if (Number.isNaN(data[i])) continue;
    picture.data.set(table[scaleIndex(shade(data[i], max))], 4 * i);
    picture.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/** 0.834 as "83 %" (in Chinese without the space); near the ends a digit more, so that little is not nothing. */
export function percent(share, least = 1) {
  const value = 100 * share;
  const near = Math.min(value, 100 - value);
  const digits = least && near > 0 && value < 99.95 && (value < 9.95 || value > 99) ? (value < 0.095 ? 2 : 1) : 0;
  return `${value.toFixed(digits)}${store.get("lang") === "zh" ? "" : "\u202f"}%`;
}

/** A number with as many digits, a true minus, and in thin groups of three when large; what they would round to nothing
 * is written by its power of ten. */
export function figure(value, digits = 3) {
  if (value !== 0 && digits > 3 && Math.abs(value) < 0.5 * 10 ** -digits)
    return value.toExponential(1).replaceAll("-", "−");
  if (!Number.isFinite(value)) return value === -Infinity ? "−∞" : String(value);
  return value
    .toFixed(digits)
    .replace("-", "−")
    .replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, "\u202f");
}

/** A token as the page shows it: the word-start mark as a thin space's place, a line break as ↵, emptiness as ∅. */
export function tokenText(token) {
  const text = token.text.replaceAll("\n", "↵").replaceAll("\t", "⇥");
  if (token.kind === "special" || token.kind === "lead") return text;
  return text === "▁" || text === " " ? "␣" : text.replace(/^▁/, "") || "∅";
}

/** A token as a piece of the data inside a sentence. */
export function tokenDatum(token) {
  return datum(tokenText(token), "token");
}
