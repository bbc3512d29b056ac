/**
 * The sum, step by step, as data: for one row of one head, what each step of the chapter computes and whether it is so.
 *
 * What is unusual: a step is checked by computing it anew from what the step before gave the page (`maths.js`), never from
 * the number that it is compared with. Rows and keys are counted from 1 in formulas, as the chapter counts.
 * What it does not know: elements of the page (`cards.js` draws), languages (`words` are keys of strings).
 *
 * A step: {id, functions, plugged, pictures, words, checks}. `functions`: names in model/equations.py whose statements
 * are shown; `plugged`: LaTeX with this pivot's numbers; `pictures`, see cards.js; `words`: [key, values];
 * `checks`: [{name, difference, agree, mine, theirs}].
 */
import { scoreRow, softmaxRow, weightedSum, dot, rowOf, turn, checkOf, lengthOf, addRows, matVec } from "./maths.js";
import { latexNumber, numberText } from "./formulas.js";
import { streamSteps, placingSteps, layerSteps } from "./blocks.js";

/** All steps of the pivot that `gatherFacts` has gathered. */
export function stepsOf(facts) {
  return [...placingSteps(facts), ...attentionSteps(facts), ...streamSteps(facts), ...layerSteps(facts)];
}

function attentionSteps(facts) {
  const raw = scoreRow(facts.q, facts.k, facts.scale);
  const e = scoreRow(facts.q, facts.k, facts.scale, facts.bias, facts.mask);
  const mine = softmaxRow(e);
  const z = facts.headsOff.has(facts.head) ? new Array(facts.width).fill(0) : weightedSum(mine, facts.v);
  return [
    projectionStep(facts),
    facts.model.positions === "rope" && facts.part.queries === facts.part.keys && !facts.unplaced
      ? turnStep(facts)
      : null,
    scoreStep(facts, raw, e),
    facts.bias ? biasStep(facts, raw, e) : null,
    maskStep(facts, e),
    shareStep(facts, e, mine),
    sumStep(facts, mine, z),
    concatStep(facts),
  ].filter(Boolean);
}

const at = (facts) => ({ i: facts.row + 1, j: facts.key + 1 });

function projectionStep(facts) {
  const { i } = at(facts);
  const cross = facts.part.queries !== facts.part.keys;
  const words = [[cross ? "sum.qkv.cross" : "sum.qkv.self", { token: facts.named, n: facts.width }]];
  if (facts.kvHeads < facts.part.heads)
    words.push([
      "sum.qkv.shared",
      { head: facts.head + 1, kv: facts.kvHead + 1, each: facts.part.heads / facts.kvHeads },
    ]);
  return {
    id: "qkv",
    functions: ["project_one"],
    plugged: [
      `q_{${i}}\\in\\mathbb R^{${facts.width}},\\quad k_j,v_j\\in\\mathbb R^{${facts.width}},\\quad j=1,\\dots,${facts.nKeys}`,
    ],
    pictures: [
      { kind: "vectors", rows: [{ latex: `q_{${i}}`, data: facts.q }] },
      { kind: "vectors", name: "sum.all.k", rows: keyRows(facts, "k", facts.k) },
      { kind: "vectors", name: "sum.all.v", rows: keyRows(facts, "v", facts.v) },
    ],
    words,
    checks: [],
  };
}

function keyRows(facts, name, matrix) {
  return facts.keys.map((token, j) => ({ latex: `${name}_{${j + 1}}`, key: j, token, data: rowOf(matrix, j) }));
}

