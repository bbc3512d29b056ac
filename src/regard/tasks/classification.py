"""Classification of texts and of pairs of texts (chapter 4.2): one class, several, or a number.

    one       softmax, cross entropy (smoothed)     several    a sigmoid for each class     number    squared error

What is unusual: one task for the three, told apart by `Labels`, the label set with its kind, which lies in config.json.
A number is learned at mean 0 and variance 1 of the training's, and given back in the user's units.
What it does not know: files, and how texts become ids (`tasks.reading`).

Shapes: N examples, B of them in a batch, C classes (1 for a number).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.labelled import LabelKind, LabelValue, classes_of
from regard.model import Model
from regard.tasks.base import evaluating
from regard.tasks.reading import Batch, Read, TextData, encode, hidden_states
from regard.tasks.scores import Scored, class_scores, number_scores, several_scores

LEAST_SPREAD = 1e-30
"""Numbers closer than that are all the same: one of another size would be beyond float32 in units of it."""


@dataclass(frozen=True)
class Labels:
    """What a classifier says.

    Attributes:
        names: the C classes, in the order of their ids; of a number its one name.
        kind: one class of these, several, or a number.
        mean, scale: of a number, what 0 and 1 stand for.
    """

    names: tuple[str, ...]
    kind: LabelKind = "one"
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, labels: Sequence[LabelValue], kind: LabelKind, classes: tuple[str, ...]) -> Self:
        """Those of training labels."""
        if kind != "number":
            return cls(classes, kind)
        values = np.array(labels, dtype=np.float64)
        spread = float(values.std())
        return cls(("number",), kind, float(values.mean()), spread if spread > LEAST_SPREAD else 1.0)

    @classmethod
    def read(cls, about: Mapping[str, Any]) -> Self:
        """Those in config.json."""
        return cls(tuple(about["labels"]), about.get("label_kind", "one"), *about.get("label_units", (0.0, 1.0)))

    def facts(self) -> dict[str, Any]:
        """The same for config.json."""
        units = {"label_units": [self.mean, self.scale]} if self.kind == "number" else {}
        return {"labels": list(self.names), "label_kind": self.kind, **units}

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def targets(self, labels: Sequence[LabelValue]) -> np.ndarray:
        """Labels as what is learned: (N,) ids, (N, C) of 0 and 1 in float32, or (N,) scaled numbers in float32."""
        if self.kind == "number":
            return ((np.array(labels, dtype=np.float64) - self.mean) / self.scale).astype(np.float32)
        if self.kind == "one":
            return np.array([self._ids[str(label)] for label in labels], dtype=np.int64)
        targets = np.zeros((len(labels), len(self.names)), dtype=np.float32)
        for row, label in enumerate(labels):
            targets[row, [self._ids[name] for name in classes_of(label)]] = 1
        return targets

    def decided(self, logits: np.ndarray) -> np.ndarray:
        """(N, C) logits -> the decisions: (N,) ids, (N, C) bool, or (N,) numbers in the user's units."""
        if self.kind == "one":
            return logits.argmax(1)
        return logits > 0 if self.kind == "several" else logits[:, 0].astype(np.float64) * self.scale + self.mean

    def scored(self, targets: np.ndarray, logits: np.ndarray) -> Scored:
        """The scores of N examples, the one that decides between models first."""
        said = self.decided(logits)
        if self.kind == "one":
            return class_scores(targets, said, len(self.names))
        if self.kind == "several":
            return several_scores(targets > 0, said)
        return number_scores(targets.astype(np.float64) * self.scale + self.mean, said)


def probabilities(kind: LabelKind, logits: np.ndarray) -> np.ndarray:
    """(N, C) logits -> the probability of each class; of several each for itself."""
    exact = torch.from_numpy(logits).double()
    return (exact.sigmoid() if kind == "several" else exact.softmax(1)).numpy()


