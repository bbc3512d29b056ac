/**
 * What a model that reads says of a text: classes with their probabilities, names marked in it, the answer in its
 * context.
 *
 * What is unusual: nothing is marked by searching; the model says at which characters a span begins and ends.
 * What it does not know: how the model came to it.
 */
import { el, datum, percent, figure } from "./draw.js";
import { t } from "./strings.js";
import { barLine } from "./chips.js";

const MOST_CLASSES = 12;

/** @param {object} view @param {string} task @returns {Node[]} */
export function outputsSaid(view, task) {
  if (task === "question-answering") return answerSaid(view);
  if (task === "tagging") return spansSaid(view);
  if (!view.outputs.length) return [el("p", { class: "hint" }, t("try.no-output"))];
  const lines = view.outputs
    .slice(0, MOST_CLASSES)
    .map(({ label, p, value }, i) =>
      p === null
        ? el("li", {}, datum(label), " ", el("b", { translate: "no" }, figure(value)))
        : barLine(datum(label), p, percent(p), { current: i === 0 }),
    );
  return [el("p", { class: "label" }, t("try.says")), el("ul", { class: "bars labels" }, lines)];
}

function answerSaid({ outputs, request }) {
  const [best] = outputs;
  if (!best) return [];
  const lines = outputs.map(({ label, p }, i) =>
    barLine(label ? datum(label) : el("i", {}, t("try.no-answer")), p, percent(p), { current: i === 0 }),
  );
  const context = best.label ? markedText(request.texts[1], [best]) : null;
  return [el("p", { class: "label" }, t("try.answers")), context, el("ul", { class: "bars labels" }, lines)].filter(
    Boolean,
  );
}

function spansSaid({ outputs, request }) {
  if (!outputs.length) return [el("p", { class: "hint" }, t("try.no-spans"))];
  return [el("p", { class: "label" }, t("try.marks")), markedText(request.texts[0], outputs, true)];
}

/** A text with spans marked; `named` puts each one's label and probability behind it. */
function markedText(text, spans, named = false) {
  const letters = [...text]; // the model counts characters, not halves of surrogate pairs
  const pieces = [];
  let place = 0;
  for (const { label, p, start, stop } of [...spans].sort((a, b) => a.start - b.start)) {
    if (start === null || start < place) continue;
    pieces.push(letters.slice(place, start).join(""));
    pieces.push(
      el("mark", {}, letters.slice(start, stop).join(""), named && el("small", {}, ` ${label} ${percent(p)}`)),
    );
    place = stop;
  }
  return el("p", { class: "written marked", translate: "no", dir: "auto" }, pieces, letters.slice(place).join(""));
}
