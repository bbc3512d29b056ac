/**
 * Tokens as chips: a row of buttons, under each the probability that the model gave it; and the five likeliest at one
 * place.
 *
 * What is unusual: for a joined word the probability is the product of its pieces', which is that of the whole word
 * after what stands before it.
 * What it does not know: what a click means; it is given functions.
 */
import { el, datum, tokenText, percent } from "./draw.js";
import { groupTokens } from "./groups.js";
import { t, phrase } from "./strings.js";

/**
 * A row of chips.
 * @param {object[]} tokens of a side, or what was written
 * @param {{label: string, join: boolean, chosen: number|null, onShow?: (i: number) => void, onHide?: () => void,
 *   onChoose: (i: number) => void, given?: (i: number) => boolean}} how
 *   `given` tells tokens that were not the model's own choice
 */
export function chipRow(
  tokens,
  { label, join, chosen, onShow = () => {}, onHide = () => {}, onChoose, given = () => false },
) {
  const chips = groupTokens(tokens, { join }).map((group) => {
    const [first] = group.members;
    const pieces = group.members.map((i) => tokens[i]);
    const p = pieces.every((token) => typeof token.p === "number")
      ? pieces.reduce((product, token) => product * token.p, 1)
      : null;
    const names = [
      `chip kind-${group.kind}`,
      group.members.includes(chosen) && "chosen",
      given(first) && "given",
      /^▁/.test(group.text) && "begins",
    ];
    const text = tokenText(group);
    const attributes = {
      type: "button",
      class: names.filter(Boolean).join(" "),
      "aria-pressed": String(group.members.includes(chosen)),
      dataset: { token: first, count: group.members.length, act: `${label}-${first}` },
      translate: "no",
    };
    return el(
      "button",
      {
        ...attributes,
        onmouseenter: () => onShow(first),
        onfocus: () => onShow(first),
        onmouseleave: onHide,
        onblur: onHide,
        onclick: () => onChoose(first),
      },
      el("span", { class: "chip-text", dir: "auto" }, text),
      p !== null && chipBar(p),
    );
  });
  return el("div", { class: "chips", role: "group", "aria-label": label }, chips);
}

function chipBar(p) {
  return [
    el(
      "span",
      { class: "chip-bar", "aria-hidden": "true" },
      el("span", { style: { width: `${Math.max(2, 100 * p)}%` } }),
    ),
    el("span", { class: "chip-p" }, percent(p)),
  ];
}

/** A bar with its name and number, in a list. @param {Node} name @param {number} share of the bar's whole length */
export function barLine(name, share, number, { button = null, current = false, negative = false } = {}) {
  const inside = [
    el("span", { class: "bar-name" }, name),
    el(
      "span",
      { class: "bar-track", "aria-hidden": "true" },
      el("span", {
        class: negative ? "bar negative" : "bar",
        style: { width: `${(100 * Math.min(1, Math.abs(share))).toFixed(2)}%` },
      }),
    ),
    el("span", { class: "bar-number", translate: "no" }, number),
  ];
  const names = current ? "bar-line current" : "bar-line";
  return el(
    "li",
    {},
    button
      ? el("button", { type: "button", class: names, "aria-pressed": String(current), ...button }, inside)
      : el("div", { class: names }, inside),
  );
}

/**
 * What the model weighed at one place: what was written, how likely that was, and the likeliest five.
 * @param {object} written @param {((alternative: [string, number, number]) => void)|null} onInstead decodes on from
 *   another token
 */
export function alternatives(written, onInstead) {
  const said = { token: datum(tokenText(written), "token"), p: percent(written.p), rank: written.rank };
  const lines = written.top.map(([text, id, p]) => {
    const token = { text, kind: "text" };
    const mine = id === written.id;
    const button =
      mine || !onInstead
        ? null
        : {
            onclick: () => onInstead([text, id, p]),
            "aria-label": t("try.instead", { token: tokenText(token) }),
            title: t("try.instead", { token: tokenText(token) }),
          };
    return barLine(datum(tokenText(token), "token"), p, percent(p), { button, current: mine });
  });
  return [
    el("p", { class: "words" }, phrase(written.rank === 1 ? "try.first" : "try.ranked", said)),
    el("ol", { class: "bars" }, lines),
    onInstead && el("p", { class: "hint" }, t("try.instead.hint")),
  ];
}