/** RoPE: q and k turned back to where they were before positions turned them, and the law that makes it worth while. */
function turnStep(facts) {
  const { i, j } = at(facts);
  const ownAngles = rowOf(facts.angles, facts.row);
  const before = turn(facts.q, ownAngles, -1);
  const keyBefore = turn(rowOf(facts.k, facts.key), rowOf(facts.angles, facts.key), -1);
  const apart = Array.from(ownAngles, (angle, n) => angle - rowOf(facts.angles, facts.key)[n]);
  const byDistance = dot(turn(before, apart), keyBefore);
  const pairs = Array.from({ length: Math.min(4, ownAngles.length) }, (_, n) => ({
    n,
    angle: ownAngles[n],
    before: [before[n], before[n + ownAngles.length]],
    after: [facts.q[n], facts.q[n + ownAngles.length]],
  }));
  return {
    id: "turn",
    functions: ["rope"],
    plugged: [
      `t=${facts.row},\\quad t\\,\\theta^{0}=${latexNumber(ownAngles[0])}\\,\\text{rad}`,
      `q_{${i}}^\\top k_{${j}}=${latexNumber(byDistance)}`,
    ],
    pictures: [
      {
        kind: "vectors",
        rows: [
          { latex: `W_Qx_{${i}}`, note: "sum.turn.before", data: before },
          { latex: `q_{${i}}`, note: "sum.turn.after", data: facts.q },
        ],
      },
      { kind: "turn", pairs },
    ],
    words: [
      [
        "sum.turn.words",
        { token: facts.named, t: facts.row, distance: Math.abs(facts.row - facts.key), key: facts.keys[facts.key] },
      ],
    ],
    checks: [checkOf("sum.check.distance", [byDistance], [dot(facts.q, rowOf(facts.k, facts.key))])],
  };
}

function scoreStep(facts, raw, e) {
  const { i, j } = at(facts);
  const product = dot(facts.q, rowOf(facts.k, facts.key));
  const usual = Math.abs(facts.scale - 1 / Math.sqrt(facts.width)) < 1e-9;
  const dividing = `\\frac{q_{${i}}^\\top k_{${j}}}{\\sqrt{${facts.width}}}=\\frac{${latexNumber(product)}}{${latexNumber(Math.sqrt(facts.width))}}`;
  const scaling = `q_{${i}}^\\top k_{${j}}\\cdot${latexNumber(facts.scale)}=${latexNumber(product)}\\cdot${latexNumber(facts.scale)}`;
  const key = facts.keys[facts.key];
  return {
    id: "scores",
    functions: ["score_of_one"],
    plugged: [`e_{${i},${j}}=${usual ? dividing : scaling}=${latexNumber(raw[facts.key])}`],
    pictures: [{ kind: "keys", bars: raw, values: raw, heading: "sum.column.score", signed: true }],
    words: [
      [
        usual ? "sum.scores.words" : "sum.scores.scale",
        {
          token: facts.named,
          key,
          score: numberText(raw[facts.key], 3),
          n: facts.width,
          scale: numberText(facts.scale, 3),
        },
      ],
    ],
    checks: facts.bias ? [] : [checkOf("sum.check.scores", e, facts.e)],
  };
}

function biasStep(facts, raw, e) {
  const { i, j } = at(facts);
  const alibi = facts.model.positions === "alibi";
  const penalty = facts.bias[facts.key];
  return {
    id: "bias",
    functions: [alibi ? "alibi" : "relative"],
    plugged: [
      `e_{${i},${j}}=${latexNumber(raw[facts.key])}${penalty < 0 ? "" : "+"}${latexNumber(penalty)}=${latexNumber(raw[facts.key] + penalty)}`,
    ],
    pictures: [{ kind: "keys", bars: facts.bias, values: facts.bias, heading: "sum.column.bias", signed: true }],
    words: [
      [
        alibi ? "sum.bias.alibi" : "sum.bias.relative",
        {
          head: facts.head + 1,
          key: facts.keys[facts.key],
          bias: numberText(penalty, 3),
          distance: Math.abs(facts.row - facts.key),
        },
      ],
    ],
    checks: [checkOf("sum.check.scores", e, facts.e)],
  };
}

function maskStep(facts, e) {
  const hidden = facts.mask.reduce((count, seen) => count + (seen ? 0 : 1), 0);
  const i = facts.row + 1;
  const first = facts.mask.findIndex((seen) => !seen);
  const key =
    hidden === 0
      ? facts.part.causal
        ? "sum.mask.last"
        : "sum.mask.none"
      : facts.edgesOff.length
        ? "sum.mask.edges"
        : "sum.mask.future";
  return {
    id: "mask",
    functions: ["masked_scores"],
    plugged: hidden ? [`\\tilde S_{${i},${first + 1}}=-\\infty`] : [],
    pictures: hidden
      ? [{ kind: "keys", bars: e, values: e, heading: "sum.column.score", signed: true, struck: true }]
      : [],
    words: [[key, { token: facts.named, n: hidden, of: facts.nKeys }]],
    checks: [],
  };
}

