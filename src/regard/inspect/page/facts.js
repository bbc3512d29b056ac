/**
 * The numbers behind one row of attention: every tensor that the sum for the pivot needs, under short names.
 *
 * What is unusual: only one row of the query axis is fetched, and of the other axes what that row meets; which tensors
 * there are follows from the model's own axes (pre or post norm, biases, positions), never from its name.
 * What it does not know: how the numbers are shown (`sum.js`) and what they should be (`steps.js`).
 *
 * Shapes: H heads, T queries, S keys, d head width, D d_model, F d_ff, V vocabulary.
 */
import { partOf, partSides, rowTokens } from "./store.js";
import { NeedsServer } from "./source.js";
import { matrixOf } from "./maths.js";

/** Where a part's sublayer stands in its block: what it reads from the residual stream, and where its sum goes to. */
function streamNames(model, part) {
  const both = model.parts.some((one) => one.name === "decoder.cross");
  if (part.name === "decoder.cross") return { before: "resid_cross", after: "resid_mid" };
  if (part.name === "decoder.self" && both) return { before: "resid_in", after: "resid_cross" };
  return { before: "resid_in", after: model.norm_order === "parallel" ? "resid_out" : "resid_mid" };
}

/** The names of all that is needed: {row} one row each, {whole} uncut, short name -> tensor name; and whether {logits}. */
function tensorNames(model, view, part, layer) {
  const at = part.path.replace("{layer}", layer);
  const [block, sublayer] = [at.slice(0, at.lastIndexOf(".")), at.slice(at.lastIndexOf(".") + 1)];
  const stack = block.slice(0, block.indexOf("."));
  const { before, after } = streamNames(model, part);
  const bias = model.config.bias;
  const row = { before: `${block}.${before}`, after: `${block}.${after}`, normed: `${block}.${sublayer}_norm.out` };
  for (const leaf of ["q", "scores", "weights", "z", "out"]) row[leaf] = `${at}.${leaf}`;
  for (const leaf of ["pre", "act", "out"]) row[`ffn_${leaf}`] = `${block}.ffn.${leaf}`;
  Object.assign(row, { ffn_normed: `${block}.ffn_norm.out`, resid_out: `${block}.resid_out` });
  if (model.norm_order !== "parallel") row.resid_mid = `${block}.resid_mid`;
  if (layer === 0 && part.name !== "decoder.cross")
    Object.assign(row, { embed: `${stack}.embed`, placed: `${stack}.positions` });
  const whole = { k: `${at}.k`, v: `${at}.v`, mask: `${part.name}.mask`, W_O: `${at}.W_O` };
  if (bias === "all" || bias === "attention") whole.b_O = `${at}.b_O`;
  if (part.queries === part.keys && ["alibi", "relative"].includes(model.positions)) row.bias = `${at}.bias`;
  if (part.queries === part.keys && model.positions === "rope") whole.angles = `${stack}.positions.angles`;
  const gains = { own: `${block}.${sublayer}_norm`, ffn: `${block}.ffn_norm` };
  if (layer === 0 && model.config.embed_norm && part.name !== "decoder.cross") gains.embed = `${stack}.embed_norm`;
  const last = layer === part.layers - 1;
  if (last && model.norm_order !== "post") {
    gains.last = `${stack}.norm`;
    row.last = `${stack}.norm`;
  }
  for (const [name, norm] of Object.entries(gains)) {
    whole[`${name}_gain`] = `${norm}.gain`;
    if (model.norm === "layer") whole[`${name}_shift`] = `${norm}.shift`;
  }
  return { row, whole, logits: last && part.queries === "target" && Boolean(view.target?.writes) };
}

/**
 * Fetch and cut out what one row meets.
 *
 * @returns {Promise<object>} of `pivot`: model, view, part, layer, head, row, key (the pivot's, or where the row looks
 *   most), kvHead, scale, tokens {keys, row, rows}; q (d,), k and v {data, rows, columns}, e, alpha, mask, bias (S,) or
 *   null, zs (H vectors), z, W_O (H matrices), and the rows of the residual stream, (D,) each.
 */
