/**
 * The steps around attention: how a token becomes a vector, norms, residuals, the feed-forward layer, the prediction.
 *
 * What is unusual: the wiring (post, pre, parallel) is read off the model's axes, as `model/layers.py` has it in one place.
 * What it does not know: attention's own steps (`steps.js`), elements of the page.
 */
import { addRows, minusRow, layerNorm, rmsNorm, activate } from "./maths.js";
import { sinusoid, softmaxRow, largest, lengthOf, checkOf } from "./maths.js";
import { latexNumber, numberText } from "./formulas.js";

/** The norm of this model, with the gain and shift called `name`. */
function normOf(facts, name, x) {
  const [gain, shift, eps] = [facts[`${name}_gain`], facts[`${name}_shift`], facts.model.norm_eps];
  return facts.model.norm === "layer" ? layerNorm(x, gain, shift, eps) : rmsNorm(x, gain, eps);
}

const isPost = (facts) => facts.model.norm_order === "post";
const isCross = (facts) => facts.part.queries !== facts.part.keys;
const streamRow = (name, facts, data, note = null) => ({ latex: `${name}_{${facts.row + 1}}`, note, data });

/** The sum of vectors, shown at their first numbers: 0.2+0.5=0.7, ... */
function firstSum(vectors, total) {
  const terms = vectors.map(([first], n) => (n && !(first < 0) ? "+" : "") + latexNumber(first));
  return `${terms.length > 1 ? `${terms.join("")}=` : ""}${latexNumber(total[0])},\\ \\dots`;
}

/** Up to the sublayer's input: embedding and position, or what the layers below gave; and the norm before, if there is one. */
export function placingSteps(facts) {
  const steps = [facts.embed ? embeddingStep(facts) : inputStep(facts)];
  if (!isPost(facts)) steps.push(normStep(facts));
  return steps;
}

function embeddingStep(facts) {
  const scheme = facts.model.positions;
  const added = (scheme === "sinusoidal" || scheme === "learned") && !facts.unplaced;
  const p = minusRow(facts.placed, facts.embed);
  const i = facts.row + 1;
  const checks = [];
  if (scheme === "sinusoidal" && added) {
    const { theta = 10000, layout = "interleaved" } = facts.model.config.positions;
    checks.push(
      checkOf(
        "sum.check.placed",
        addRows(facts.embed, sinusoid(facts.row, facts.embed.length, theta, layout)),
        facts.placed,
      ),
    );
  }
  if (facts.embed_gain) checks.push(checkOf("sum.check.norm", normOf(facts, "embed", facts.placed), facts.before));
  const sum = `x_{${i}}=e_{${i}}+p_{${i}}:\\quad ${firstSum([facts.embed, p], facts.placed)}`;
  return {
    id: "embed",
    functions: added
      ? ["embedding", "add_positions", ...(scheme === "sinusoidal" ? [sinusoidName(facts)] : [])]
      : ["embedding"],
    plugged: added ? [sum] : [`x_{${i}}=e_{${i}}\\in\\mathbb R^{${facts.embed.length}}`],
    pictures: [
      {
        kind: "vectors",
        rows: [streamRow("e", facts, facts.embed), ...(added ? [streamRow("p", facts, p, "sum.note.position")] : [])],
        total: added || facts.embed_gain ? streamRow("x", facts, facts.before) : null,
      },
    ],
    words: [
      ["sum.embed.words", { token: facts.reads, id: facts.reads.id, n: facts.embed.length }],
      [facts.unplaced ? "sum.embed.unplaced" : `sum.embed.${scheme}`, { t: facts.row }],
      ...(facts.model.embed_scale === 1
        ? []
        : [["sum.embed.scale", { scale: numberText(facts.model.embed_scale, 4) }]]),
      ...(facts.embed_gain ? [["sum.embed.norm", {}]] : []),
    ],
    checks,
  };
}

function sinusoidName(facts) {
  return facts.model.config.positions.layout === "split" ? "sinusoidal_split" : "sinusoidal";
}

function inputStep(facts) {
  return {
    id: "input",
    functions: [],
    plugged: [`x_{${facts.row + 1}}\\in\\mathbb R^{${facts.before.length}}`],
    pictures: [{ kind: "vectors", rows: [streamRow("x", facts, facts.before)] }],
    words: [
      [
        isCross(facts) ? "sum.input.cross" : "sum.input.words",
        { token: facts.reads, below: facts.layer, layer: facts.layer + 1 },
      ],
    ],
    checks: [],
  };
}

