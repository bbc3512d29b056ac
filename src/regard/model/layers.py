"""The parts of a block and the block itself (chapter 2.7), with the residual wiring written once.

                     post (the chapter)                     pre
        x ------------------+                  x ---------------------------+
        |                   |                  |                            |
        +--> sublayer --> (add) --> norm       +--> norm --> sublayer --> (add)

What is unusual: `Block.residual` is the only place where the two orders differ, and takes the sublayer as a function.
In parallel the feed-forward sublayer reads what self-attention read, and the sum of both is added.
What it does not know: stacks, embeddings, where keys were kept.

Shapes: B batch, T queries, S keys, D d_model, F d_ff.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.attention import Attention, narrow
from regard.model.cache import KVCache, Step
from regard.model.config import TransformerConfig
from regard.model.masks import Mask
from regard.model.positions import Bias, Rotation
from regard.model.watch import see

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


def make_norm(config: TransformerConfig) -> nn.Module:
    """LayerNorm or RMSNorm over the last axis, as the configuration says."""
    kind = nn.LayerNorm if config.norm == "layer" else nn.RMSNorm
    return kind(config.d_model, eps=config.norm_eps)


class Dropout(nn.Module):
    """Each element is zeroed with probability p, the others are divided by 1 - p; nothing outside training.

    On a CPU torch draws one random number an element, on one thread (12 ns each, measured on AVX2). Here each byte of
    a random 64-bit number serves an element, so there p is rounded to a multiple of 1/256.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x, any shape -> the same shape."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        dropped = min(255, max(1, round(256 * self.p)))
        noise = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None).view(torch.uint8)
        # Clamping bytes to {dropped - 1, dropped} is a comparison, and many times as fast as one that gives booleans.
        kept = noise[: x.numel()].clamp_(dropped - 1, dropped).sub_(dropped - 1).view(x.shape).to(x.dtype)
        return x * kept.mul_(256 / (256 - dropped))


class FeedForward(nn.Module):
    """FFN(x) = W_2 sigma(W_1 x + b_1) + b_2, position by position (2.7); gated: W_2 (sigma(W_g x) * W_1 x)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        linear = partial(nn.Linear, bias=config.has_bias("ffn"))
        self.up = linear(config.d_model, config.d_ff)
        self.gate = linear(config.d_model, config.d_ff) if config.gated_ffn else None
        self.down = linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        x = narrow(x)
        inner = self.up(x)  # (B, T, F)
        before = see(self, "pre", inner if self.gate is None else self.gate(x))
        act = self.activation(before) if self.gate is None else self.activation(before) * inner
        return see(self, "out", self.down(see(self, "act", act)))


@dataclass(frozen=True)
class Where:
    """What self-attention must know about its tokens, the same for every layer of a stack."""

    step: Step
    rotate: Rotation
    bias: Bias | None


class Block(nn.Module):
    """Self-attention, cross-attention where there is a source, feed-forward; each in a residual with a norm."""

    def __init__(self, config: TransformerConfig, *, cross: bool) -> None:
        super().__init__()
        self.self_attn, self.self_attn_norm = Attention(config), make_norm(config)
        self.cross_attn = Attention(config) if cross else None
        self.cross_attn_norm = make_norm(config) if cross else None
        self.ffn, self.ffn_norm = FeedForward(config), make_norm(config)
        self.norm_order, self.dropout = config.norm_order, Dropout(config.dropout)

    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Y = LayerNorm(X + f(X)) (2.7), or X + f(LayerNorm(X)): the only place where the two differ."""
        if self.norm_order != "post":
            return x + self.dropout(sublayer(see(norm, "out", norm(x))))
        return see(norm, "out", norm(see(norm, "in", x + self.dropout(sublayer(x)))))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-attention's keys and values of the source, (B, S, D) -> 2 x (B, K, S, d), once for all steps."""
        assert self.cross_attn is not None
        return self.cross_attn.keys_values(memory)

    def forward(
        self,
        x: Tensor,
        where: Where,
        cache: KVCache | None = None,
        memory: tuple[Tensor, Tensor] | None = None,
        memory_mask: Mask | None = None,
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        x = see(self, "resid_in", x)
        attended = self.residual(x, self.self_attn_norm, partial(self.look_around, where, cache))
        if self.norm_order == "parallel":
            return see(self, "resid_out", attended + self.residual(x, self.ffn_norm, self.ffn) - x)
        x = attended
        if memory is not None and memory_mask is not None and self.cross_attn_norm is not None:
            x = self.residual(
                see(self, "resid_cross", x), self.cross_attn_norm, partial(self.look_at_source, memory, memory_mask)
            )
        return see(self, "resid_out", self.residual(see(self, "resid_mid", x), self.ffn_norm, self.ffn))

    def look_around(self, where: Where, cache: KVCache | None, h: Tensor) -> Tensor:
        """Self-attention of h (B, T, D) over itself and what the cache holds."""
        h = narrow(h)
        q, k, v = self.self_attn.project(h)
        k, v = where.step.keep(cache, where.rotate(k), v)
        return self.self_attn(where.rotate(q), k, v, where.step.mask, where.bias, where.step.lies)

    def look_at_source(self, memory: tuple[Tensor, Tensor], mask: Mask, h: Tensor) -> Tensor:
        """Cross-attention of h (B, T, D) to the source; the n hypotheses of a source are more queries of it."""
        assert self.cross_attn is not None
        k, v = memory
        queries = self.cross_attn.queries(h.reshape(k.size(0), -1, h.size(-1)))  # (sources, H, n * T, d)
        return self.cross_attn(queries, k, v, mask).view_as(h)
