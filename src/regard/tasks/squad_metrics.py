"""Exact match and F1 of answers to questions, as SQuAD's own scripts count them (Rajpurkar et al. 2016, 2018).

An answer is compared in lower case, without ASCII punctuation, without the words a, an and the, and by its words; of
several references the best counts. F1 is the harmonic mean of the shares of words that the two have in common.
In a set with questions that their text does not answer (2.0), an empty answer to them is right, whatever else is wrong;
elsewhere (1.1) two empty answers have no word in common, and so an F1 of 0.

What is unusual: where texts are written without spaces, "words" would be whole sentences; there each character counts
for itself (`Split`), and the score says so in its signature.
What it does not know: models, files.

Scores are in per cent. N is the number of questions.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.data.squad import Question
from regard.tasks.scores import RESAMPLES, interval

Split = Literal["words", "characters"]
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Han with its extensions, kana, Thai, Lao, Khmer, Burmese: written without spaces between words.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_SPLITS: dict[Split, Callable[[str], list[str]]] = {
    "words": str.split,
    "characters": re.compile(rf"[{_UNSPACED}]|[^{_UNSPACED}\s]+").findall,
}


def normal(text: str) -> str:
    """An answer without what does not count: case, ASCII punctuation, articles, and the width of spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def split_for(questions: Iterable[Question]) -> Split:
    """What answers to such questions are cut into: characters, where most letters of the references are unspaced."""
    text = "".join(reference.text for question in questions for reference in question.answers)
    unspaced = sum(1 for _ in re.finditer(f"[{_UNSPACED}]", text))
    return "characters" if 2 * unspaced > sum(map(str.isalpha, text)) else "words"


def exact_match(answer: str, reference: str) -> float:
    """1 where the two are the same but for what does not count, else 0."""
    return float(normal(answer) == normal(reference))


def overlap_f1(answer: str, reference: str, *, split: Split = "words", empty: float = 0.0) -> float:
    """Harmonic mean of precision and recall of the answer's parts, 0 to 1.

    Args:
        empty: what two answers without any part have.
    """
    one, two = (_SPLITS[split](normal(text)) for text in (answer, reference))
    if not one or not two:
        return empty if one == two else 0.0
    same = (Counter(one) & Counter(two)).total()
    return 2 * same / (len(one) + len(two))


@dataclass(frozen=True)
class Scores:
    """How good N answers are, each for itself.

    Attributes:
        exact, f1: (N,) 0 to 1.
        possible: (N,) bool, whether the text answers the question.
        split: what was compared.
    """

    exact: np.ndarray
    f1: np.ndarray
    possible: np.ndarray
    split: Split

    def metrics(self) -> dict[str, dict[str, Any]]:
        """name -> {"score", "low", "high", "signature"}: exact and f1, and of both kinds of questions, where there are.

        low and high hold 95 % of the scores of as many questions drawn with replacement (a percentile bootstrap).
        """
        version = "1.1" if self.possible.all() else "2.0"
        parts = {"": np.ones_like(self.possible)}
        if not self.possible.all():
            parts |= {"answerable_": self.possible, "impossible_": ~self.possible}
        return {
            prefix + name: {**_estimate(values[rows]), "signature": f"SQuAD {version}, {self.split}"}
            for prefix, rows in parts.items() if rows.any()
            for name, values in (("exact", self.exact), ("f1", self.f1))
        }  # fmt: skip


def _estimate(values: np.ndarray) -> dict[str, float]:
    """The mean of N numbers in per cent, with its interval."""
    low, high = interval(lambda rows: float(values[rows].mean()), len(values))
    return {"score": 100 * float(values.mean()), "low": 100 * low, "high": 100 * high}


def score_answers(answers: Sequence[str | None], questions: Sequence[Question]) -> Scores:
    """The scores of an answer to each question: "" says that the text does not answer it, None that none was given."""
    impossible, split = any(question.impossible for question in questions), split_for(questions)
    exact, f1 = np.zeros(len(questions)), np.zeros(len(questions))
    for i, (answer, question) in enumerate(zip(answers, questions, strict=True)):
        if answer is None:
            continue
        texts = {reference.text for reference in question.answers}
        if impossible:  # as 2.0 does: an answer of punctuation alone is none
            texts = {text for text in texts if normal(text)} or {""}
        exact[i] = max(exact_match(answer, text) for text in texts)
        f1[i] = max(overlap_f1(answer, text, split=split, empty=float(impossible)) for text in texts)
    return Scores(exact, f1, np.array([not question.impossible for question in questions], dtype=bool), split)


def best_threshold(scores: np.ndarray, odds: np.ndarray, possible: np.ndarray) -> tuple[float, float]:
    """(the best mean score in per cent, the threshold on `odds` above which no answer should be given for it).

    Args:
        scores: (N,) of the answers, had one been given to each question.
        odds: (N,) how much more likely the model finds it that there is no answer.
        possible: (N,) bool, whether there is one.
    """
    if not len(scores):
        return 0.0, 0.0
    order = np.argsort(odds, kind="stable")
    # Answering one more question wins its score where it has an answer, and loses a right silence where it has none.
    change = np.where(possible, scores, -1.0)[order]
    totals = (~possible).sum() + np.concatenate([[0.0], np.cumsum(change)])
    # Questions of equal odds are answered all or none.
    cuts = np.flatnonzero(np.concatenate([[True], np.diff(odds[order]) > 0, [True]]))
    best = cuts[np.argmax(totals[cuts])]
    threshold = odds[order[best - 1]] if best else odds[order[0]] - 1.0
    return 100 * float(totals[best]) / len(scores), float(threshold)


def paired_p(one: np.ndarray, two: np.ndarray, *, seed: int = 0) -> float:
    """How often a difference of means as large would come of the draw of the examples alone (Koehn 2004).

    Args:
        one, two: (N,) scores of the same examples; drawn anew together, with replacement.
    """
    apart, rng = two - one, np.random.default_rng(seed)
    observed = float(apart.mean())
    if observed == 0:
        return 1.0
    drawn = np.array([apart[rng.integers(len(apart), size=len(apart))].mean() for _ in range(RESAMPLES)])
    return float(((np.abs(drawn - observed) >= abs(observed)).sum() + 1) / (RESAMPLES + 1))
