/**
 * The sum for the pivot as a NumPy program that stands alone: the model's own arrays, the chapter's three lines, and a
 * check against what the model had.
 *
 * What is unusual: numbers are written with nine digits, which give every float32 back exactly.
 * What it does not know: the page.
 */
import { rowOf } from "./maths.js";

/** A float32 as Python writes it. */
function pythonNumber(x) {
  if (!Number.isFinite(x) || x < -1e30) return "-np.inf";
  const [mantissa, power] = Number(x.toPrecision(9)).toString().split("e");
  return power ? `${mantissa}e${Number(power)}` : mantissa;
}

function pythonVector(data) {
  return `[${Array.from(data, pythonNumber).join(", ")}]`;
}

function pythonMatrix(matrix) {
  return `[\n${Array.from({ length: matrix.rows }, (_, j) => `    ${pythonVector(rowOf(matrix, j))},`).join("\n")}\n]`;
}

/** A string as Python writes it; of a token any character can be one. */
function pythonString(text) {
  return JSON.stringify(text).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

/** The program. @param {object} facts of gatherFacts @returns {string} */
export function numpyProgram(facts) {
  const visible = Array.from(facts.mask, (seen) => (seen ? "True" : "False"));
  const bias = facts.bias ? " + bias" : "";
  const off = facts.headsOff.has(facts.head) ? " * 0" : "";
  const shares = facts.mask.some((seen) => seen)
    ? "alpha = np.exp(e - e.max()) / np.exp(e - e.max()).sum()  # 2.4: softmax"
    : "alpha = np.zeros(len(e))  # nothing is visible";
  return `# ${facts.part.path.replace("{layer}", facts.layer)}, head ${facts.head + 1}, row ${facts.row + 1}: one row of attention, as the model computed it
import numpy as np

keys = [${facts.keys.map((token) => pythonString(token.text)).join(", ")}]
q = np.array(${pythonVector(facts.q)})
k = np.array(${pythonMatrix(facts.k)})
v = np.array(${pythonMatrix(facts.v)})
${facts.bias ? `bias = np.array(${pythonVector(facts.bias)})\n` : ""}visible = np.array([${visible.join(", ")}])
scale = ${facts.scale}  # ${Math.abs(facts.scale - 1 / Math.sqrt(facts.width)) < 1e-9 ? `1 / sqrt(${facts.width})` : "the model's own"}

e = np.where(visible, k @ q * scale${bias}, -np.inf)  # 2.4: e_ij = q_i . k_j / sqrt(d_k); 2.8: -inf where hidden
${shares}
z = alpha @ v${off}  # 2.4: z_i = sum_j alpha_ij v_j

for j in np.argsort(-alpha):
    print(f"{keys[j]!r:>16}  e = {e[j]:9.4f}  alpha = {alpha[j]:.6f}")
print("z =", z)

# what the model had
model_alpha = np.array(${pythonVector(facts.alpha)})
model_z = np.array(${pythonVector(facts.z)})
np.testing.assert_allclose(alpha, model_alpha, atol=1e-5)
np.testing.assert_allclose(z, model_z, atol=1e-5 * max(1, np.abs(model_z).max()))
print("the model computed the same")
`;
}
