/**
 * Pieces of the page around the screens: what the model is in one line, an error in words, what the browser remembers.
 *
 * What is unusual: a server's error is shown as it comes, in its words; the page only adds what it knows better.
 * What it does not know: the store, and when any of it is shown.
 */
import { el, command, figure } from "./draw.js";
import { t, phrase } from "./strings.js";

/** The model in one quiet line. @param {object} model what GET /api/model says */
export function aboutLine(model) {
  const layers = (name) => model.parts.find((part) => part.name === name)?.layers;
  const [encoder, decoder] = [layers("encoder.self"), layers("decoder.self")];
  const depth =
    encoder && decoder
      ? t("model.layers.both", { encoder, decoder })
      : t("model.layers.one", { n: encoder ?? decoder ?? 0 });
  const [from, to] = model.languages;
  const targets = model.targets.length ? model.targets.join(", ") : to;
  const facts = [
    t(`task.${model.task}`),
    from && targets && el("span", { translate: "no" }, `${from} → ${targets}`),
    depth,
    model.parts.length && t("model.heads", { n: model.parts[0].heads }),
    t("model.width", { n: model.d_model }),
    t("model.size", { n: shortNumber(model.parameters) }),
  ];
  const dot = () => el("span", { class: "dot", "aria-hidden": "true" }, " · ");
  return [
    el("b", { translate: "no", title: model.path }, model.name),
    ...facts.filter(Boolean).flatMap((fact) => [dot(), fact]),
  ];
}

/** A large number as people say it: 1.9 M. */
function shortNumber(n) {
  const [unit, size] = [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
    ["", 1],
  ].find(([, one]) => n >= one) ?? ["", 1];
  return `${figure(n / size, n / size < 10 && unit ? 1 : 0)}${unit && `\u202f${unit}`}`;
}

/**
 * An error in words: what, expected and got, and what to do.
 * @param {() => void} onAgain where the server did not answer
 */
export function errorBox({ code, what, expected, got, mend }, onAgain) {
  const told = (text) => el("span", { translate: "no" }, text);
  const words = code ? el("span", {}, phrase(`error.${code}`, { command: command() })) : told(what);
  const detail = expected && got && el("p", {}, phrase("error.expected", { expected: told(expected), got: told(got) }));
  const again = code === "no-answer" && el("button", { type: "button", onclick: onAgain }, t("app.again"));
  return el(
    "div",
    { class: "error", role: "alert" },
    el("p", {}, el("b", {}, t("error.title")), ". ", words),
    detail,
    mend && el("p", { translate: "no" }, mend),
    again,
  );
}

/** What the browser kept from an earlier visit; a page from a file or in a frame may keep nothing. */
export function recall(name) {
  try {
    return localStorage.getItem(`regard.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`regard.${name}`, value);
  } catch {
    // not kept: the next visit begins with the browser's own wish
  }
}
