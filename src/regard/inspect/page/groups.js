/**
 * Tokens as the eye wants them: the pieces of a word joined, specials left out, and a matrix summed to match.
 *
 * What is unusual: joining follows Clark et al. 2019: weights to the pieces of a word are added, weights from them are
 * averaged, so that a row of words still sums to 1. Leaving specials out divides each row by what is left of it.
 * What it does not know: the model, and how anything is drawn.
 */

/**
 * @typedef {{members: number[], text: string, kind: string, word: number}} Group members are places in the row of
 *   tokens
 */

/** @param {object[]} tokens @param {{join?: boolean, hideSpecials?: boolean}} how @returns {Group[]} */
export function groupTokens(tokens, { join = false, hideSpecials = false } = {}) {
  const groups = [];
  tokens.forEach((token, i) => {
    if (hideSpecials && token.kind !== "text") return;
    const last = groups.at(-1);
    const joins =
      join &&
      last &&
      token.kind === "text" &&
      last.kind === "text" &&
      token.word === last.word &&
      last.members.at(-1) === i - 1;
    if (joins && token.word >= 0) {
      last.members.push(i);
      last.text += token.text;
    } else groups.push({ members: [i], text: token.text, kind: token.kind, word: token.word, part: token.part });
  });
  return groups;
}

/** Where a token went: the number of its group, or -1 when it is left out. */
export function groupOf(groups, i) {
  return groups.findIndex(({ members }) => members.includes(i));
}

/**
 * The matrix of groups from one of tokens, (T, S) -> (rows, columns).
 * @param {Float32Array} data of T x S @param {number} width S @param {"sum"|"mean"} keys how the pieces of a key count
 *   together
 */
export function groupMatrix(data, width, rows, columns, { renormalise = false, keys = "sum" } = {}) {
  const out = new Float32Array(rows.length * columns.length);
  rows.forEach(({ members: queries }, r) => {
    for (const i of queries) {
      const start = i * width;
      columns.forEach(({ members }, c) => {
        for (const j of members)
          out[r * columns.length + c] += data[start + j] / queries.length / (keys === "mean" ? members.length : 1);
      });
    }
    if (renormalise) normaliseRow(out, r, columns.length);
  });
  return out;
}

function normaliseRow(out, r, count) {
  let sum = 0;
  for (let c = 0; c < count; c++) sum += out[r * count + c];
  if (sum > 0) for (let c = 0; c < count; c++) out[r * count + c] /= sum;
}