export async function gatherFacts(source, model, view, pivot, signal) {
  const part = partOf(model, pivot.part);
  const { row: ofRow, whole, logits } = tensorNames(model, view, part, pivot.layer);
  const cut = { dtype: "float32", rows: `${pivot.row}:${pivot.row + 1}` };
  const [cuts, wholes, said] = await Promise.all([
    source.tensors(view.id, Object.values(ofRow), cut, signal),
    source.tensors(view.id, Object.values(whole), { dtype: "float32" }, signal),
    logits ? source.tensors(view.id, ["logits"], cut, signal).catch(withoutLogits) : null,
  ]);
  const facts = { ...pivot, model, view, part, ...sidesOf(view, part, pivot.row), ...changes(view, part, pivot) };
  for (const [short, name] of Object.entries(ofRow)) facts[short] = cuts.get(name).data;
  for (const [short, name] of Object.entries(whole)) facts[short] = wholes.get(name).data;
  if (said) facts.logits = said.get("logits").data;
  if (facts.angles) facts.angles = matrixOf(facts.angles, ...wholes.get(whole.angles).shape);
  return { ...facts, ...cutHead(facts, part, wholes.get(whole.k).shape, pivot) };
}

/** Of a large vocabulary an exported page may have left the logits out: then the sum ends where the layer does. */
function withoutLogits(error) {
  if (error instanceof NeedsServer) return null;
  throw error;
}

function sidesOf(view, part, row) {
  const { queries, keys, writes } = partSides(view, part);
  return { keys, reads: queries[row], writes: writes?.[row] ?? null, named: rowTokens(view, part)[row] };
}

/** What the view's edits change in this very sum, so that the page still computes what the server did. */
function changes(view, part, { layer, head, row }) {
  const edits = view.request.edits ?? [];
  const here = (edit) => edit.part === part.name && edit.layer === layer;
  return {
    scale: edits.some((edit) => edit.kind === "unscaled") ? 1 : part.scale,
    headsOff: new Set(edits.filter((edit) => edit.kind === "head" && here(edit)).map((edit) => edit.head)),
    edgesOff: edits
      .filter(
        (edit) =>
          edit.kind === "edge" && here(edit) && edit.query === row && [null, undefined, head].includes(edit.head),
      )
      .map((edit) => edit.key),
    unmasked: edits.some((edit) => edit.kind === "unmasked"),
    unplaced: edits.some((edit) => edit.kind === "no-positions"),
    residualsOff: edits
      .filter((edit) => edit.kind === "no-residual" && edit.layer === layer && part.path.startsWith(edit.stack))
      .map((edit) => edit.sublayer),
  };
}

function cutHead(facts, part, [kvHeads, nKeys, width], { head, row, key }) {
  const kvHead = Math.floor((head * kvHeads) / part.heads);
  const ofHead = (data, n) => data.subarray(head * n, (head + 1) * n);
  const zs = Array.from({ length: part.heads }, (_, h) => facts.z.subarray(h * width, (h + 1) * width));
  const columns = facts.out.length;
  const visible =
    facts.unmasked && part.causal ? new Float32Array(nKeys).fill(1) : facts.mask.slice(row * nKeys, (row + 1) * nKeys);
  for (const off of facts.edgesOff) visible[off] = 0;
  const alpha = ofHead(facts.weights, nKeys);
  return {
    kvHead,
    kvHeads,
    width,
    nKeys,
    zs,
    alpha,
    mask: visible,
    q: ofHead(facts.q, width),
    k: matrixOf(facts.k, nKeys, width, kvHead * nKeys * width),
    v: matrixOf(facts.v, nKeys, width, kvHead * nKeys * width),
    e: ofHead(facts.scores, nKeys),
    z: zs[head],
    bias: facts.bias && !facts.unplaced ? ofHead(facts.bias, nKeys) : null,
    W_O: zs.map((_, h) => matrixOf(facts.W_O, width, columns, h * width * columns)),
    key: key ?? alpha.indexOf(Math.max(...alpha)),
  };
}
