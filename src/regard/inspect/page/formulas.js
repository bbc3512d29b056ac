/**
 * Formulas as MathML, from the LaTeX in which `model/equations.py` states them.
 *
 * What is unusual: the page has no formula of its own. What it shows is the statement that is registered beside the
 * function which computes it, read by a parser of the few commands those statements use; an unknown one throws, and a
 * test reads them all.
 * What it does not know: what a formula means, tokens (they never enter a formula).
 */

const MATHML = "http://www.w3.org/1998/Math/MathML";

const LETTERS = {
  alpha: "α",
  beta: "β",
  gamma: "γ",
  epsilon: "ϵ",
  theta: "θ",
  mu: "μ",
  pi: "π",
  sigma: "σ",
  omega: "ω",
  Delta: "Δ",
};
const OPERATORS = {
  top: "⊤",
  in: "∈",
  times: "×",
  cdot: "·",
  dots: "…",
  infty: "∞",
  le: "≤",
  ge: "≥",
  odot: "⊙",
  approx: "≈",
  mid: "∣",
  sum: "∑",
  lfloor: "⌊",
  rfloor: "⌋",
  to: "→",
};
const SPACES = { ",": "0.17em", ";": "0.28em", " ": "0.33em", quad: "1em", qquad: "2em" };
const FUNCTIONS = new Set(["exp", "ln", "log", "sin", "cos", "tanh", "max", "arg"]);
const PLAIN = new Set(["mathrm", "text"]);

/** A formula as an element <math>. @param {string} latex  @param {boolean} display on a line of its own */
export function mathml(latex, display = true) {
  const math = mathNode("math");
  math.setAttribute("translate", "no"); // the names in it are the chapter's
  if (display) math.setAttribute("display", "block");
  math.append(...new LatexReader(latex).sequence());
  return math;
}

/** A number for a formula or a sentence: four significant digits, a true minus, powers of ten for the very small. */
export function numberText(x, digits = 4) {
  if (x === -Infinity || x < -1e30) return "−∞";
  if (!Number.isFinite(x)) return String(x);
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 1e5 || size < 1e-4 ? size.toExponential(2) : String(Number(size.toPrecision(digits)));
  return (x < 0 ? "−" : "") + text;
}

/** The same as LaTeX, e.g. 3.1e-7 as 3.1 \times 10^{-7}. */
export function latexNumber(x, digits = 4) {
  const text = numberText(x, digits).replace("−∞", "-\\infty").replaceAll("−", "-");
  const [, mantissa, power] = /^(.*)e([+-]?\d+)$/.exec(text) ?? [null, text, null];
  return power === null ? mantissa : `${mantissa}\\times 10^{${Number(power)}}`;
}

function mathNode(tag, ...children) {
  const node = document.createElementNS(MATHML, tag);
  node.append(...children);
  return node;
}

class LatexReader {
  constructor(latex) {
    this.tokens = latex.match(/\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\s+|./gu) ?? [];
    this.at = 0;
  }

  next() {
    this.skipSpaces();
    return this.tokens[this.at];
  }

  take() {
    this.skipSpaces();
    return this.tokens[this.at++];
  }

  skipSpaces() {
    while (this.at < this.tokens.length && !this.tokens[this.at].trim()) this.at++;
  }

  expect(token) {
    const found = this.take();
    if (found !== token) throw new Error(`a formula has ${found} where ${token} should be`);
  }

  /** Atoms with their indices, up to one of the tokens in `ends` or the end. */
  sequence(...ends) {
    const nodes = [];
    for (let token = this.next(); token !== undefined && !ends.includes(token); token = this.next()) {
      nodes.push(this.indexed(this.atom()));
    }
    return nodes;
  }

  indexed(base) {
    let [below, above] = [null, null];
    for (let token = this.next(); token === "_" || token === "^" || token === "'"; token = this.next()) {
      this.take();
      if (token === "_") below = this.argument();
      else above = token === "'" ? mathNode("mo", "′") : this.argument();
    }
    const sum = base.textContent === "∑";
    if (below && above) return mathNode(sum ? "munderover" : "msubsup", base, below, above);
    if (below) return mathNode(sum ? "munder" : "msub", base, below);
    return above ? mathNode("msup", base, above) : base;
  }

  /** What a command takes: a group, or the one thing that follows. */
  argument() {
    return this.next() === "{" ? this.group() : this.atom();
  }

  group() {
    this.expect("{");
    const nodes = this.sequence("}");
    this.expect("}");
    return nodes.length === 1 ? nodes[0] : mathNode("mrow", ...nodes);
  }

  /** The letters of a group as they stand. */
  words() {
    if (this.next() !== "{") return this.take();
    this.expect("{");
    let text = "";
    while (this.at < this.tokens.length && this.tokens[this.at] !== "}") text += this.tokens[this.at++];
    this.expect("}");
    return text.replaceAll("\\ ", " ");
  }

  atom() {
    const token = this.next();
    if (token === "{") return this.group();
    this.take();
    if (token.startsWith("\\") && token.length > 1) return this.command(token.slice(1));
    if (/^\d/.test(token)) return mathNode("mn", token);
    if (/^\p{L}/u.test(token)) return mathNode("mi", token);
    const mark = mathNode("mo", token === "-" ? "−" : token);
    if ("()[]|".includes(token)) mark.setAttribute("stretchy", "false"); // only those of left and right grow
    return mark;
  }

  command(name) {
    if (name in LETTERS) return mathNode("mi", LETTERS[name]);
    if (name in OPERATORS) return mathNode("mo", OPERATORS[name]);
    if (FUNCTIONS.has(name)) return mathNode("mi", name);
    if (PLAIN.has(name)) return this.plain(name);
    if (name in SPACES) return spaceNode(SPACES[name]);
    if (name === "mathbb") return mathNode("mi", { R: "ℝ" }[this.words()]);
    if (name === "frac" || name === "tfrac") return mathNode("mfrac", this.argument(), this.argument());
    if (name === "sqrt") return mathNode("msqrt", this.argument());
    if (name === "tilde" || name === "overline") return this.under(name === "tilde" ? "~" : "‾");
    if (name === "left") return this.fenced();
    if (name === "begin") return this.cases();
    throw new Error(`a formula has \\${name}, which this page cannot show`);
  }

  plain(name) {
    const node = mathNode(name === "text" ? "mtext" : "mi", this.words());
    node.setAttribute("mathvariant", "normal");
    return node;
  }

  under(mark) {
    const accent = mathNode("mo", mark);
    accent.setAttribute("stretchy", mark === "‾" ? "true" : "false");
    const node = mathNode("mover", this.argument(), accent);
    node.setAttribute("accent", "true");
    return node;
  }

  fenced() {
    const open = this.take();
    const inner = this.sequence("\\right");
    this.expect("\\right");
    return mathNode("mrow", mathNode("mo", open), ...inner, mathNode("mo", this.take()));
  }

  cases() {
    if (this.words() !== "cases") throw new Error("a formula has an environment that is not cases");
    const table = mathNode("mtable");
    while (this.next() !== "\\end") {
      const row = mathNode("mtr", mathNode("mtd", ...this.sequence("&", "\\\\", "\\end")));
      while (this.next() === "&") {
        this.take();
        row.append(mathNode("mtd", ...this.sequence("&", "\\\\", "\\end")));
      }
      table.append(row);
      if (this.next() === "\\\\") this.take();
    }
    this.take();
    this.words();
    return mathNode("mrow", mathNode("mo", "{"), table);
  }
}

function spaceNode(width) {
  const node = mathNode("mspace");
  node.setAttribute("width", width);
  return node;
}
