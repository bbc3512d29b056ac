"""What training needs to know of a task, and no more.

What is unusual: a task has no base class and registers nowhere; whatever has these members is one.
What it does not know: how a step is taken (training), where files lie (hub).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.data import TokenBatches
from regard.model import Model

CHARACTERS_A_TOKEN = 3.9
"""Of BPE with some thousand pieces on European text (Multi30k en-de at 4,000: 3.9); unspaced scripts have fewer."""


class Countable(Protocol):
    """A batch: it knows how many losses it holds, and can be moved and cut."""

    @property
    def count(self) -> int:
        """Supervised tokens or samples."""
        ...


class Task(Protocol):
    """From a batch to a loss, in two parts: the model's own work, which a compiler may have, and the loss."""

    def hidden(self, model: Model, batch: Any) -> Tensor:
        """What the Transformer makes of the batch, (B, T, D)."""
        ...

    def loss(self, model: Model, hidden: Tensor, batch: Any) -> Tensor:
        """The sum of the batch's `count` losses, from its hidden states."""
        ...


class TrainingData(Protocol):
    """The examples of a run, in an order that is a function of the step alone."""

    @property
    def batches_per_epoch(self) -> int:
        """Steps that see every example once."""
        ...

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Any:
        """This rank's part of the batch of a step."""
        ...

    def evaluate(self, model: Model) -> dict[str, float]:
        """Scores on the development examples; `dev_loss` among them, and `dev_merit` where another decides."""
        ...


class InBatchOrder:
    """Training data whose batches are those of a token budget, by step."""

    order: TokenBatches

    @property
    def batches_per_epoch(self) -> int:
        """Steps that see every example once."""
        return self.order.batches_per_epoch

    def examples(self, step: int) -> list[int]:
        """The training examples of a step's batch."""
        return self.order.batch(step)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Evaluation mode and no gradients; the mode from before comes back."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def cost(scores: Mapping[str, float]) -> float:
    """What the best checkpoint has least of: the development loss, or the merit (accuracy, F1) negated."""
    return -scores["dev_merit"] if "dev_merit" in scores else scores["dev_loss"]
