"""A moving average of the weights: steadier than the last ones, at the price of a second copy.

    average <- d average + (1 - d) weights        d = min(decay, (1 + n) / (10 + n)) after update n

What is unusual: the smaller d of the first updates lets the average leave the random start behind (as in TensorFlow).
While somebody looks at the model the two are exchanged, so evaluation and saving know nothing of averages.
What it does not know: the loop, files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.hub.weights import state_tensors


class Ema:
    """The average of a model's weights over its updates.

    Attributes:
        weights: the averages by name; within `exchanged`, the trained weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay = state_tensors(model), decay
        self.weights = {name: tensor.clone() for name, tensor in self._model.items()}

    @torch.no_grad()
    def update(self, n: int) -> None:
        """Take in the weights after update `n`, from 1."""
        part = 1 - min(self._decay, (1 + n) / (10 + n))
        torch._foreach_lerp_(list(self.weights.values()), list(self._model.values()), part)

    @contextmanager
    def exchanged(self) -> Iterator[None]:
        """Within it the model has the averages."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, tensor in self._model.items():
            kept = tensor.clone()
            tensor.copy_(self.weights[name])
            self.weights[name].copy_(kept)
