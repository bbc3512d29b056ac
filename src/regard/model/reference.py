"""A whole Transformer composed from the formulas of `equations.py`: one sequence at a time, slow, in float64.

    oracle = Reference(model.config, model.state_dict())
    oracle.logits(oracle.decode(ids, oracle.encode(source)))      # (T, V), what the model must say (laws, 14)

What is unusual: it shares nothing with the fast model but the configuration and the names of the weights: no torch, no
batch, no padding, no cache, no kernels. A constant term is one more row of a matrix, met by a 1 appended to each x.
What it does not know: training, dropout, heads other than the language model's.

Shapes: T tokens, S source tokens, D d_model, H heads, K key/value heads, d head width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from regard.model import equations as eq
from regard.model.config import (
    Alibi,
    Learned,
    Llama3Scaling,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    YarnScaling,
)
from regard.model.equations import Array, Attend, Map
from regard.model.scaling import Scaling

SIGMA: dict[str, Map] = {"relu": eq.relu, "gelu": eq.gelu, "gelu_tanh": eq.gelu_tanh, "silu": eq.silu}


def scaled_speed(d: int, theta: float, scaling: Scaling) -> tuple[list[float] | None, float]:
    """The angles by which d/2 pairs turn, where they are not RoPE's own, and what q and k grow by."""
    if scaling is None:
        return None, 1.0
    speeds, growth = [], 1.0
    for i in range(d // 2):
        speed, slow = theta ** (-2 * i / d), 1.0  # slow: the share of it that is divided by the factor
        if isinstance(scaling, Llama3Scaling):
            turns = scaling.original_len * speed / (2 * math.pi)
            slow = min(max((scaling.high - turns) / (scaling.high - scaling.low), 0.0), 1.0)
        elif isinstance(scaling, YarnScaling):
            ends = [d * math.log(scaling.original_len / (t * 2 * math.pi)) / (2 * math.log(theta))
                    for t in (scaling.fast, scaling.slow)]  # fmt: skip
            first, last = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), d - 1)
            slow = min(max((i - first) / max(last - first, 0.001), 0.0), 1.0)
            growth = scaling.growth or 0.1 * max(math.log(scaling.factor), 0.0) + 1
        speeds.append(slow * speed / scaling.factor + (1 - slow) * speed)
    return speeds, growth


def with_one(X: Array) -> Array:
    """A 1 appended to each row, for the constant terms: (T, D) -> (T, D + 1)."""
    return np.hstack([X, np.ones((len(X), 1))])