function normStep(facts) {
  return {
    id: "norm",
    functions: [facts.model.norm === "layer" ? "layer_norm" : "rms_norm"],
    plugged: [sizesOf(facts, facts.before)],
    pictures: [
      { kind: "vectors", rows: [streamRow("x", facts, facts.before)] },
      { kind: "vectors", rows: [streamRow("x'", facts, facts.normed, "sum.note.normed")] },
    ],
    words: [[facts.model.norm === "layer" ? "sum.norm.layer" : "sum.norm.rms", {}]],
    checks: [checkOf("sum.check.norm", normOf(facts, "own", facts.before), facts.normed)],
  };
}

/** Mean and variance of a row, or its mean square, as the norm has them. */
function sizesOf(facts, x) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const square = x.reduce((a, b) => a + b * b, 0) / x.length;
  return facts.model.norm === "layer"
    ? `\\mu=${latexNumber(mean)},\\quad \\sigma^2=${latexNumber(square - mean * mean)}`
    : `\\overline{x^2}=${latexNumber(square)}`;
}

/** The sublayer's sum goes back into the residual stream. In a parallel block that waits for the feed-forward layer. */
export function streamSteps(facts) {
  return facts.model.norm_order === "parallel" ? [] : [residualStep(facts)];
}

function residualStep(facts) {
  const post = isPost(facts);
  const off = facts.residualsOff.includes(facts.part.path.slice(facts.part.path.lastIndexOf(".") + 1));
  const added = off ? [facts.out] : [facts.before, facts.out];
  const sum = off ? Array.from(facts.out) : addRows(facts.before, facts.out);
  const mine = post ? normOf(facts, "own", sum) : sum;
  const share = lengthOf(facts.out) / lengthOf(facts.before);
  const words = [
    [off ? "sum.residual.off" : post ? "sum.residual.post" : "sum.residual.pre", { share: numberText(share, 2) }],
  ];
  if (facts.part.name === "decoder.self" && facts.model.parts.some((part) => part.name === "decoder.cross"))
    words.push(["sum.residual.next", {}]);
  return {
    id: "residual",
    functions: [
      post ? "post_norm" : "pre_norm",
      ...(post ? [facts.model.norm === "layer" ? "layer_norm" : "rms_norm"] : []),
    ],
    plugged: [`x_{${facts.row + 1}}:\\quad ${firstSum(added, sum)}`],
    pictures: [
      {
        kind: "vectors",
        rows: [...(off ? [] : [streamRow("x", facts, facts.before)]), streamRow("o", facts, facts.out, "sum.note.out")],
        total: streamRow("y", facts, facts.after),
      },
    ],
    words,
    checks: [checkOf("sum.check.residual", mine, facts.after)],
  };
}

/** The rest of the layer: feed-forward, its residual, and what comes after. */
export function layerSteps(facts) {
  return [ffnStep(facts), handOnStep(facts), facts.logits ? predictionStep(facts) : onwardStep(facts)];
}

function ffnStep(facts) {
  const { gated, activation } = facts.model;
  const [width, inner] = [facts.before.length, facts.ffn_act.length];
  const active = facts.ffn_act.reduce((count, x) => count + (Math.abs(x) > 1e-6 ? 1 : 0), 0);
  const checks = gated
    ? []
    : [
        checkOf(
          "sum.check.act",
          Array.from(facts.ffn_pre, (x) => activate(activation, x)),
          facts.ffn_act,
        ),
      ];
  if (!isPost(facts))
    checks.unshift(checkOf("sum.check.norm", normOf(facts, "ffn", facts.resid_mid ?? facts.before), facts.ffn_normed));
  return {
    id: "ffn",
    functions: [gated ? "gated_ffn" : "ffn", activation],
    plugged: [`W_1\\in\\mathbb R^{${width}\\times ${inner}},\\quad W_2\\in\\mathbb R^{${inner}\\times ${width}}`],
    pictures: [
      {
        kind: "vectors",
        rows: [
          { latex: gated ? "W_gx+b_g" : "W_1x+b_1", data: facts.ffn_pre },
          { latex: gated ? "\\sigma\\odot W_1x" : "\\sigma", data: facts.ffn_act },
        ],
        total: { latex: "\\mathrm{FFN}", data: facts.ffn_out },
      },
    ],
    words: [
      [
        activation === "relu" && !gated ? "sum.ffn.relu" : "sum.ffn.words",
        { n: facts.ffn_act.length, active, share: active / facts.ffn_act.length },
      ],
    ],
    checks,
  };
}

