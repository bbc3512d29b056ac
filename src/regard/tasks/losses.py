"""Cross entropy of a projection onto the vocabulary, without ever holding all its logits.

What is unusual: the loss and its gradients are computed together, a few rows at a time, while the logits of those rows
are still in the processor's cache; a (tokens x vocabulary) tensor never exists. On a CPU memory traffic, not
arithmetic, is much of what a large vocabulary costs (`bench/losses.py` has torch's own losses beside it: of torch 2.13
F.linear_cross_entropy in parts takes 1.2 to 6 times as long, docs/training.md).
Label smoothing costs nothing: the mean logit over the vocabulary is one dot product with the mean row of W.
What it does not know: models, batches, padding (callers pass real tokens only).

Shapes: N tokens, D d_model, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_BYTES = 2**24
"""Logits held at a time: about what a last-level cache keeps."""
GPU_CHUNK_BYTES = 2**29
"""The same on a GPU: it has no such cache, wants products of many rows, and waits for the host once a chunk."""


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        kind = hidden.device.type
        compute = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        h, w, vocab = hidden.to(compute), weight.to(compute), weight.size(0)
        learning = any(ctx.needs_input_grad)
        d_hidden = torch.empty_like(h) if learning else None
        d_weight = torch.zeros_like(weight) if learning else None
        d_bias = torch.zeros_like(bias) if learning and bias is not None else None
        total = torch.zeros((), dtype=torch.promote_types(compute, torch.float32), device=h.device)
        mean_row = w.mean(0)
        mean_bias = 0.0 if bias is None else bias.mean()
        rows = _chunk(h.size(0), vocab * h.element_size(), CHUNK_BYTES if kind == "cpu" else GPU_CHUNK_BYTES)
        for start in range(0, h.size(0), rows):
            part = h[start : start + rows]
            wanted = torch.arange(len(part), device=h.device), targets[start : start + rows]
            logits = part @ w.T  # (rows, V)
            logits = logits if bias is None else logits.add_(bias)
            p = logits.softmax(-1)
            right, average = logits[wanted].to(total), (part @ mean_row).to(total) + mean_bias
            total += (_log_z(logits, p, wanted) - (1 - smoothing) * right - smoothing * average).sum()
            if d_hidden is None or d_weight is None:
                continue
            p[wanted] += smoothing - 1
            if d_bias is not None:
                d_bias += p.sum(0)
            torch.mm(p, w, out=d_hidden[start : start + rows])
            d_weight += p.T @ part
        if d_hidden is not None and d_weight is not None:
            # The smoothing's own part of the gradient, - smoothing / V on every logit, added up once for all.
            d_hidden -= smoothing * mean_row
            d_weight -= (smoothing / vocab) * h.sum(0)
            if d_bias is not None:
                d_bias -= smoothing * h.size(0) / vocab
            ctx.gradients = d_hidden.to(hidden.dtype), d_weight, d_bias
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = ctx.gradients
        return d_hidden * upstream, d_weight * upstream, None if d_bias is None else d_bias * upstream, None, None


def _chunk(n: int, row_bytes: int, most: int) -> int:
    """Rows at a time, all chunks about alike: few rows cost a product nearly as much as many."""
    return max(16, -(-n // max(1, -(-n * row_bytes // most))))


def _log_z(logits: Tensor, p: Tensor, wanted: tuple[Tensor, Tensor]) -> Tensor:
    """log sum_v exp(logit_v) of each row, (rows,) in float32 or wider, from the softmax that is there already."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    log_p = p[wanted].to(wide).log()
    if bool(log_p.isfinite().all()):
        return logits[wanted].to(wide) - log_p
    # A target so unlikely that its probability underflows; the largest one of a row never does.
    return logits.amax(-1).to(wide) - p.amax(-1).to(wide).log()


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Sum over tokens of  -(1 - eps) log p(target) - eps / V * sum_v log p(v),  p = softmax(hidden W^T + b).

    Args:
        hidden: (N, D).  weight: (V, D).  targets: (N,) token ids.  bias: (V,).
        smoothing: eps of label smoothing (Szegedy et al. 2016); 0 is plain cross entropy.

    Returns:
        A scalar, in float32 or wider; a sum, to be divided once by the count of the whole step.
    """
    loss: Tensor = _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing)
    return loss
