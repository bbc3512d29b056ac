"""Scores of classes and of numbers, with what is needed to trust them: intervals, a table by class, calibration.

What is unusual: plain counting in NumPy, so that a training needs no other library; the definitions are those of
scikit-learn and SciPy, and tests hold each against theirs. All works with ten thousand classes: no square matrix is
made but by `confusion`.
What it does not know: models, and the names of the classes.

Shapes: N examples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RESAMPLES = 1_000
BINS = 15
"""Of confidence, for the calibration error (Guo et al. 2017)."""


@dataclass(frozen=True)
class ClassTable:
    """How each class fares.

    Attributes:
        support, predicted, right: (C,) how many examples have it, are given it, and both.
    """

    support: np.ndarray
    predicted: np.ndarray
    right: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        """(C,) of those given the class, the share that have it; 0 where none is given it."""
        return self.right / np.maximum(1, self.predicted)

    @property
    def recall(self) -> np.ndarray:
        """(C,) of those that have the class, the share that are given it; 0 where none has it."""
        return self.right / np.maximum(1, self.support)

    @property
    def f1(self) -> np.ndarray:
        """(C,) the harmonic mean of the two; 0 where nothing is right."""
        return 2 * self.right / np.maximum(1, self.support + self.predicted)

    @property
    def macro_f1(self) -> float:
        """The mean of F1 over the classes that any example has or is given."""
        there = (self.support + self.predicted) > 0
        return float(self.f1[there].mean()) if there.any() else 0.0

    @property
    def micro_f1(self) -> float:
        """F1 of all decisions together; of one class an example that is the accuracy."""
        return float(2 * self.right.sum() / max(1, self.support.sum() + self.predicted.sum()))


def table_of(actual: np.ndarray, predicted: np.ndarray, n_classes: int) -> ClassTable:
    """Of one class each, (N,) ids; or of several, (N, C) bool."""
    if actual.ndim == 2:
        return ClassTable(actual.sum(0), predicted.sum(0), (actual & predicted).sum(0))
    counts = (np.bincount(ids, minlength=n_classes) for ids in (actual, predicted, actual[actual == predicted]))
    return ClassTable(*counts)


def mcc(actual: np.ndarray, predicted: np.ndarray, n_classes: int) -> float:
    """Matthews' correlation of two (N,) of ids, for any number of classes (Gorodkin 2004); 0 where it is undefined."""
    table, n = table_of(actual, predicted, n_classes), len(actual)
    support, given = table.support.astype(float), table.predicted.astype(float)
    over = float(table.right.sum()) * n - float(support @ given)
    under = math.sqrt((n * n - float(given @ given)) * (n * n - float(support @ support)))
    return over / under if under else 0.0


def confusion(actual: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """(C, C) counts: rows are what examples are, columns what they are given."""
    return np.bincount(actual * n_classes + predicted, minlength=n_classes**2).reshape(n_classes, n_classes)


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> list[tuple[int, float, float]]:
    """Examples in bins of equal width of their confidence: (how many, mean confidence, share right), empty ones too."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    rows = []
    for number in range(bins):
        inside = place == number
        count = int(inside.sum())
        rows.append((count, float(confidence[inside].mean()) if count else 0.0,
                     float(right[inside].mean()) if count else 0.0))  # fmt: skip
    return rows


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """ECE: how far confidence and the share that is right lie apart, the mean over examples by bins."""
    rows = reliability(confidence, right, bins)
    return sum(count * abs(sure - share) for count, sure, share in rows) / max(1, len(right))


def pearson(one: np.ndarray, two: np.ndarray) -> float:
    """Linear correlation; 0 where either does not vary."""
    a, b = one - one.mean(), two - two.mean()
    under = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / under if under else 0.0


def spearman(one: np.ndarray, two: np.ndarray) -> float:
    """Correlation of the ranks, equal values sharing their mean rank; 0 where either does not vary."""
    return pearson(_ranks(one), _ranks(two))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def interval(score: Callable[[np.ndarray], float], n: int, *, seed: int = 0) -> tuple[float, float]:
    """The middle 95 % of a score over examples drawn anew with replacement (Efron 1979): (low, high).

    Args:
        score: of some of the examples, given their numbers.
        n: how many examples there are.
    """
    rng = np.random.default_rng(seed)
    found = [score(rng.integers(n, size=n)) for _ in range(RESAMPLES)]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def paired_p(one: Callable[[np.ndarray], float], two: Callable[[np.ndarray], float], n: int, *, seed: int = 0) -> float:
    """How often the draw alone makes a difference as large as the one seen: a paired bootstrap (Koehn 2004).

    Args:
        one, two: the score of each model on some of the examples, given their numbers.
        n: how many examples there are.
    """
    rng, every = np.random.default_rng(seed), np.arange(n)
    drawn = [rng.integers(n, size=n) for _ in range(RESAMPLES)]
    found = np.array([two(rows) - one(rows) for rows in drawn])
    seen = abs(two(every) - one(every))
    return float((1 + (np.abs(found - found.mean()) >= seen).sum()) / (1 + RESAMPLES))


Scored = dict[str, Callable[[np.ndarray], float]]
"""name -> the score of some examples, given their numbers."""


def class_scores(actual: np.ndarray, predicted: np.ndarray, n_classes: int) -> Scored:
    """Of one class each, (N,) ids: accuracy, macro F1, Matthews' correlation."""
    right = actual == predicted
    return {
        "accuracy": lambda rows: float(right[rows].mean()),
        "macro_f1": lambda rows: table_of(actual[rows], predicted[rows], n_classes).macro_f1,
        "mcc": lambda rows: mcc(actual[rows], predicted[rows], n_classes),
    }


def several_scores(actual: np.ndarray, predicted: np.ndarray) -> Scored:
    """Of several classes each, (N, C) bool: F1 of all decisions and by class, and the share of wholly right rows."""
    return {
        "micro_f1": lambda rows: table_of(actual[rows], predicted[rows], actual.shape[1]).micro_f1,
        "macro_f1": lambda rows: table_of(actual[rows], predicted[rows], actual.shape[1]).macro_f1,
        "accuracy": lambda rows: float((actual[rows] == predicted[rows]).all(1).mean()),
    }


def number_scores(actual: np.ndarray, predicted: np.ndarray) -> Scored:
    """Of (N,) numbers: both correlations, and the mean absolute and squared error."""
    return {
        "spearman": lambda rows: spearman(actual[rows], predicted[rows]),
        "pearson": lambda rows: pearson(actual[rows], predicted[rows]),
        "mae": lambda rows: float(np.abs(actual[rows] - predicted[rows]).mean()),
        "mse": lambda rows: float(((actual[rows] - predicted[rows]) ** 2).mean()),
    }