function shareStep(facts, e, mine) {
  const { i, j } = at(facts);
  const top = Math.max(...e);
  const total = e.reduce((sum, x) => sum + Math.exp(x - top), 0);
  const formula = `\\frac{\\exp(${latexNumber(e[facts.key])})}{\\sum_{m}\\exp(e_{${i}m})}`;
  const [over, under] =
    top > 300 ? [Math.exp(e[facts.key] - top), total] : [Math.exp(e[facts.key]), total * Math.exp(top)];
  return {
    id: "softmax",
    functions: ["weight_of_one"],
    plugged: [
      `\\alpha_{${i},${j}}=${formula}=\\frac{${latexNumber(over)}}{${latexNumber(under)}}=${latexNumber(mine[facts.key])}`,
    ],
    pictures: [{ kind: "keys", bars: mine, values: mine, heading: "sum.column.weight", signed: false, struck: true }],
    words: [
      [
        "sum.softmax.words",
        {
          token: facts.named,
          key: facts.keys[facts.key],
          share: mine[facts.key],
          sum: numberText(
            mine.reduce((a, b) => a + b, 0),
            6,
          ),
        },
      ],
    ],
    checks: [checkOf("sum.check.weights", mine, facts.alpha)],
  };
}

function sumStep(facts, mine, z) {
  const { i } = at(facts);
  const order = mine
    .map((_, j) => j)
    .sort((a, b) => mine[b] - mine[a])
    .slice(0, 3)
    .filter((j) => mine[j] > 0);
  const terms = order.map((j) => `${latexNumber(mine[j], 3)}\\,v_{${j + 1}}`).join("+");
  const rest = order.length < mine.filter((share) => share > 0).length ? "+\\dots" : "";
  const rows = facts.keys.map((token, j) => {
    const data = Array.from(rowOf(facts.v, j), (x) => x * mine[j]);
    return { latex: `\\alpha_{${i},${j + 1}}v_{${j + 1}}`, key: j, token, faint: mine[j] < 0.005, data };
  });
  const cross = facts.part.queries !== facts.part.keys;
  const words = facts.headsOff.has(facts.head) ? "sum.sum.off" : cross ? "sum.sum.cross" : "sum.sum.words";
  return {
    id: "sum",
    functions: cross ? ["attention_of_one", "context_vector"] : ["attention_of_one"],
    plugged: [`z_{${i}}=${terms || "0"}${rest}`],
    pictures: [{ kind: "vectors", rows, total: { latex: `z_{${i}}`, data: z } }],
    words: [[words, { key: facts.keys[order[0] ?? 0] }]],
    checks: [checkOf("sum.check.z", z, facts.z)],
  };
}

function concatStep(facts) {
  const parts = facts.zs.map((z, h) => matVec(z, facts.W_O[h]));
  const out = parts.reduce(
    (sum, part) => addRows(sum, part),
    facts.b_O ? Array.from(facts.b_O) : new Array(facts.out.length).fill(0),
  );
  const lengths = parts.map(lengthOf);
  const rank = 1 + lengths.filter((x) => x > lengths[facts.head]).length;
  const total = facts.part.heads * facts.width;
  return {
    id: "concat",
    functions: ["multi_head"],
    plugged: [
      `[z^{(1)};\\dots;z^{(${facts.part.heads})}]\\in\\mathbb R^{${total}},\\quad W_O\\in\\mathbb R^{${total}\\times ${facts.out.length}}`,
    ],
    pictures: [
      { kind: "heads", values: lengths },
      { kind: "vectors", rows: [{ latex: `o_{${facts.row + 1}}`, note: "sum.note.out", data: facts.out }] },
    ],
    words: [
      [
        "sum.concat.words",
        { matrix: "W_O", head: facts.head + 1, length: numberText(lengths[facts.head], 3), rank, of: facts.part.heads },
      ],
    ],
    checks: [checkOf("sum.check.out", out, facts.out)],
  };
}
