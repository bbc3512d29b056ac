"""Low-rank adapters (Hu et al. 2021): a trained matrix stays as it is, and a product of two narrow ones is learned.

    y = W x + b + (alpha / r) B A x        W (out, in) does not move, A (r, in) begins at random, B (out, r) at zero

What is unusual: a linear layer is replaced by a module that holds it, so nothing else in the model knows; and before a
model is saved the product is added to W, so that a checkpoint is a plain model of the same shape.
What it does not know: which tasks use it, and optimizers; what does not learn has `requires_grad` False.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from regard.model.heads import Model


class Adapted(nn.Module):
    """A linear layer with an adapter."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base, self.scale = base.requires_grad_(False), alpha / rank
        self.a = nn.Parameter(base.weight.new_empty(rank, base.in_features).normal_(std=base.in_features**-0.5))
        self.b = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """x (.., in) -> (.., out)."""
        return self.base(x) + self.scale * ((x @ self.a.T) @ self.b.T)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The plain layer that does the same; the layer held here is changed into it."""
        self.base.weight += self.scale * (self.b @ self.a)
        return self.base


def adapt(model: Model, rank: int, alpha: float) -> None:
    """Give every linear layer of the model's blocks an adapter, and keep all else but the head from learning."""
    model.transformer.requires_grad_(False)
    for module in list(model.transformer.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and not isinstance(module, Adapted):
                setattr(module, name, Adapted(child, rank, alpha))


def merged(model: Model) -> Model:
    """The same model without adapters: itself where there are none, else a copy."""
    if not any(isinstance(module, Adapted) for module in model.modules()):
        return model
    plain = copy.deepcopy(model)
    for module in list(plain.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Adapted):
                setattr(module, name, child.merged())
    return plain