function handOnStep(facts) {
  const order = facts.model.norm_order;
  const parallel = order === "parallel";
  const off = parallel ? facts.residualsOff.length > 0 : facts.residualsOff.includes("ffn");
  const start = parallel ? facts.before : facts.resid_mid;
  const added = [...(off ? [] : [start]), ...(parallel ? [facts.out] : []), facts.ffn_out];
  const sum = added.reduce((soFar, row) => addRows(soFar, row), new Array(start.length).fill(0));
  const rows = [streamRow("f", facts, facts.ffn_out, "sum.note.ffn")];
  if (parallel) rows.unshift(streamRow("o", facts, facts.out, "sum.note.out"));
  if (!off) rows.unshift(streamRow("x", facts, start));
  return {
    id: "out",
    functions: [order === "parallel" ? "parallel" : isPost(facts) ? "post_norm" : "pre_norm"],
    plugged: [`x_{${facts.row + 1}}:\\quad ${firstSum(added, sum)}`],
    pictures: [{ kind: "vectors", rows, total: streamRow("x'", facts, facts.resid_out) }],
    words: [["sum.out.words", { layer: facts.layer + 1 }]],
    checks: [checkOf("sum.check.residual", isPost(facts) ? normOf(facts, "ffn", sum) : sum, facts.resid_out)],
  };
}

/** The last layer of a decoder: logits to probabilities, and the five likeliest tokens. */
function predictionStep(facts) {
  const p = softmaxRow(Array.from(facts.logits));
  const written = facts.writes;
  const checks = facts.last ? [checkOf("sum.check.norm", normOf(facts, "last", facts.resid_out), facts.last)] : [];
  if (written && written.p !== null) checks.push(checkOf("sum.check.p", [p[written.id]], [written.p]));
  const texts = new Map((written?.top ?? []).map(([text, id]) => [id, text]));
  const top = largest(p, 5).map((id) => ({ id, text: texts.get(id) ?? `#${id}`, p: p[id], logit: facts.logits[id] }));
  return {
    id: "logits",
    functions: [
      "softmax",
      isCross(facts) || facts.model.parts.length > 1 ? "log_likelihood" : "next_token_log_likelihood",
    ],
    plugged: written ? [probabilityLatex(facts.logits, p, written.id)] : [],
    pictures: [{ kind: "top", rows: top, written: written?.id ?? null }],
    words: [
      [
        written ? "sum.logits.words" : "sum.logits.end",
        {
          token: written ?? facts.reads,
          p: written ? p[written.id] : 0,
          n: p.length,
          first: { text: top[0].text, kind: "text" },
        },
      ],
    ],
    checks,
  };
}

function probabilityLatex(logits, p, id) {
  const share = `\\frac{\\exp(${latexNumber(logits[id])})}{\\sum_{v=1}^{${p.length}}\\exp(\\text{logit}_v)}`;
  return `p=${share}=${latexNumber(p[id])},\\quad \\log p=${latexNumber(Math.log(p[id]))}`;
}

function onwardStep(facts) {
  const last = facts.layer === facts.part.layers - 1;
  const checks = facts.last ? [checkOf("sum.check.norm", normOf(facts, "last", facts.resid_out), facts.last)] : [];
  const decoder = facts.model.parts.some((part) => part.name === "decoder.cross");
  const key = !last
    ? "sum.next.layer"
    : decoder && facts.part.name === "encoder.self"
      ? "sum.next.memory"
      : "sum.next.head";
  return {
    id: "next",
    functions: facts.last ? [facts.model.norm === "layer" ? "layer_norm" : "rms_norm"] : [],
    plugged: [],
    pictures: facts.last ? [{ kind: "vectors", rows: [streamRow("h", facts, facts.last)] }] : [],
    words: [[key, { next: facts.layer + 2 }]],
    checks,
  };
}