@dataclass(frozen=True)
class ClassificationTask:
    """The loss of a batch.

    Attributes:
        kind: of the labels.
        smoothing: the share of the probability that goes to all classes alike; of one class.
        weights: (C,) what a loss of each class counts, of one class; None: all the same.
        rdrop: alpha of R-Drop, of one class: what `TranslationTask` says of tokens, of texts. 0: once.
    """

    kind: LabelKind
    smoothing: float = 0.0
    weights: Tensor | None = None
    rdrop: float = 0.0

    def hidden(self, model: Model, batch: Batch) -> Tensor:
        """What the encoder makes of the texts, (B, T, D); with R-Drop of the texts and of them again, (2 B, T, D)."""
        if not self.rdrop:
            return encode(model, batch.ids, batch.real, batch.types)
        return encode(model, batch.ids.repeat(2, 1), batch.real.repeat(2, 1), batch.types.repeat(2, 1))

    def loss(self, model: Model, hidden: Tensor, batch: Batch) -> Tensor:
        """Sum over the batch's examples; of several classes the mean over the classes of each."""
        if not self.rdrop:
            return self.of(model.head(hidden, batch.real), batch.targets)
        logits = model.head(hidden, batch.real.repeat(2, 1))  # (2 B, C)
        loss = self.of(logits, batch.targets.repeat(2))
        log_p, log_q = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1).chunk(2)
        apart = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()  # KL(p || q) + KL(q || p)
        return loss / 2 + self.rdrop / 4 * apart

    def of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The sum of the losses of logits (B, C)."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # half precision has too few digits
        if self.kind == "one":
            weights = None if self.weights is None else self.weights.to(logits)
            return F.cross_entropy(logits, targets, weights, label_smoothing=self.smoothing, reduction="sum")
        if self.kind == "several":
            return F.binary_cross_entropy_with_logits(logits, targets.to(logits), reduction="none").mean(1).sum()
        return F.mse_loss(logits[:, 0], targets.to(logits), reduction="sum")


def balanced(targets: np.ndarray, n_classes: int) -> Tensor:
    """(C,) weights that make each class count the same in all, and the examples together as much as before."""
    counts = np.bincount(targets, minlength=n_classes)
    return torch.from_numpy((len(targets) / (n_classes * np.maximum(1, counts))).astype(np.float32))


def classify(model: Model, reads: Sequence[Read]) -> np.ndarray:
    """The logits of N texts or pairs, (N, C) in float32 or wider, in their order; the same whatever is read together.

    (Law 34.)
    """
    found = torch.zeros(len(reads), 1)
    with evaluating(model):
        for rows, hidden, real in hidden_states(model, reads):
            logits = model.head(hidden, real)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).cpu()
            if found.size(1) != logits.size(1) or found.dtype != logits.dtype:
                found = torch.zeros(len(reads), logits.size(1), dtype=logits.dtype)
            found[rows] = logits
    return found.numpy()


class ClassificationData(TextData):
    """Labelled texts of a run as ids.

    Args:
        labels: the label set.
        targets, dev_targets: those of `Labels.targets`.
        dev: how the model reads each development text.
        dev_cut: how many of those are longer than the model reads.
        more: the arguments of `TextData`.
    """

    def __init__(
        self, labels: Labels, targets: np.ndarray, dev: Sequence[Read], dev_targets: np.ndarray, *, dev_cut: int = 0,
        **more: Any,
    ) -> None:  # fmt: skip
        self.labels, self.targets, self.dev, self.dev_targets = labels, targets, dev, dev_targets
        self.dev_cut = dev_cut
        wanted = torch.from_numpy(targets)
        super().__init__(targets=lambda rows, _: (wanted[list(rows)], torch.ones(len(rows), dtype=torch.long)), **more)

    @property
    def left_out(self) -> str | None:
        """See `TextData`; of development texts too."""
        what = f"{self.dev_cut:,} of {len(self.dev):,} development texts are longer than the model reads and are cut"
        return "; ".join(filter(None, [super().left_out, what if self.dev_cut else None])) or None

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss, without smoothing and weights, and the scores; the first of them says which model is best."""
        logits = classify(model, self.dev)
        loss = ClassificationTask(self.labels.kind).of(torch.from_numpy(logits), torch.from_numpy(self.dev_targets))
        rows = np.arange(len(self.dev))
        scores = {name: score(rows) for name, score in self.labels.scored(self.dev_targets, logits).items()}
        merit = next(iter(scores.values()))
        return {"dev_loss": float(loss) / len(rows), **{f"dev_{name}": s for name, s in scores.items()},
                "dev_merit": merit}  # fmt: skip
