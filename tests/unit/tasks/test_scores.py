"""Scores of classes and numbers, held against scikit-learn's and SciPy's, and intervals against the binomial law."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from regard.tasks.scores import (
    calibration_error,
    class_scores,
    confusion,
    interval,
    mcc,
    number_scores,
    paired_p,
    pearson,
    reliability,
    several_scores,
    spearman,
    table_of,
)

sklearn = pytest.importorskip("sklearn.metrics")


def drawn(seed: int, n: int = 60, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Ids with classes that never occur, occur in one of the two alone, or are always right."""
    random = np.random.default_rng(seed)
    actual = random.integers(0, classes - 1, n)
    predicted = np.where(random.random(n) < 0.5, actual, random.integers(1, classes, n))
    return actual, predicted


@pytest.mark.parametrize("seed", range(6))
def test_one_class_as_scikit_learn_has_it(seed: int) -> None:
    actual, predicted = drawn(seed)
    every, scores = np.arange(60), class_scores(actual, predicted, 9)
    assert scores["accuracy"](every) == pytest.approx(sklearn.accuracy_score(actual, predicted))
    assert scores["macro_f1"](every) == pytest.approx(sklearn.f1_score(actual, predicted, average="macro"))
    assert scores["mcc"](every) == pytest.approx(sklearn.matthews_corrcoef(actual, predicted))
    table = table_of(actual, predicted, 9)
    assert table.micro_f1 == pytest.approx(sklearn.f1_score(actual, predicted, average="micro"))
    given = {"labels": range(9), "average": None, "zero_division": 0}
    theirs = sklearn.precision_recall_fscore_support(actual, predicted, **given)
    for ours, own in zip((table.precision, table.recall, table.f1, table.support), theirs, strict=True):
        assert ours == pytest.approx(own)
    assert (confusion(actual, predicted, 9) == sklearn.confusion_matrix(actual, predicted, labels=range(9))).all()


@pytest.mark.parametrize("seed", range(4))
def test_several_classes_as_scikit_learn_has_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    actual, predicted = random.random((40, 6)) < 0.3, random.random((40, 6)) < 0.3
    every, scores = np.arange(40), several_scores(actual, predicted)
    for average in ("micro", "macro"):
        expected = sklearn.f1_score(actual, predicted, average=average, zero_division=0)
        assert scores[f"{average}_f1"](every) == pytest.approx(expected)
    assert scores["accuracy"](every) == pytest.approx(sklearn.accuracy_score(actual, predicted))


@pytest.mark.parametrize("seed", range(4))
def test_numbers_as_scipy_has_them(seed: int) -> None:
    from scipy import stats

    random = np.random.default_rng(seed)
    one = random.integers(0, 6, 50).astype(float)  # many are equal
    two = one + random.normal(size=50).round(1)
    assert spearman(one, two) == pytest.approx(stats.spearmanr(one, two).statistic)
    assert pearson(one, two) == pytest.approx(stats.pearsonr(one, two).statistic)
    scores = number_scores(one, two)
    assert scores["mse"](np.arange(50)) == pytest.approx(sklearn.mean_squared_error(one, two))
    assert scores["mae"](np.arange(50)) == pytest.approx(sklearn.mean_absolute_error(one, two))


def test_what_is_undefined_is_zero() -> None:
    same, other = np.zeros(5, dtype=np.int64), np.arange(5)
    assert mcc(same, same, 3) == 0 and spearman(same.astype(float), other.astype(float)) == 0
    assert table_of(same[:0], same[:0], 3).macro_f1 == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says that it is ill defined
        assert sklearn.matthews_corrcoef(same, same) == 0


def test_calibration_by_hand() -> None:
    """Four sure of 0.9, one of them wrong; two sure of 0.5, both right: (4 |0.9 - 0.75| + 2 |0.5 - 1|) / 6."""
    sure = np.array([0.9, 0.9, 0.9, 0.9, 0.5, 0.5])
    right = np.array([True, True, True, False, True, True])
    assert calibration_error(sure, right) == pytest.approx((4 * 0.15 + 2 * 0.5) / 6)
    assert sum(count for count, _, _ in reliability(sure, right)) == 6
    assert reliability(np.array([1.0]), np.array([True]))[-1] == (1, 1.0, 1.0), "certainty is in the last bin"
    random = np.random.default_rng(0)
    honest = random.random(20_000)
    assert calibration_error(honest, random.random(20_000) < honest) < 0.02


def test_the_interval_is_as_wide_as_the_binomial_law_has_it() -> None:
    right = np.arange(400) < 320
    low, high = interval(lambda rows: float(right[rows].mean()), 400)
    width = 1.96 * (0.8 * 0.2 / 400) ** 0.5
    assert low == pytest.approx(0.8 - width, abs=0.01) and high == pytest.approx(0.8 + width, abs=0.01)
    assert interval(lambda rows: float(right[rows].mean()), 400) == (low, high), "drawn with a seed"


def test_ten_thousand_classes() -> None:
    actual = np.random.default_rng(0).integers(0, 10_000, 20_000)
    scores = class_scores(actual, np.roll(actual, 1), 10_000)
    assert scores["macro_f1"](np.arange(20_000)) < 0.01


def test_p_of_a_paired_bootstrap() -> None:
    """Models that differ by the draw alone seem to differ in about one of twenty; ones that differ much, always."""
    random = np.random.default_rng(0)
    found = []
    for trial in range(30):
        one, two = random.random(200) < 0.7, random.random(200) < 0.7
        found.append(paired_p(lambda rows, a=one: a[rows].mean(), lambda rows, b=two: b[rows].mean(), 200, seed=trial))
    assert np.mean(np.array(found) < 0.05) < 0.2 and np.mean(np.array(found) < 0.5) > 0.2
    worse, better = random.random(200) < 0.5, random.random(200) < 0.9
    assert paired_p(lambda rows: worse[rows].mean(), lambda rows: better[rows].mean(), 200) < 0.01
    assert paired_p(lambda rows: worse[rows].mean(), lambda rows: worse[rows].mean(), 200) == 1
