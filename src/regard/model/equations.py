"""Every formula of the chapter, plain and slow, in NumPy alone: what the fast model is checked against.

What is unusual: one function a formula, registered under the chapter's section with the chapter's own statement, so
that tests, the lab and the page show the same lines. Each takes ONE sequence: X is (T, D), never batched. Vectors are
rows, Q = X W_Q (the chapter's matrix form); where it writes q_t = W_Q x_t, a column, its W_Q is the transpose of ours.
What it does not know: torch, batches, caches; `reference.py` composes these formulas into a whole model.

Shapes: T queries, S keys, D d_model, H heads, K key/value heads, d head width (d_k), F d_ff, V vocabulary.
`visible` (T, S) is True where a query may look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Map = Callable[[Array], Array]
Attend = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Formula:
    """One formula: where the chapter states it, how (LaTeX), and the function that computes it."""

    section: str
    name: str
    statement: str
    function: Callable[..., Any]


FORMULAS: dict[str, Formula] = {}
"""All formulas by name, in the chapter's order; "2.6 variants" and the like are what later papers put in its place."""


def formula(section: str, statement: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function, under its own name, as the formula `statement` of a section."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        FORMULAS[name] = Formula(section, name, statement, function)
        return function

    return register


@formula("2.1", r"X=(x_1,x_2,\dots,x_T)^\top\in\mathbb R^{T\times d}")
def embedding(E: Array, ids: Sequence[int]) -> Array:
    """The vectors of these tokens as rows: E (V, D) -> (T, D)."""
    return np.stack([E[i] for i in ids])


@formula("2.1", r"c_t=\sum_{j=1}^{T}\alpha_{tj}h_j")
def context_vector(s_t: Array, h: Array) -> Array:
    """Chapter 18's: one decoder state s_t (D,) asks the source states h (T, D), which are keys and values alike."""
    return attention(s_t[None], h, h)[0]


@formula("2.2", r"q_t=W_Q x_t,\qquad k_t=W_K x_t,\qquad v_t=W_V x_t")
def project_one(x_t: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    """One position, as columns: x_t (D,), W (d, D), the transposes of those in `project` -> 3 x (d,)."""
    return W_Q @ x_t, W_K @ x_t, W_V @ x_t


@formula("2.2", r"Q=XW_Q,\qquad K=XW_K,\qquad V=XW_V")
def project(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    """All positions, as rows: X (T, D), W (D, d) -> 3 x (T, d)."""
    return X @ W_Q, X @ W_K, X @ W_V


@formula("2.3", r"S=\frac{QK^\top}{\sqrt{d_k}}")
def scores(Q: Array, K: Array, scale: float | None = None) -> Array:
    """How well each query matches each key: Q (T, d), K (S, d) -> (T, S); `scale` in place of 1 / sqrt(d_k)."""
    return Q @ K.T * (1 / math.sqrt(K.shape[-1]) if scale is None else scale)


@formula("2.3", r"\mathrm{softmax}(S)_{ij}=\frac{\exp(S_{ij})}{\sum_{m}\exp(S_{im})}")
def softmax(S: Array) -> Array:
    """Each row to positive numbers that sum to 1; a row of -inf alone (it sees no key) to zeros, in place of 0 / 0."""
    top = S.max(-1, keepdims=True, initial=-np.inf)
    E = np.exp(S - np.where(np.isfinite(top), top, 0))
    total = E.sum(-1, keepdims=True)
    return E / np.where(total > 0, total, 1)


@formula("2.3", r"\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V")
def attention(Q: Array, K: Array, V: Array) -> Array:
    """Q (T, d), K (S, d), V (S, d) -> (T, d)."""
    return softmax(scores(Q, K)) @ V


@formula("2.4", r"e_{ij}=\frac{q_i^\top k_j}{\sqrt{d_k}}")
def score_of_one(q_i: Array, k_j: Array) -> float:
    """How well one query matches one key, (d,) and (d,)."""
    return float(sum(q_i[n] * k_j[n] for n in range(len(k_j))) / math.sqrt(len(k_j)))


@formula("2.4", r"\alpha_{ij}=\frac{\exp(e_{ij})}{\sum_{m=1}^T \exp(e_{im})}")
def weight_of_one(e_i: Sequence[float], j: int) -> float:
    """The share of position j among all that position i looks at, from the scores e_i (S,)."""
    return math.exp(e_i[j]) / sum(math.exp(e_im) for e_im in e_i)


@formula("2.4", r"z_i=\sum_{j=1}^T \alpha_{ij} v_j")
def attention_of_one(q_i: Array, K: Array, V: Array) -> Array:
    """What position i gathers: q_i (d,), K and V (S, d) -> (d,)."""
    e_i = [score_of_one(q_i, k_j) for k_j in K]
    return sum((weight_of_one(e_i, j) * V[j] for j in range(len(V))), np.zeros(V.shape[-1]))


@formula("2.5", r"\mathrm{head}_h=\mathrm{Attention}(QW_Q^{(h)},KW_K^{(h)},VW_V^{(h)})")
def head(Q: Array, K: Array, V: Array, W_Q: Array, W_K: Array, W_V: Array, attend: Attend = attention) -> Array:
    """One head, with its own W (D, d): Q (T, D), K and V (S, D) -> (T, d)."""
    return attend(Q @ W_Q, K @ W_K, V @ W_V)


@formula("2.5", r"\mathrm{MultiHead}(Q,K,V)=\mathrm{Concat}(\mathrm{head}_1,\dots,\mathrm{head}_H)W_O")
def multi_head(
    Q: Array, K: Array, V: Array, W_Q: Array, W_K: Array, W_V: Array, W_O: Array,
    attends: Sequence[Attend] | None = None,
) -> Array:  # fmt: skip
    """W_Q (H, D, d), W_K and W_V (K, D, d), each serving H / K heads (Ainslie et al. 2023), W_O (H d, D) -> (T, D)."""
    share = len(W_Q) // len(W_K)
    attends = attends or [attention] * len(W_Q)
    heads = [head(Q, K, V, W_Q[h], W_K[h // share], W_V[h // share], attends[h]) for h in range(len(W_Q))]
    return np.concatenate(heads, -1) @ W_O


@formula("2.6", r"x_t=e_t+p_t")
def add_positions(e: Array, p: Array) -> Array:
    """Embeddings and position vectors, each (T, D)."""
    return e + p


@formula(
    "2.6",
    r"p_t^{(2i)}=\sin\left(\frac{t}{10000^{2i/d}}\right),\qquad p_t^{(2i+1)}=\cos\left(\frac{t}{10000^{2i/d}}\right)",
)
def sinusoidal(T: int, d: int, theta: float = 10_000.0) -> Array:
    """Position vectors for t = 0 .. T-1 -> (T, d)."""
    p = np.zeros((T, d))
    for t in range(T):
        for i in range(d // 2):
            p[t, 2 * i] = math.sin(t / theta ** (2 * i / d))
            p[t, 2 * i + 1] = math.cos(t / theta ** (2 * i / d))
    return p


@formula("2.6", r"p_{t+k}=R_k\,p_t")
def shift(k: int, d: int, theta: float = 10_000.0) -> Array:
    """R_k (d, d): a step of k positions is one linear map, a rotation, wherever it starts."""
    R = np.zeros((d, d))
    for i in range(d // 2):
        angle, pair = k / theta ** (2 * i / d), slice(2 * i, 2 * i + 2)
        R[pair, pair] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return R


@formula("2.6 variants", r"p_t^{(i)}=\sin t\omega_i,\quad p_t^{(d/2+i)}=\cos t\omega_i,\quad\omega_i=10000^{-2i/d}")
def sinusoidal_split(T: int, d: int, theta: float = 10_000.0) -> Array:
    """The same waves, all sines first (Marian, Junczys-Dowmunt et al. 2018) -> (T, d)."""
    p = sinusoidal(T, d, theta)
    return np.concatenate([p[:, 0::2], p[:, 1::2]], -1)


@formula("2.6 variants", r"(q_t^{(i)}+\mathrm i\,q_t^{(d/2+i)})\,e^{\mathrm i\,t\,\theta^{-2i/d}}")
def rope(X: Array, theta: float = 10_000.0, speed: Sequence[float] | None = None) -> Array:
    """Queries or keys (T, d), each pair turned by its position's angle (Su et al. 2021), t * speed[i] -> (T, d)."""
    half = X.shape[-1] // 2
    pairs = X[:, :half] + 1j * X[:, half:]
    for t in range(len(X)):
        for i in range(half):
            pairs[t, i] *= np.exp(1j * t * (theta ** (-2 * i / X.shape[-1]) if speed is None else speed[i]))
    return np.concatenate([pairs.real, pairs.imag], -1)


@formula("2.6 variants", r"S_{ij}-m_h\,|i-j|,\qquad m_h=2^{-8h/H}")
def alibi(H: int, T: int) -> Array:
    """What is added to the scores (Press et al. 2022) -> (H, T, T). Other H: the slopes of the power of two below, then
    every second of the one above."""
    below = 2 ** int(math.log2(H))
    slopes = [2 ** (-8 * h / below) for h in range(1, below + 1)]
    slopes += [2 ** (-8 * h / (2 * below)) for h in range(1, 2 * below, 2)]
    return np.array([[[-slopes[h] * abs(i - j) for j in range(T)] for i in range(T)] for h in range(H)])


@formula("2.6 variants", r"b(n)=n,\ \text{or from}\ m=\tfrac B2\ \text{on:}\ m+\lfloor m\ln(n/m)/\ln(N/m)\rfloor")
def relative_bucket(i: int, j: int, buckets: int, max_distance: int, causal: bool) -> int:
    """The bucket of query i and key j (T5, Raffel et al. 2020); not causal: half of the buckets serve the future."""
    n, first = max(i - j, 0), 0
    if not causal:
        buckets //= 2
        n, first = abs(i - j), buckets if j > i else 0
    near = buckets // 2
    if n < near:
        return first + n
    far = math.log(n / near) / math.log(max_distance / near) * (buckets - near)
    return first + min(near + int(far + 1e-6), buckets - 1)  # a whole number stays one, however its logarithm rounds


@formula("2.6 variants", r"S_{ij}+r_{b(i-j)}^{(h)}")
def relative(r: Array, T: int, max_distance: int, causal: bool) -> Array:
    """What is added to the scores, r (buckets, H) -> (H, T, T)."""
    rows = [[r[relative_bucket(i, j, len(r), max_distance, causal)] for j in range(T)] for i in range(T)]
    return np.moveaxis(np.array(rows), -1, 0)


@formula("2.7", r"\mathrm{LayerNorm}(x)=\frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}\,\gamma+\beta")
def layer_norm(X: Array, gain: Array, shift: Array, eps: float) -> Array:
    """Each row to mean 0 and variance 1, then scaled and shifted: (T, D) -> (T, D)."""
    deviation = X - X.mean(-1, keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + eps) * gain + shift


@formula("2.7 variants", r"\mathrm{RMSNorm}(x)=\frac{x}{\sqrt{\overline{x^2}+\epsilon}}\,\gamma")
def rms_norm(X: Array, gain: Array, eps: float) -> Array:
    """Each row to mean square 1, then scaled (Zhang and Sennrich 2019): (T, D) -> (T, D)."""
    return X / np.sqrt((X**2).mean(-1, keepdims=True) + eps) * gain


@formula("2.7", r"\sigma(x)=\max(0,x)")
def relu(x: Array) -> Array:
    """Vaswani et al. 2017's sigma."""
    return np.maximum(x, 0)


@formula("2.7 variants", r"\sigma(x)=\frac x2\left(1+\mathrm{erf}\frac{x}{\sqrt2}\right)")
def gelu(x: Array) -> Array:
    """Hendrycks and Gimpel 2016: x times the chance that a normal number is below x."""
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


@formula("2.7 variants", r"\sigma(x)=\frac x2\left(1+\tanh\left(\sqrt{2/\pi}\,(x+0.044715\,x^3)\right)\right)")
def gelu_tanh(x: Array) -> Array:
    """The same paper's approximation."""
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@formula("2.7 variants", r"\sigma(x)=\frac{x}{1+e^{-x}}")
def silu(x: Array) -> Array:
    """Swish (Ramachandran et al. 2017), written so that no exponential overflows."""
    return x * (1 + np.tanh(x / 2)) / 2


@formula("2.7", r"\mathrm{FFN}(X)=W_2\,\sigma(W_1X+b_1)+b_2")
def ffn(X: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, sigma: Map = relu) -> Array:
    """Row by row, W_1 (D, F), W_2 (F, D): (T, D) -> (T, D)."""
    return sigma(X @ W_1 + b_1) @ W_2 + b_2


@formula("2.7 variants", r"W_2\,\left(\sigma(W_gX+b_g)\odot(W_1X+b_1)\right)+b_2")
def gated_ffn(
    X: Array, W_g: Array, b_g: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, sigma: Map = silu
) -> Array:
    """Shazeer 2020: one half decides how much of the other passes. (T, D) -> (T, D)."""
    return (sigma(X @ W_g + b_g) * (X @ W_1 + b_1)) @ W_2 + b_2


@formula("2.7", r"Y=\mathrm{LayerNorm}(X+\mathrm{MHA}(X)),\qquad Z=\mathrm{LayerNorm}(Y+\mathrm{FFN}(Y))")
def post_norm(X: Array, sublayer: Map, norm: Map) -> Array:
    """A sublayer in its residual connection; a block is two (or, with cross-attention, three) of these."""
    return norm(X + sublayer(X))


@formula("2.7 variants", r"Y=X+\mathrm{MHA}(\mathrm{LayerNorm}(X)),\qquad Z=Y+\mathrm{FFN}(\mathrm{LayerNorm}(Y))")
def pre_norm(X: Array, sublayer: Map, norm: Map) -> Array:
    """The norm moved before the sublayer (Xiong et al. 2020); such a stack ends in one more norm."""
    return X + sublayer(norm(X))


@formula("2.7 variants", r"Y=X+\mathrm{MHA}(\mathrm{LayerNorm}_1(X))+\mathrm{FFN}(\mathrm{LayerNorm}_2(X))")
def parallel(X: Array, f: Map, g: Map, norm_f: Map, norm_g: Map) -> Array:
    """Both sublayers read the same X (Wang and Komatsuzaki 2021; Black et al. 2022)."""
    return X + f(norm_f(X)) + g(norm_g(X))


@formula("2.8", r"j\le i")
def causal(T: int) -> Array:
    """Each position sees itself and the past -> (T, T)."""
    return np.array([[j <= i for j in range(T)] for i in range(T)], dtype=bool).reshape(T, T)


@formula("2.8 variants", r"i-j<w")
def window(T: int, w: int) -> Array:
    """Each position sees nothing w or more before it (Beltagy et al. 2020); used with `causal` -> (T, T)."""
    return np.array([[i - j < w for j in range(T)] for i in range(T)], dtype=bool).reshape(T, T)


@formula("2.8 variants", r"j\ \text{is not padding}")
def padding(T: int, real: Sequence[bool]) -> Array:
    """No position sees padding: real (S,) -> (T, S)."""
    return np.array([list(real)] * T, dtype=bool).reshape(T, len(real))


@formula("2.8 variants", r"\mathrm{doc}(i)=\mathrm{doc}(j)")
def documents(numbers: Sequence[int]) -> Array:
    """Packed texts do not see each other: numbers (T,) -> (T, T)."""
    return np.array([[a == b for b in numbers] for a in numbers], dtype=bool)


@formula("2.8", r"\tilde S_{ij}=\begin{cases}S_{ij},&j\le i,\\-\infty,&j>i.\end{cases}")
def masked_scores(S: Array, visible: Array) -> Array:
    """The scores, and -inf where a query may not look: (T, S) -> (T, S)."""
    return np.where(visible, S, -np.inf)


@formula("2.8", r"\mathrm{softmax}(\tilde S)V")
def masked_attention(
    Q: Array, K: Array, V: Array, visible: Array, *, bias: Array | float = 0.0, scale: float | None = None
) -> Array:
    """Attention over what is visible (T, S), with `bias` (T, S) added to the scores: (T, d)."""
    return softmax(masked_scores(scores(Q, K, scale) + bias, visible)) @ V


@formula("3.1", r"\mathrm{Attention}(SW_Q,\,HW_K,\,HW_V),\qquad H\in\mathbb R^{T\times d},\ S\in\mathbb R^{T'\times d}")
def cross_attention(S: Array, H: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """One head from the target S (T', D) to the source H (T, D): the same function with other K and V -> (T', d)."""
    return attention(S @ W_Q, H @ W_K, H @ W_V)


@formula("3.1", r"\log p(y\mid x)=\sum_t\log p(y_t\mid y_{<t},x)")
def log_likelihood(logits: Array, y: Sequence[int]) -> float:
    """From the logits (T, V) of each step, teacher-forced, and the tokens y (T,)."""
    return float(sum(np.log(softmax(logits)[t, y_t]) for t, y_t in enumerate(y)))


@formula("3.2", r"\log p(x)=\sum_{t}\log p(x_{t+1}\mid x_1,\dots,x_t)")
def next_token_log_likelihood(logits: Array, x: Sequence[int]) -> float:
    """From the logits (T, V) at each token of x (T,): position t predicts token t + 1."""
    return log_likelihood(logits[:-1], x[1:])


@formula("5", r"O(T^2)")
def attention_cost(T: int, d: int) -> int:
    """Multiplications of one head over T tokens: T^2 scores of d each, then T^2 weights times vectors of d."""
    return T * T * d + T * T * d
