"""A lesson on trial: a model, a task and its data, and the ways in which the laws of training compute a gradient.

What is unusual: everything happens on a copy in float64 and in evaluation mode, so that two ways to the same sum agree
to 1e-9 and dropout draws nothing.
What it does not know: any law; what a batch of a task looks like (`batches`).

Shapes: B rows, T tokens, N supervised places, C classes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.laws.batches import rows_of
from regard.laws.trial import NotApplicable, Undecided
from regard.model import Model
from regard.tasks.base import Task, TrainingData
from regard.tasks.classification import ClassificationTask
from regard.tasks.language_modeling import LanguageModelTask
from regard.tasks.masked_lm import MaskedLMTask
from regard.tasks.spans import ExtractiveQATask
from regard.tasks.tagging import IGNORED, TaggingTask
from regard.tasks.translation import TranslationTask
from regard.training.step import TrainStep, add_gradients

LOOKED_AT = 16
"""Steps among which the batch with the most rows is looked for."""
SMOOTHED = ("label_smoothing", "smoothing")
"""What tasks call the share of the probability that goes to all classes alike."""


@dataclass(frozen=True)
class Lesson:
    """A model, a task, and the data of a run; `LAWS[15](Lesson(model, task, data))`."""

    model: Model
    task: Task
    data: TrainingData
    seed: int = 0
    tolerance: ClassVar[float] = 1e-9
    """Relative to the largest number: that of arithmetic in float64."""

    @classmethod
    @contextmanager
    def ready(cls, given: Lesson, seed: int) -> Iterator[Lesson]:
        """The lesson with a copy of its model."""
        model = copy.deepcopy(given.model).double().eval().requires_grad_(True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield replace(given, model=model, seed=seed)

    @property
    def fullest(self) -> Any:
        """Of the first steps' batches the one with the most rows, two at least."""
        steps = range(min(LOOKED_AT, self.data.batches_per_epoch))
        batch = max((self.data.batch(step) for step in steps), key=rows_of)
        if rows_of(batch) < 2:
            raise NotApplicable("no batch has two rows")
        return batch

    def added(self, micro_batches: Sequence[Any]) -> tuple[Tensor, float]:
        """What `add_gradients` makes of some micro-batches: all gradients in one row, and the mean loss."""
        self.model.zero_grad(set_to_none=True)
        total, count = add_gradients(TrainStep(self.model, self.task), micro_batches)
        return torch.cat([_or_zero(p, p.grad) for p in self.model.parameters()]), total / count

    def plain(self, batch: Any, task: Task | None = None) -> tuple[Tensor, float]:
        """The same by torch alone, of one batch in one process."""
        task = task or self.task
        loss = task.loss(self.model, task.hidden(self.model, batch), batch) / max(1, batch.count)
        parameters = list(self.model.parameters())
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return torch.cat([_or_zero(p, g) for p, g in zip(parameters, found, strict=True)]), float(loss.detach())

    def gap(self, ours: tuple[Tensor, float], theirs: tuple[Tensor, float]) -> float:
        """The largest difference of two gradients, or of their losses, relative to the largest of theirs."""
        size = float(theirs[0].abs().max())
        if size < 1e-6:
            raise Undecided("there is hardly a gradient")
        return max(float((ours[0] - theirs[0]).abs().max()) / size, relative(ours[1], theirs[1]))


def relative(ours: float, theirs: float) -> float:
    """How far apart two numbers are, relative to their size."""
    return abs(ours - theirs) / max(1.0, abs(theirs))


def _or_zero(parameter: Tensor, gradient: Tensor | None) -> Tensor:
    return (torch.zeros_like(parameter) if gradient is None else gradient.detach()).flatten()


def sharp(task: Any) -> Any:
    """The same task without smoothing, weights of classes and R-Drop: what an evaluation measures."""
    return with_fields(task, **dict.fromkeys(SMOOTHED, 0.0), rdrop=0.0, weights=None)


def with_fields(task: Any, **values: Any) -> Any:
    """The task with those of these fields changed that it has."""
    own = {each.name for each in fields(task)}
    return replace(task, **{name: value for name, value in values.items() if name in own})


def smoothed_by(task: Any) -> str | None:
    """The name of the task's field of label smoothing."""
    return next((each.name for each in fields(task) if each.name in SMOOTHED), None)


def said(model: Model, task: Any, batch: Any) -> tuple[Tensor, Tensor, int]:
    """What a model says where a batch is supervised: logits (N, C), the classes wanted (N,), and how many are one loss.

    Raises:
        NotApplicable: the loss is not the cross entropy of classes.
    """
    hidden = task.hidden(model, batch)
    match task:
        case TranslationTask():
            return model.logits(hidden)[batch.tgt_real], batch.tgt_out[batch.tgt_real], 1
        case LanguageModelTask():
            return model.logits(hidden)[batch.real], batch.targets[batch.real], 1
        case MaskedLMTask():
            return model.logits(hidden)[batch.chosen], batch.targets[batch.chosen], 1
        case TaggingTask():
            chosen = batch.targets != IGNORED
            return model.head(hidden)[chosen], batch.targets[chosen], 1
        case ClassificationTask(kind="one"):
            return model.head(hidden, batch.real), batch.targets, 1
        case ExtractiveQATask():
            logits = model.head(hidden).masked_fill(~batch.places[..., None], -torch.inf)  # (B, T, 2)
            return logits.transpose(1, 2).flatten(0, 1), batch.targets.flatten(), 2
    raise NotApplicable("its loss is no cross entropy of classes")
