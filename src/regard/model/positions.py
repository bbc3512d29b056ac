"""How order enters the model (chapter 2.6): three hooks, and each scheme overrides the ones it needs.

    embed     adds something to the embeddings          sinusoidal, learned
    rotation  turns queries and keys                    rope
    bias      adds something to the scores              alibi, relative

What is unusual: attention never asks which scheme it has. Rotations and biases are functions, made once in a pass for
all layers; nothing is stored between passes, so a model has no buffers (it can be built on the meta device) and a
computed scheme knows no longest sequence.
What it does not know: masks, caches, layers.

Shapes: B batch, T queries, S keys, D d_model, H heads, d head width. Positions are integers counted from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.model.config import Alibi, Learned, NoPositions, Relative, Rope, Sinusoidal, TransformerConfig
from regard.model.scaling import growth, rescaled
from regard.model.watch import see

Bias = Callable[[slice], Tensor]
"""A bias on the scores, drawn for a block of queries only when asked: rows -> (B|1, H, rows, S)."""
Rotation = Callable[[Tensor], Tensor]
"""Turns queries or keys, (B, heads, T, d) -> the same shape, by the positions that it was made for."""


def frequencies(width: int, theta: float, like: Tensor) -> Tensor:
    """theta ** (-2i / width) for i = 0, 1, ..: (width / 2,), in float32, or float64 where `like` is.

    Rounded as transformers rounds it: at position 2000 the last bit of a frequency is seen in the logits.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    return 1 / theta ** (torch.arange(0, width, 2, dtype=dtype, device=like.device) / width)


def unturned(x: Tensor) -> Tensor:
    """The rotation of a scheme that has none."""
    return x


class Positions(nn.Module):
    """No position information; the three hooks, doing nothing."""

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__()

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x (B, T, D) at pos (B|1, T) -> (B, T, D)."""
        return x

    def rotation(self, pos: Tensor, like: Tensor) -> Rotation:
        """What turns queries and keys at pos (B|1, T) in every layer; `like`: of the dtype that computing begins in."""
        return unturned

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Bias | None:
        """What is added to the scores of queries at q_pos (B|1, T) and keys at k_pos (B|1, S)."""
        return None


class SinusoidalPositions(Positions):
    """p_t^(2i) = sin(t / 10000^(2i/d)), p_t^(2i+1) = cos(t / 10000^(2i/d)): chapter 2.6, x_t = e_t + p_t."""

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        assert isinstance(config.positions, Sinusoidal)
        self.layout, self.theta = config.positions.layout, config.positions.theta

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x_t = e_t + p_t."""
        # In float32 an angle of 500 is off by up to 3e-5, in one library otherwise than in the next.
        exact = pos.float() if pos.device.type == "mps" else pos.double()  # Apple's GPUs have no float64
        angle = exact[..., None] * frequencies(x.size(-1), self.theta, exact)  # (B|1, T, D/2)
        waves = angle.sin(), angle.cos()
        table = torch.stack(waves, -1).flatten(-2) if self.layout == "interleaved" else torch.cat(waves, -1)
        return x + table.to(x.dtype)  # (B, T, D)


