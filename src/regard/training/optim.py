"""What turns gradients into updates: Muon on the matrices of the blocks, AdamW on all the rest; and the learning rate.

What is unusual: our own Muon. torch.optim.Muon orthogonalises each matrix alone and in bfloat16, which a CPU
without bf16 units runs a hundred times slower than float32 (1 against 100 GFLOP/s measured, AVX2). This one stacks
equal shapes and works in the dtype given. At budgets of minutes Muon is worth more than any kernel: performance.md.
Source: Jordan et al. 2024 (Muon); Liu et al. 2025, Moonlight (0.2 sqrt(max(A, B)), which lets it share AdamW's rates).
What it does not know: models beyond their parameters' names and shapes.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.recipe import OptimRecipe, ScheduleRecipe

_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of Jordan's quintic: it takes every singular value in (0, 1] to about 1 in five rounds."""

_LAYER = re.compile(r"(.*)\.layers\.(\d+)\.")
_BELOW = re.compile(r"(.*\.)?transformer\.(?!\w+\.norm\.)")
"""What is no layer, and lies below them all."""


def orthogonalise(matrices: Tensor, rounds: int = 5) -> Tensor:
    """The nearest matrices with all singular values about 1: (n, A, B) -> (n, A, B), by Newton-Schulz iteration."""
    a, b, c = _NEWTON_SCHULZ
    tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(rounds):
        gram = torch.bmm(x, x.mT)  # (n, A, A) with A <= B
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        polynomial.diagonal(dim1=1, dim2=2).add_(a)
        x = torch.bmm(polynomial, x)  # (a I + b G + c G^2) X
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum whose matrix updates are orthogonalised: every direction in it gets the same size.

    Args:
        parameters: matrices only, or groups of them with rates of their own.
        lr: as for AdamW; a matrix (A, B) is moved by lr * 0.2 * sqrt(max(A, B)) * orthogonal.
        dtype: what the orthogonalisation computes in.
    """

    def __init__(
        self, parameters: Iterable[Tensor] | list[dict[str, Any]], *, lr: float, momentum: float = 0.95,
        weight_decay: float = 0.0, dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient, equal shapes together."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.shape].append(p)
            for shape, parameters in by_shape.items():
                self._update(parameters, shape, group)

    def _update(self, parameters: list[Tensor], shape: torch.Size, group: dict[str, Any]) -> None:
        gradients = [p.grad for p in parameters if p.grad is not None]
        for p in parameters:
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        momenta = [self.state[p]["momentum"] for p in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, momenta, group["momentum"])  # Nesterov
        updates = orthogonalise(torch.stack(list(ahead)).to(self.dtype)).to(parameters[0].dtype).unbind()
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, updates, alpha=-group["lr"] * 0.2 * math.sqrt(max(shape)))


def make_optimizers(model: nn.Module, recipe: OptimRecipe) -> list[torch.optim.Optimizer]:
    """Muon (when asked for) on the matrices of the blocks, AdamW on embeddings, norms, biases and heads."""
    matrices: dict[float, list[nn.Parameter]] = defaultdict(list)
    rest: dict[float, tuple[list[nn.Parameter], list[nn.Parameter]]] = defaultdict(lambda: ([], []))
    above = layers_above(name for name, _ in model.named_parameters())
    for name, p in model.named_parameters():
        if p.requires_grad:
            share = recipe.layer_decay ** above[name]
            if ".layers." in name and p.ndim == 2 and recipe.kind == "muon":
                matrices[share].append(p)
            else:
                rest[share][p.ndim < 2].append(p)
    groups = [
        {"params": some, "lr": share * recipe.lr, "weight_decay": decay}
        for share, (decayed, plain) in rest.items()
        for some, decay in ((decayed, recipe.weight_decay), (plain, 0.0))
    ]
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, fused=fused)
    ]
    if matrices:
        dtype = getattr(torch, recipe.matrix_dtype)
        peak = recipe.matrix_lr
        rates: list[dict[str, Any]] = [{"params": own, "lr": share * peak} for share, own in matrices.items()]
        optimizers.append(Muon(rates, lr=peak, weight_decay=recipe.weight_decay, dtype=dtype))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def layers_above(names: Iterable[str]) -> dict[str, int]:
    """Of each parameter, how many steps it lies below the head.

    0 for the head and a norm that ends a stack, 1 for the last layer, one more for each layer below, and one more than
    the deepest layer for the embeddings.
    """
    places = {name: _LAYER.match(name) for name in names}
    depth: dict[str, int] = defaultdict(int)
    for found in filter(None, places.values()):
        depth[found[1]] = max(depth[found[1]], int(found[2]) + 1)
    bottom = 1 + max(depth.values(), default=0)
    return {
        name: depth[found[1]] - int(found[2]) if found else bottom if _BELOW.match(name) else 0
        for name, found in places.items()
    }


def lr_factor(step: int, schedule: ScheduleRecipe, total: int | None) -> float:
    """The learning rate of update `step` (from 0) as a share of its peak.

    Args:
        total: how many updates there will be; None while the clock has not decided yet (wsd only): no decay so far.
    """
    warm = min(1.0, (step + 1) / max(1, schedule.warmup))
    if schedule.kind == "inverse_sqrt":
        return min(warm, math.sqrt(max(1, schedule.warmup) / (step + 1)))
    if total is None:
        return warm
    if schedule.kind == "cosine":
        done = min(1.0, max(0, step - schedule.warmup) / max(1, total - schedule.warmup))
        return min(warm, 0.5 * (1 + math.cos(math.pi * done)))
    decay = max(1, round(schedule.decay * total))  # whole updates: a resolved recipe decays from the same one
    return min(warm, max(0.0, (total - step) / decay))


def set_lr(optimizers: list[torch.optim.Optimizer], factor: float) -> float:
    """Give every group its share of its peak; returns AdamW's rate, the one that is logged."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * factor
    return float(optimizers[0].param_groups[0]["lr"])
