"""Held against the numbers that the official scripts give for the predictions shipped with the data."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from regard.data.squad import Question, Questions, Reference, read_questions
from regard.tasks.squad_metrics import (
    best_threshold,
    exact_match,
    normal,
    overlap_f1,
    paired_p,
    score_answers,
    split_for,
)

read = cache(lambda path: read_questions([path]))


def _question(*answers: str) -> Question:
    return Question("1", "?", "a text", tuple(Reference(text, None) for text in answers), "file:1")


@pytest.mark.parametrize(
    ("name", "exact", "f1", "missing"),
    [
        ("bert-ensemble", 86.2062, 92.1956, 0),
        ("logistic-regression", 40.1419, 50.9815, 13),
        pytest.param("rnet-plus-ensemble", 82.4693, 88.4779, 0, marks=pytest.mark.slow),
        pytest.param("match-lstm-ensemble", 67.6348, 76.7556, 0, marks=pytest.mark.slow),
    ],
)
def test_published_predictions_score_as_published(
    data_dir: Callable[[str], Path], name: str, exact: float, f1: float, missing: int
) -> None:
    folder = data_dir("squad")
    questions: Questions = read(folder / "dev-v1.1.json.gz")
    said = json.loads(gzip.decompress((folder / f"pred-{name}.json.gz").read_bytes()))
    answers = [said.get(question.id) for question in questions]
    assert answers.count(None) == missing
    scores = score_answers(answers, questions.items)
    assert round(100 * scores.exact.mean(), 4) == exact
    assert round(100 * scores.f1.mean(), 4) == f1
    metrics = scores.metrics()
    assert metrics["exact"]["score"] == pytest.approx(exact, abs=1e-4)
    assert metrics["f1"]["low"] < f1 < metrics["f1"]["high"] < metrics["f1"]["low"] + 2.5
    assert metrics["f1"]["signature"] == "SQuAD 1.1, words" and set(metrics) == {"exact", "f1"}


def test_the_same_on_the_questions_of_xquad(data_dir: Callable[[str], Path]) -> None:
    questions: Questions = read(data_dir("xquad") / "xquad.en.json.gz")
    said = json.loads(gzip.decompress((data_dir("squad") / "pred-bert-ensemble.json.gz").read_bytes()))
    scores = score_answers([said.get(question.id) for question in questions], questions.items)
    assert round(100 * scores.exact.mean(), 4) == 74.8739 and round(100 * scores.f1.mean(), 4) == 86.3247


@pytest.mark.parametrize(
    ("answer", "reference", "exact", "f1"),
    [
        ("The  Cat!", "cat", 1, 1.0),
        ("a cat sat", "cat", 0, 2 / 3),
        ("cat cat", "cat", 0, 2 / 3),  # a word counts as often as both have it
        ("dog", "cat", 0, 0.0),
        ("theatre", "the atre", 0, 0.0),  # an article is a word of its own
        ("U.S.", "us", 1, 1.0),
        ("“cat”", "cat", 0, 0.0),  # only the punctuation of ASCII
        ("", "cat", 0, 0.0),
        ("the", "a", 1, 0.0),  # of two answers without a word 1.1 says that they are the same, and share none
    ],
)
def test_what_counts(answer: str, reference: str, exact: float, f1: float) -> None:
    assert exact_match(answer, reference) == exact
    assert overlap_f1(answer, reference) == pytest.approx(f1)
    assert overlap_f1(reference, answer) == pytest.approx(f1)


def test_the_best_reference_counts() -> None:
    scores = score_answers(["in 1843", None], [_question("on the sea", "1843", "in May 1843"), _question("x")])
    assert scores.exact.tolist() == [0, 0] and scores.f1.tolist() == [pytest.approx(0.8), 0]


def test_no_answer_is_right_where_there_is_none() -> None:
    questions = [_question(), _question(), _question("cat"), _question("the"), _question("dog")]
    scores = score_answers(["", "cat", "", "", "dog"], questions)
    assert scores.exact.tolist() == scores.f1.tolist() == [1, 0, 0, 1, 1]  # a reference of an article alone is none
    metrics = scores.metrics()
    assert metrics["exact"]["score"] == pytest.approx(60)
    assert metrics["impossible_f1"]["score"] == 50 and metrics["answerable_f1"]["score"] == pytest.approx(200 / 3)
    assert metrics["f1"]["signature"] == "SQuAD 2.0, words"


def test_texts_without_spaces_are_compared_by_characters(data_dir: Callable[[str], Path]) -> None:
    chinese: Questions = read(data_dir("cmrc2018") / "cmrc2018_trial.json.gz")
    assert split_for(chinese) == "characters"
    assert split_for(read(data_dir("xquad") / "xquad.en.json.gz")) == "words"
    assert overlap_f1("北京大学", "北京", split="characters") == pytest.approx(2 / 3)
    assert overlap_f1("北京大学", "北京") == 0
    assert overlap_f1("iPhone 6 手机", "iphone手机", split="characters") == pytest.approx(6 / 7)
    assert normal("北京。") == "北京。"
    scores = score_answers([question.answers[0].text for question in chinese], chinese.items)
    assert scores.metrics()["f1"]["score"] == 100 and scores.split == "characters"


def test_the_best_threshold_is_the_best_of_all() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        n = int(random.integers(1, 12))
        possible, odds = random.random(n) < 0.6, random.integers(-3, 4, n).astype(float)
        scores = np.where(possible, random.random(n).round(1), 0.0)

        def value(threshold: float) -> float:
            silent = odds > threshold  # noqa: B023
            return 100 * float(np.where(silent, ~possible, scores * possible).mean())  # noqa: B023

        best, threshold = best_threshold(scores, odds, possible)
        assert best == pytest.approx(max(value(t) for t in (*odds, -9.0)))
        assert value(threshold) == pytest.approx(best)


def test_a_difference_is_real_when_it_is_in_most_examples() -> None:
    random = np.random.default_rng(0)
    one = (random.random(400) < 0.6).astype(float)
    other, better = one[random.permutation(400)], np.maximum(one, random.random(400) < 0.1)
    assert paired_p(one, one) == paired_p(one, other) == 1
    assert paired_p(one, better) < 0.01 and paired_p(one, better) == paired_p(better, one)
    drawn = [(random.random(400) < 0.6).astype(float) for _ in range(40)]
    found = [paired_p(a, b) for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
    assert sum(p < 0.05 for p in found) <= 4 and 0.2 < np.mean(found) < 0.8  # of no difference p is anything
