"""Looking at questions before training: what is odd, how often, and where; what is left out, and what is held out.

What it is: for questions what `data.checks` is for pairs.
What is unusual: what is held out never shares a context with the rest, since a text that was trained on is half the
answer.
What it does not know: how findings are shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.checks import CONTROL, EXAMPLES, Finding, Severity
from regard.data.files import shorten
from regard.data.squad import Question, Questions
from regard.data.tables import Skipped
from regard.errors import DataError

FEW_QUESTIONS = 1_000


def check_questions(train: Questions, dev: Questions | None = None) -> list[Finding]:
    """Every check on the training questions, and on the contexts they share with `dev`."""
    contexts = {question.context for question in train}
    size = f"{len(train):,} questions on {len(contexts):,} texts"
    few = len(train) < FEW_QUESTIONS
    findings = [Finding("questions", len(train), "warn" if few else "ok", size + (
        f": under {FEW_QUESTIONS:,} is very little to learn from" if few else ""
    ))]  # fmt: skip
    first: dict[tuple[str, str], str] = {}
    skipped = tuple(str(error.where) for error in train.skipped)
    findings += [
        _found("skipped", skipped, "warn", f"{len(skipped):,} bad records were left out"),
        _met("empty", train, [q for q in train if _is_empty(q)], "warn", "have no question or no context, and are left "
             "out"),
        _met("moved", train, [q for q in train if q.moved], "note", "have an answer that does not stand where the file "
             "says; it was taken from where it stands"),
        _met("nowhere", train, [q for q in train if any(a.start is None for a in q.answers)], "warn", "have an answer "
             "that their context does not hold"),
        _met("duplicate", train, [q for q in train if first.setdefault((q.question, q.context), q.where) != q.where],
             "note", "repeat an earlier question on the same text"),
        _met("impossible", train, [q for q in train if q.impossible], "ok", "have no answer in their text"),
        _met("control", train, [q for q in train if CONTROL.search(q.context.translate(WHITE) + q.question)], "note",
             "hold control characters, U+FFFD or lone surrogates"),
    ]  # fmt: skip
    if dev is not None:
        shared = [question for question in dev if question.context in contexts]
        findings.append(_met("overlap", dev, shared, "warn", "held out are on a text that is trained on too"))
    return findings


WHITE = {ord(char): " " for char in "\n\r\t"}
"""What a text of several lines may hold."""


def _is_empty(question: Question) -> bool:
    return not (question.question.strip() and question.context.strip())


def _met(name: str, questions: Questions, hits: Sequence[Question], severity: Severity, predicate: str) -> Finding:
    share = f" ({len(hits) / len(questions):.1%})" if hits else ""
    return _found(name, [question.where for question in hits], severity,
                  f"{len(hits):,} of {len(questions):,} questions{share} {predicate}")  # fmt: skip


def _found(name: str, places: Sequence[str], severity: Severity, sentence: str) -> Finding:
    return Finding(name, len(places), severity if places else "ok", sentence, tuple(places[:EXAMPLES]))


def clean(questions: Questions, *, skip_bad: int = 0) -> Questions:
    """The questions that can be trained on: those with a text, whose answer stands in it or which have none.

    Args:
        skip_bad: how many with answers that stand nowhere may be left out.

    Raises:
        DataError: there are more, or nothing is left.
    """
    skipped = Skipped(skip_bad)
    for question in questions:
        if not _is_empty(question) and question.answers and question.answer is None:
            skipped.add(DataError("the answer does not stand in the context", where=question.where,
                                  got=shorten(question.answers[0].text), mend="correct it",
                                  expected="a piece of the context, letter for letter"))  # fmt: skip
    kept = questions.take(lambda q: not _is_empty(q) and (q.impossible or q.answer is not None))
    if not len(kept):
        got = f"{len(questions):,} questions without a text"
        raise DataError("no question can be trained on", where=" and ".join(questions.sha256), got=got,
                        expected="answers that stand in their contexts letter for letter",
                        mend="regard doctor FILE says what is wrong with which")  # fmt: skip
    return kept


def split_questions(
    questions: Questions, *, seed: int, fraction: float = 0.1, at_most: int = 2_000
) -> tuple[Questions, Questions]:
    """(train, dev): `fraction` of the questions held out, but at most `at_most`, with all others on the same texts.

    Raises:
        DataError: all are on one text.
    """
    counts: dict[str, int] = {}
    for question in questions:
        counts[question.context] = counts.get(question.context, 0) + 1
    wanted = min(at_most, max(1, round(fraction * len(questions))))
    contexts, held, room = list(counts), set[str](), min(wanted, len(questions) - 1)
    for place in np.random.default_rng(seed).permutation(len(contexts)):
        if counts[contexts[place]] <= room:
            held.add(contexts[place])
            room -= counts[contexts[place]]
    if not held and len(contexts) > 1:  # each text has more questions than were wanted: the one with the fewest
        held.add(min(contexts, key=lambda context: counts[context]))
    if not held:
        raise DataError("no part can be held out: all questions are on one text", got=f"{len(questions):,} questions",
                        where=" and ".join(questions.sha256), mend="give a development set with --dev")  # fmt: skip
    return questions.take(lambda q: q.context not in held), questions.take(lambda q: q.context in held)