@dataclass(frozen=True)
class Reference:
    """The model that a configuration and named weights (those of a `Model`'s state dict) describe."""

    config: TransformerConfig
    weights: Mapping[str, ArrayLike]

    def encode(self, ids: Sequence[int], types: Sequence[int] | None = None) -> Array:
        """Every token sees every other: ids (S,) -> memory (S, D)."""
        visible = np.ones((len(ids), len(ids)), dtype=bool)
        return self._stack("transformer.encoder", ids, visible, types=types or [0] * len(ids))

    def decode(self, ids: Sequence[int], memory: Array | None = None) -> Array:
        """Every token sees the past, and the source: ids (T,), memory (S, D) -> (T, D)."""
        return self._stack("transformer.decoder", ids, self._past(len(ids)), memory=memory)

    def seen(self, name: str, X: Array, M: Array) -> dict[str, Array]:
        """What an attention offers to `watch`: q, k, v, bias where there is one, scores, and out.

        Args:
            name: its path, e.g. "decoder.layers.0.cross_attn".
            X, M: what its queries and its keys are made of, (T, D) and (S, D); the same but in cross-attention.
        """
        c, path, stack = self.config, f"transformer.{name}", f"transformer.{name.partition('.')[0]}"
        causal, within = stack.endswith("decoder"), name.endswith("self_attn")
        visible = self._past(len(X)) if causal and within else np.ones((len(X), len(M)), dtype=bool)
        bias = self._bias(stack, len(X), causal=causal) if within else np.zeros((c.n_heads, 1, 1))
        attends = self._attends(visible, bias) if within else self._attends_to_source(visible)
        Q, K, V = (self._by_heads(path, w, Y, turned=within) for w, Y in (("q", X), ("k", M), ("v", M)))
        share = c.n_heads // c.kv_heads
        S = np.stack([eq.masked_scores(eq.scores(Q[h], K[h // share], c.scale) + bias[h], visible)
                      for h in range(c.n_heads)])  # fmt: skip
        found = {"q": Q, "k": K, "v": V, "scores": S, "out": self._attention(path, X, M, attends)}
        return found | ({"bias": bias} if bias.any() else {})

    def _by_heads(self, path: str, w: str, X: Array, *, turned: bool) -> Array:
        """The queries, keys or values of all heads as they attend: (T, D) -> (H or K, T, d)."""
        n = self.config.n_heads if w == "q" else self.config.kv_heads
        heads = np.split(with_one(X) @ self._matrix(f"{path}.{w}"), n, axis=1)
        if self.config.qk_norm and w != "v":
            heads = [eq.rms_norm(head, self._weight(f"{path}.{w}_norm.weight"), self.config.norm_eps) for head in heads]
        if turned and isinstance(self.config.positions, Rope) and w != "v":
            heads = [self._turned(head) for head in heads]
        return np.stack(heads)

    def logits(self, hidden: Array) -> Array:
        """Scores over the vocabulary: (T, D) -> (T, V); of a masked model after one more layer."""
        if "head.dense.weight" in self.weights:
            sigma = SIGMA[self.config.activation]
            hidden = self._norm("head.norm", sigma(with_one(hidden) @ self._matrix("head.dense")))
        W = self._weight(f"transformer.{self._said()}.weight" if self.config.tie_embeddings else "head.weight")
        b = self._weight("head.bias") if self.config.head_bias else 0.0
        return hidden * self.config.logit_scale @ W.T + b

    def _stack(
        self,
        name: str,
        ids: Sequence[int],
        visible: Array,
        *,
        types: Sequence[int] | None = None,
        memory: Array | None = None,
    ) -> Array:
        c = self.config
        layers = c.n_encoder_layers if types is not None else c.n_decoder_layers
        tokens = "tokens" if types is not None else self._said()
        X = eq.embedding(self._weight(f"transformer.{tokens}.weight"), ids) * c.embed_scale
        if types is not None and c.n_token_types:
            X = X + eq.embedding(self._weight(f"{name}.types.weight"), types)
        X = self._add_positions(name, X)
        X = self._norm(f"{name}.embed_norm", X) if c.embed_norm else X
        attends = self._attends(visible, self._bias(name, len(ids), causal=types is None))
        for i in range(layers):
            X = self._block(f"{name}.layers.{i}", X, attends, memory)
        return X if c.norm_order == "post" else self._norm(f"{name}.norm", X)

    def _past(self, T: int) -> Array:
        """What each position of a decoder may look at, (T, T)."""
        window = self.config.window
        return eq.causal(T) if window is None else eq.causal(T) & eq.window(T, window.size)

    def _said(self) -> str:
        """The embeddings of the decoder and of the head."""
        return "tokens" if self.config.decoder_vocab_size is None else "decoder_tokens"

    def _block(self, name: str, X: Array, attends: list[Attend], memory: Array | None) -> Array:
        residual = eq.post_norm if self.config.norm_order == "post" else eq.pre_norm

        def self_attention(X: Array) -> Array:
            return self._attention(f"{name}.self_attn", X, X, attends)

        def cross_attention(X: Array) -> Array:
            assert memory is not None
            everywhere = np.ones((len(X), len(memory)), dtype=bool)
            return self._attention(f"{name}.cross_attn", X, memory, self._attends_to_source(everywhere))

        if self.config.norm_order == "parallel":
            attention, ffn = (partial(self._norm, f"{name}.{part}_norm") for part in ("self_attn", "ffn"))
            return eq.parallel(X, self_attention, partial(self._ffn, f"{name}.ffn"), attention, ffn)
        X = residual(X, self_attention, partial(self._norm, f"{name}.self_attn_norm"))
        if memory is not None:
            X = residual(X, cross_attention, partial(self._norm, f"{name}.cross_attn_norm"))
        return residual(X, partial(self._ffn, f"{name}.ffn"), partial(self._norm, f"{name}.ffn_norm"))

    def _attention(self, name: str, X: Array, M: Array, attends: list[Attend]) -> Array:
        """Multi-head attention from X (T, D) to M (S, D), each head attending in its own way."""
        heads = {"q": self.config.n_heads, "k": self.config.kv_heads, "v": self.config.kv_heads}
        W_Q, W_K, W_V = (np.split(self._matrix(f"{name}.{w}"), n, axis=1) for w, n in heads.items())  # n x (D + 1, d)
        M = with_one(M)
        if self.config.qk_norm:
            attends = [partial(self._normed, name, attend) for attend in attends]
        W_O = self._matrix(f"{name}.o")
        return eq.multi_head(with_one(X), M, M, W_Q, W_K, W_V, W_O[:-1], attends) + W_O[-1]

    def _normed(self, name: str, attend: Attend, Q: Array, K: Array, V: Array) -> Array:
        """One head's attention after the norms of its queries and keys."""
        gains, eps = [self._weight(f"{name}.{norm}.weight") for norm in ("q_norm", "k_norm")], self.config.norm_eps
        return attend(eq.rms_norm(Q, gains[0], eps), eq.rms_norm(K, gains[1], eps), V)

    def _ffn(self, name: str, X: Array) -> Array:
        maps = ["gate", "up", "down"] if self.config.gated_ffn else ["up", "down"]
        matrices = [self._matrix(f"{name}.{w}") for w in maps]
        weights_and_biases = [part for W in matrices for part in (W[:-1], W[-1])]
        return (eq.gated_ffn if self.config.gated_ffn else eq.ffn)(
            X, *weights_and_biases, sigma=SIGMA[self.config.activation]
        )

    def _norm(self, name: str, X: Array) -> Array:
        gain = self._weight(f"{name}.weight")
        if self.config.norm == "rms":
            return eq.rms_norm(X, gain, self.config.norm_eps)
        return eq.layer_norm(X, gain, self._weight(f"{name}.bias"), self.config.norm_eps)

    def _add_positions(self, name: str, X: Array) -> Array:
        match self.config.positions:
            case Sinusoidal(layout="interleaved", theta=theta):
                return eq.add_positions(X, eq.sinusoidal(*X.shape, theta))
            case Sinusoidal(layout="split", theta=theta):
                return eq.add_positions(X, eq.sinusoidal_split(*X.shape, theta))
            case Learned(offset=first):
                return eq.add_positions(X, self._weight(f"{name}.positions.weight")[first : first + len(X)])
        return X

    def _bias(self, name: str, T: int, *, causal: bool) -> Array:
        """What positions add to the scores of self-attention, (H, T, T)."""
        c = self.config
        if isinstance(c.positions, Alibi):
            return eq.alibi(c.n_heads, T)
        if isinstance(c.positions, Relative):
            return eq.relative(self._weight(f"{name}.positions.weight"), T, c.positions.max_distance, causal)
        return np.zeros((c.n_heads, T, T))

    def _attends(self, visible: Array, bias: Array) -> list[Attend]:
        """How each head of self-attention attends: its bias, and the turning of its queries and keys."""
        c = self.config

        def attend(Q: Array, K: Array, V: Array, *, bias: Array) -> Array:
            if isinstance(c.positions, Rope):
                Q, K = self._turned(Q), self._turned(K)
            return eq.masked_attention(Q, K, V, visible, bias=bias, scale=c.scale)

        return [partial(attend, bias=bias[h]) for h in range(c.n_heads)]

    def _attends_to_source(self, visible: Array) -> list[Attend]:
        """How each head of cross-attention attends."""
        attend: Attend = partial(eq.masked_attention, visible=visible, scale=self.config.scale)
        return [attend] * self.config.n_heads

    def _turned(self, X: Array) -> Array:
        """Queries or keys (T, d), the first part of their width turned."""
        c = self.config
        assert isinstance(c.positions, Rope)
        turned, kept = np.split(X, [c.turned_width], axis=1)
        speed, growth = scaled_speed(c.turned_width, c.positions.theta, c.positions.scaling)
        return np.hstack([eq.rope(turned, c.positions.theta, speed) * growth, kept])

    def _weight(self, name: str) -> Array:
        return np.asarray(self.weights[name], dtype=np.float64)

    def _matrix(self, name: str) -> Array:
        """A linear map's matrix for rows, with its constant term as the last row: (in + 1, out)."""
        W = self._weight(f"{name}.weight").T
        bias = f"{name}.bias"
        b = self._weight(bias) if bias in self.weights else np.zeros(W.shape[1])
        return np.vstack([W, b])