class LearnedPositions(Positions):
    """One trained vector a position. Raises ConfigError for a position at or beyond max_len (laws, 10)."""

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        assert isinstance(config.positions, Learned)
        self.offset = config.positions.offset
        self.weight = nn.Parameter(torch.empty(config.max_len + self.offset, config.d_model))

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x_t = e_t + p_t, p_t a row of the table."""
        longest = self.weight.size(0) - self.offset
        if x.size(1) > longest or (not torch.compiler.is_compiling() and pos.numel() and int(pos.max()) >= longest):
            raise ConfigError(
                "learned positions end at max_len",
                expected=f"at most {longest} tokens (max_len = {longest})",
                got=f"{max(x.size(1), int(pos.max()) + 1)} tokens",
                mend="shorten the input, or train with a larger max_len or another position scheme",
            )
        # F.embedding and not indexing: its backward is deterministic on the CPU, and resuming must be bit-equal.
        return x + F.embedding(pos + self.offset if self.offset else pos, self.weight)


class RotaryPositions(Positions):
    """RoPE, half-split: pair (i, i + d/2) is turned by t * theta^(-2i/d), so q.k depends on distance only.

    d is the part of a head's width that is turned; what is left of it comes after.
    """

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        assert isinstance(config.positions, Rope)
        self.theta, self.scaling, self.width = config.positions.theta, config.positions.scaling, config.turned_width
        self.head_width, self.growth = config.head_width, growth(self.scaling)

    def rotation(self, pos: Tensor, like: Tensor) -> Rotation:
        """Turns each pair by its angle; offers the angles, (B|1, T, d/2)."""
        speed = rescaled(frequencies(self.width, self.theta, like), self.theta, self.scaling)
        angle = see(self, "angles", pos[..., None] * speed).unsqueeze(-3)  # (B|1, 1, T, d/2)
        cos, sin = angle.cos() * self.growth, angle.sin() * self.growth
        cos, sin = torch.cat([cos, cos], -1).to(like.dtype), torch.cat([-sin, sin], -1).to(like.dtype)

        def turn(x: Tensor) -> Tensor:  # (a, b) -> (a cos - b sin, b cos + a sin)
            return x * cos.to(x.dtype) + x.roll(self.width // 2, -1) * sin.to(x.dtype)

        def turn_some(x: Tensor) -> Tensor:
            turned, rest = x.split([self.width, x.size(-1) - self.width], -1)
            return torch.cat([turn(turned), rest], -1)

        return turn if self.width == self.head_width else turn_some


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8h/n), h = 1..n, when n is a power of two; else those of the power below, then every second of the one above.

    Press et al. 2022, section 3 and its reference implementation's rule for other head counts.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-4 * h / power) for h in range(1, 2 * power + 1, 2)]
    return slopes + between[: n_heads - power]


class AlibiPositions(Positions):
    """- slope_h * |t - s| on each score: no parameter, and no T x S tensor unless a block of it is drawn."""

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        self.slopes = alibi_slopes(config.n_heads)

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Bias:
        """Draws - slope * distance for a block of queries."""
        slopes = torch.tensor(self.slopes, device=q_pos.device)[:, None, None]  # (H, 1, 1)

        def block(rows: slice) -> Tensor:
            distance = (q_pos[:, rows, None] - k_pos[:, None, :]).abs()  # (B|1, rows, S)
            return -slopes * distance[:, None]  # (B|1, H, rows, S)

        return block


class RelativePositions(Positions):
    """T5's buckets of distance: exact when near, logarithmic up to max_distance, one beyond.

    The whole (T, S) bias is computed once for the stack and is trained, so its memory is O(T^2).
    """

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        assert isinstance(config.positions, Relative)
        self.weight = nn.Parameter(torch.empty(config.positions.buckets, config.n_heads))
        self.max_distance, self.causal = config.positions.max_distance, causal

    def bucket(self, distance: Tensor) -> Tensor:
        """distance = q_pos - k_pos, any shape -> bucket number. Half the buckets are for the future when it is seen.

        With 32 buckets, causal:  distance 0..15 -> itself;  16..127 -> 16..31 by logarithm;  128.. -> 31.
        """
        n, offset = self.weight.size(0), torch.zeros_like(distance)
        if not self.causal:
            n //= 2
            offset = n * (distance < 0)
            distance = distance.abs()
        distance, exact = distance.clamp(min=0), n // 2
        growth = torch.log(distance.clamp(min=1) / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (n - exact)).long()).clamp(max=n - 1)
        return offset + torch.where(distance < exact, distance, far)

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Bias:
        """Draws rows of the one trained (T, S) bias."""
        buckets = self.bucket(q_pos[:, :, None] - k_pos[:, None, :])
        table = F.embedding(buckets, self.weight).movedim(-1, 1)  # (B|1, H, T, S)
        return lambda rows: table[:, :, rows]


_SCHEMES: dict[type, type[Positions]] = {
    NoPositions: Positions,
    Sinusoidal: SinusoidalPositions,
    Learned: LearnedPositions,
    Rope: RotaryPositions,
    Alibi: AlibiPositions,
    Relative: RelativePositions,
}


def make_positions(config: TransformerConfig, *, causal: bool) -> Positions:
    """The module of the scheme that the configuration names."""
    return _SCHEMES[type(config.positions)](config, causal=causal)
