"""The divergence of two predictions of the same tokens, for R-Drop (Liang et al. 2021, arXiv 2106.14448).

What is unusual: as in `tasks.losses`, the (tokens x vocabulary) logits never exist whole. Here they are computed again
in the backward pass, block by block, which needs no formula of ours for the gradient.
What it does not know: where the two come from (one batch under two draws of dropout).

Shapes: N tokens, D d_model, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.tasks.losses import CHUNK_BYTES


def symmetric_divergence(one: Tensor, two: Tensor, weight: Tensor, *, bias: Tensor | None = None) -> Tensor:
    """Sum over tokens of  KL(p || q) + KL(q || p) = sum_v (p_v - q_v) (log p_v - log q_v),  in nats.

    Args:
        one, two: (N, D); p = softmax(one W^T + b), q = softmax(two W^T + b).
        weight: (V, D).  bias: (V,).

    Returns:
        A scalar, in float32 or wider.
    """
    rows = max(16, CHUNK_BYTES // (2 * 4 * weight.size(0)))
    parts = [
        checkpoint(_block, p, q, weight, bias, use_reentrant=False, preserve_rng_state=False)
        for p, q in zip(one.split(rows), two.split(rows), strict=True)
    ]
    return torch.stack(parts).sum()


def _block(one: Tensor, two: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    wide = torch.promote_types(one.dtype, torch.float32)
    log_p, log_q = (F.linear(side, weight, bias).to(wide).log_softmax(-1) for side in (one, two))  # (rows, V)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
