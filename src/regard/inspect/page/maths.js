/**
 * The chapter's arithmetic in the browser's own numbers: what the page checks the server by.
 *
 * What is unusual: nothing here is taken from the model but its inputs. Each function is a formula of
 * `model/equations.py` for ONE row, in float64, so that a difference from the server's float32 is rounding or a fault.
 * What it does not know: tensors' names, the page, tokens.
 *
 * Shapes: d head width, S keys, D d_model. A matrix is {data, rows, columns}, row after row.
 */

/** @typedef {ArrayLike<number>} Vector */
/** @typedef {{data: ArrayLike<number>, rows: number, columns: number}} Matrix */

/** The rows of a tensor's slice as a matrix. @returns {Matrix} */
export function matrixOf(data, rows, columns, start = 0) {
  return { data: data.subarray(start, start + rows * columns), rows, columns };
}

/** Row i of a matrix. @returns {Vector} */
export function rowOf(matrix, i) {
  return matrix.data.subarray(i * matrix.columns, (i + 1) * matrix.columns);
}

/** q . k (2.3). @returns {number} */
export function dot(a, b) {
  let sum = 0;
  for (let n = 0; n < a.length; n++) sum += a[n] * b[n];
  return sum;
}

/**
 * e_ij = q_i . k_j scale + bias_ij, and -Infinity where the query may not look (2.4, 2.8).
 * @param {Vector} q (d,)  @param {Matrix} k (S, d)  @param {Vector|null} bias (S,)  @param {Vector|null} mask (S,), 1: seen
 * @returns {number[]} (S,)
 */
export function scoreRow(q, k, scale, bias = null, mask = null) {
  return Array.from({ length: k.rows }, (_, j) =>
    mask && !mask[j] ? -Infinity : dot(q, rowOf(k, j)) * scale + (bias ? bias[j] : 0),
  );
}

/** exp(e_j) / sum exp(e_m) (2.3); a row of -Infinity alone gives zeros. @returns {number[]} */
export function softmaxRow(e) {
  const top = e.reduce((a, b) => Math.max(a, b), -Infinity);
  if (top === -Infinity) return e.map(() => 0);
  const powers = e.map((x) => Math.exp(x - top));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / total);
}

/** z = sum_j alpha_j v_j (2.4). @param {Vector} alpha (S,)  @param {Matrix} v (S, d)  @returns {number[]} (d,) */
export function weightedSum(alpha, v) {
  const z = new Array(v.columns).fill(0);
  for (let j = 0; j < v.rows; j++) {
    const row = rowOf(v, j);
    for (let n = 0; n < v.columns; n++) z[n] += alpha[j] * row[n];
  }
  return z;
}

/** x W, a row times a matrix (2.2). @param {Vector} x (n,)  @param {Matrix} w (n, m)  @returns {number[]} (m,) */
export function matVec(x, w) {
  return weightedSum(x, w);
}

/** Element by element; `c` may be left out. @returns {number[]} */
export function addRows(a, b, c = null) {
  return Array.from(a, (x, n) => x + b[n] + (c ? c[n] : 0));
}

/** Element by element. @returns {number[]} */
export function minusRow(a, b) {
  return Array.from(a, (x, n) => x - b[n]);
}

/** (x - mean) / sqrt(variance + eps) gain + shift (2.7). @returns {number[]} */
export function layerNorm(x, gain, shift, eps) {
  const mean = meanOf(x);
  const deviation = Array.from(x, (value) => value - mean);
  const size = Math.sqrt(meanOf(deviation.map((value) => value * value)) + eps);
  return deviation.map((value, n) => (value / size) * gain[n] + (shift ? shift[n] : 0));
}

/** x / sqrt(mean square + eps) gain (Zhang and Sennrich 2019). @returns {number[]} */
export function rmsNorm(x, gain, eps) {
  const size = Math.sqrt(meanOf(Array.from(x, (value) => value * value)) + eps);
  return Array.from(x, (value, n) => (value / size) * gain[n]);
}

/** The mean of some numbers. @returns {number} */
function meanOf(x) {
  let sum = 0;
  for (let n = 0; n < x.length; n++) sum += x[n];
  return sum / x.length;
}

/** The length of a vector. @returns {number} */
export function lengthOf(x) {
  return Math.sqrt(dot(x, x));
}

/** The sigma of the feed-forward sublayer (2.7). @param {string} name relu, gelu, gelu_tanh or silu */
export function activate(name, x) {
  if (name === "relu") return Math.max(0, x);
  if (name === "gelu") return (x / 2) * (1 + erf(x / Math.SQRT2));
  if (name === "gelu_tanh") return (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
  return (x * (1 + Math.tanh(x / 2))) / 2;
}

/** The error function: its series near 0, a continued fraction beyond; to about 1e-15. @returns {number} */
function erf(x) {
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    let term = a;
    let sum = a;
    for (let n = 1; Math.abs(term) > 1e-18 * sum; n++) {
      term *= (-a * a) / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / (Math.sqrt(Math.PI) * (a + fraction)));
}

/** p_t: sines at 2i, cosines at 2i + 1 (2.6), or all sines first. @param {string} layout interleaved or split */
export function sinusoid(t, width, theta = 10000, layout = "interleaved") {
  const p = new Array(width).fill(0);
  for (let i = 0; i < width / 2; i++) {
    const angle = t / theta ** ((2 * i) / width);
    const [sine, cosine] = layout === "split" ? [i, i + width / 2] : [2 * i, 2 * i + 1];
    p[sine] = Math.sin(angle);
    p[cosine] = Math.cos(angle);
  }
  return p;
}

/**
 * Rotary positions: pair (i, i + n) of the first 2 n numbers turned by angles[i]; the rest stays (Su et al. 2021).
 * @param {number} sign 1 turns, -1 turns back
 * @returns {number[]}
 */
export function turn(x, angles, sign = 1) {
  const out = Array.from(x);
  const n = angles.length;
  for (let i = 0; i < n; i++) {
    const [cosine, sine] = [Math.cos(angles[i]), sign * Math.sin(angles[i])];
    out[i] = x[i] * cosine - x[i + n] * sine;
    out[i + n] = x[i + n] * cosine + x[i] * sine;
  }
  return out;
}

/** The numbers of the n largest, largest first. @returns {number[]} */
export function largest(x, n) {
  const order = Array.from(x, (_, i) => i).sort((a, b) => x[b] - x[a]);
  return order.slice(0, n);
}

/**
 * How two computations of one thing differ.
 * @param {string} name the string that says what it is
 * @returns {{name: string, difference: number, agree: boolean, mine: number, theirs: number}} the largest difference and
 *   both numbers where it is; they agree within 1e-5 of the largest number, or 1e-5 where none is above 1.
 */
export function checkOf(name, mine, theirs) {
  let [difference, at, size] = [0, 0, 1];
  for (let n = 0; n < theirs.length; n++) {
    if (mine[n] === -Infinity && theirs[n] < -1e30) continue;
    size = Math.max(size, Math.abs(theirs[n]));
    const gap = Math.abs(mine[n] - theirs[n]);
    if (!(gap <= difference)) [difference, at] = [Number.isNaN(gap) ? Infinity : gap, n];
  }
  return { name, difference, agree: difference <= 1e-5 * size, mine: mine[at], theirs: theirs[at] };
}
