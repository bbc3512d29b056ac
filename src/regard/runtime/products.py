"""Linear layers for a machine at hand: y = x W^T + b, with W as this machine reads it quickest.

    form    many rows                                              few rows (rows.py)
    fp32    oneDNN on W in its own order                           float32 as it lies
    bf16    the same in bfloat16                                   bfloat16 as it lies, summed in float32
    int8    int8 x int8 -> int32, rows of x scaled by their        int8 weights, x as it is
            greatest element

Where a CPU has no units for a form, its products are the slowest of all (int8 on one with AVX2 alone: `regard doctor
--speed` shows). There a layer widens W to float32 for many rows, product by product, and W stays as small as it was.
What is unusual: each private operator of torch stands behind one function here, with a plain one that takes its place
where it is missing; tests compare the two. A layer for few rows keeps W as it lies too, which is what those read, for
twice the memory; `regard doctor --speed` says up to how many rows that is quicker.
What it does not know: models (`fast.py`), and how rows are told few (`choice.py`).

Shapes: K inputs, N outputs, M rows.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.layers import ACTIVATIONS
from regard.runtime.rows import Matrix, absence, activations, few_rows_times, int8_rows_times

Form = Literal["fp32", "bf16", "int8"]
FORMS: tuple[Form, ...] = ("fp32", "bf16", "int8")
ENDINGS = {None: ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh"),
           "silu": ("swish", "")}  # fmt: skip
"""How oneDNN calls what a product may end with."""


class FastLinear(nn.Module):
    """In place of an nn.Linear, for inference on a CPU: equal to it but for rounding, which the form decides.

    Args:
        weight: (N, K) float32 or bfloat16; or int8, with `scale` (N,).
        bias: (N,) or None.
        few: up to how many rows the compiled kernels take; 0: none.
        widened: many rows are multiplied in float32, whatever the form.
        out: what y consists of; None: what x does.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, *, scale: Tensor | None = None, few: int = 0, widened: bool = False,
        out: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.few, self.widened, self.out, self.scale = few, widened, out, scale
        weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self.packed = pack(weight) if scale is None and not widened else None
        self.weight = weight if few or self.packed is None else None
        by_integers = scale is not None and not widened and can_sum_int8()
        self.matrix = Matrix(weight, scale, self.bias) if few or by_integers else None

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """x (.., K) -> (.., N); by an activation, named as the configuration names it, while they are at hand."""
        out = self.out or x.dtype
        if self.few and x.numel() <= self.few * self.in_features:
            assert self.matrix is not None
            return few_rows_times(x, self.matrix, out, activations()[activation] if activation else 0)
        if self.packed is not None:
            return packed_linear(x, self.packed, self.bias, activation).to(out)
        assert self.weight is not None
        if self.widened:
            y = F.linear(x.float(), self.plain().float(), None if self.bias is None else self.bias.float())
            return (ACTIVATIONS[activation](y) if activation else y).to(out)
        if self.scale is not None and self.matrix is not None:
            return int8_rows_times(x, self.weight, self.matrix, activations()[activation] if activation else 0).to(out)
        if self.scale is None:
            y = F.linear(x, self.weight, self.bias)
        else:
            y = int8_linear(x, self.weight, self.scale, self.bias)
        return (ACTIVATIONS[activation](y) if activation else y).to(out)

    def plain(self) -> Tensor:
        """W (N, K) in floating point; of int8 what its numbers stand for."""
        if self.weight is None:
            assert self.packed is not None
            return self.packed.to_dense()
        return self.weight if self.scale is None else self.weight * self.scale[:, None]

    def extra_repr(self) -> str:
        """What printing a model says of it."""
        held = self.packed if self.weight is None else self.weight
        kind = "nothing" if held is None else str(held.dtype).removeprefix("torch.")
        return f"{self.in_features}, {self.out_features}, {kind}, few={self.few}"


class FastEmbedding(nn.Module):
    """In place of an nn.Embedding: int8 (V, D) with a scale for each row (V,), read as float32."""

    def __init__(self, weight: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.weight, self.scale = weight, scale

    def forward(self, ids: Tensor) -> Tensor:
        """ids (..) -> (.., D)."""
        return self.weight[ids].float() * self.scale[ids][..., None]


def quantise_rows(w: Tensor) -> tuple[Tensor, Tensor]:
    """w (N, K) -> int8 (N, K) and the scale of each row (N,), so that int8 * scale is w to 1/254 of its greatest."""
    scale = w.float().abs().amax(-1).clamp(min=1e-30) / 127
    return (w.float() / scale[:, None]).round_().to(torch.int8), scale


# ---------------------------------------------------------------- many rows


def can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch packs such matrices for oneDNN."""
    ops = torch.ops.mkldnn
    there = hasattr(ops, "_reorder_linear_weight") and hasattr(ops, "_linear_pointwise")
    return there and torch.backends.mkldnn.is_available() and dtype in (torch.float32, torch.bfloat16)


def pack(w: Tensor) -> Tensor | None:
    """W (N, K) in the order that oneDNN computes in; None where this torch cannot."""
    if not can_pack(w.dtype) or w.device.type != "cpu":
        return None
    try:
        return torch.ops.mkldnn._reorder_linear_weight(w.contiguous())
    except RuntimeError:  # bfloat16 on a CPU without AVX-512
        return None


def packed_linear(x: Tensor, packed: Tensor, bias: Tensor | None, activation: str | None = None) -> Tensor:
    """x (.., K) and what `pack` gave -> (.., N), by an activation."""
    name, algorithm = ENDINGS[activation]
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, name, [], algorithm)


def slower_here() -> list[str]:
    """What products of many rows must do without on this machine and with this torch, in words."""
    lacks = []
    if not can_pack(torch.float32):
        lacks.append("this torch orders no matrices for oneDNN")
    elif pack(torch.zeros(8, 8, dtype=torch.bfloat16)) is None:
        lacks.append("no bfloat16 in oneDNN on this CPU")
    if not hasattr(torch, "_int_mm"):
        lacks.append("this torch has no product of int8")
    return lacks


def can_sum_int8() -> bool:
    """Whether a product of int8 is three passes here."""
    return hasattr(torch, "_int_mm") and absence() is None


def int8_linear(x: Tensor, w: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    """x (.., K), w (N, K) int8 with scales (N,) -> (.., N): a product of integers, each row of x with its own scale."""
    rows = x.reshape(-1, x.size(-1))
    if not hasattr(torch, "_int_mm"):
        return F.linear(x, (w * scale[:, None]).to(x.dtype), bias)
    greatest = rows.abs().amax(-1, keepdim=True).float().clamp_(min=1e-30)  # (M, 1)
    whole = (rows * (127 / greatest)).round_().to(torch.int8)
    y = torch._int_mm(whole, w.T).to(torch.float32).mul_(scale)
    y = y.mul_(greatest / 127) if bias is None else torch.addcmul(bias.float(), y, greatest / 127)
    return y.to(x.dtype).view(*x.shape[:-1], -1)
