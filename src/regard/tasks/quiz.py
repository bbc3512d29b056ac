"""Questions on texts as a run has them: read, checked and held out; then as windows in batches.

What is unusual: an example is a window, so a long text is several; those without the answer teach where it is not. How
long an answer may be comes from the training answers, since a token is a word in one language and a character in
another.
What it does not know: how a run is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data import Finding, TokenBatches, deal
from regard.data.question_checks import check_questions, clean, split_questions
from regard.data.squad import Question, Questions, read_questions
from regard.errors import DataError
from regard.model import Model
from regard.tasks.base import CHARACTERS_A_TOKEN, InBatchOrder
from regard.tasks.extractive_qa import QUESTIONS_TOGETHER, Asked, Rules, choose, look_up
from regard.tasks.spans import WindowBatch
from regard.tasks.squad_metrics import score_answers
from regard.tasks.windows import Cutter, Passage, Window
from regard.text import Tokenizer

USUAL_LONGEST = 30
"""Tokens that an answer may have at least (Devlin et al. 2019)."""
ALL_BUT = 0.99
"""The share of training answers that are no longer than an answer may be."""


@dataclass(frozen=True)
class Quiz:
    """Questions to train on and questions to look at, with all that was found wrong with them."""

    train: Questions
    dev: Questions
    findings: list[Finding]
    held_out: bool
    """The development questions were taken from the training files."""

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file read."""
        return {**self.train.sha256, **self.dev.sha256}

    def told(self) -> list[str]:
        """What the user should hear of them."""
        said = f"{len(self.dev):,} questions on other texts are held out for development (no --dev was given)"
        return [said] if self.held_out else []

    def where(self, index: int) -> str:
        """The place of one training question."""
        return self.train.items[index].where

    def amount(self) -> tuple[float, float]:
        """About how many tokens one pass has, twice: what the encoder reads, and what the loss looks at."""
        tokens = sum(len(q.question) + len(q.context) for q in self.train) / CHARACTERS_A_TOKEN
        return tokens, tokens

    def counts(self) -> dict[str, int]:
        """Questions for training and for development."""
        return {"train_questions": len(self.train), "dev_questions": len(self.dev)}

    def texts(self) -> list[str]:
        """The training questions and their texts, each once."""
        return [*dict.fromkeys(q.context for q in self.train), *(q.question for q in self.train)]


def read_quiz(train: Sequence[str], dev: Sequence[str], *, skip_bad: int, seed: int) -> Quiz:
    """Read and check the questions of a run; without `dev` a seeded tenth is held out.

    Raises:
        DataError: a file or a record is bad, an answer to train on does not stand in its text, or nothing is left.
    """
    questions = read_questions([Path(file) for file in train], skip_bad=skip_bad)
    room = skip_bad - len(questions.skipped)
    if dev:
        held = read_questions([Path(file) for file in dev], skip_bad=skip_bad)
        kept = clean(questions, skip_bad=room)
        return Quiz(kept, held, check_questions(questions, held), held_out=False)
    kept, held = split_questions(clean(questions, skip_bad=room), seed=seed)
    return Quiz(kept, held, check_questions(questions), held_out=True)


class QuestionData(InBatchOrder):
    """Questions as windows: training batches by step, and scores on the development questions.

    Args:
        train, dev: the questions.
        length, overlap: of windows; see `Cutter`.
        tokens_per_batch, seed, multiple: see `TokenBatches`.

    Attributes:
        rules: how answers are found; what config.json says of them.

    Raises:
        DataError: no training question is left.
    """

    def __init__(
        self, tokenizer: Tokenizer, train: Questions, dev: Questions, *, length: int, overlap: int,
        tokens_per_batch: int, seed: int, multiple: int,
    ) -> None:  # fmt: skip
        self.tokenizer, self.multiple, self.length, self.questions = tokenizer, multiple, length, dev.items
        cutter = Cutter(tokenizer, length, overlap)
        self.windows, self.owners, sizes, self.torn = list[Window](), list[int](), list[int](), 0
        for number, (question, passage) in enumerate(_read(tokenizer, train.items)):
            answer = _tokens(question, passage)
            asked = Asked.of(cutter, question.question, passage, answer)
            if not question.impossible and not any(window.target != (0, 0) for window in asked.windows):
                self.torn += 1  # it would teach that the text has no answer
                continue
            sizes += [] if answer is None else [answer[1] - answer[0] + 1]
            self.windows += asked.windows
            self.owners += [number] * len(asked.windows)
        if not self.windows:
            raise DataError("no question can be trained on", where=" and ".join(train.sha256), got=self.left_out,
                            mend="raise batch.max_len, or let a model of longer texts begin: --from MODEL")  # fmt: skip
        longest = max(USUAL_LONGEST, int(np.quantile(sizes, ALL_BUT)) if sizes else 0)
        self.rules = Rules(length, overlap, longest, train.some_impossible)
        self.dev = [Asked.of(cutter, question.question, passage, _tokens(question, passage))
                    for question, passage in _read(tokenizer, dev.items)]  # fmt: skip
        self.order = TokenBatches(
            [(len(window), len(window)) for window in self.windows],
            tokens_per_batch=tokens_per_batch, seed=seed, multiple=multiple, max_len=length,
        )  # fmt: skip

    @property
    def left_out(self) -> str | None:
        """A sentence on answers that no window holds; None where there are none."""
        what = f"{self.torn:,} training questions have an answer that no window of {self.length:,} tokens holds"
        return f"{what}: they are left out" if self.torn else None

    def examples(self, step: int) -> list[int]:
        """The training questions of a step's batch."""
        return [self.owners[i] for i in super().examples(step)]

    def batch(self, step: int, rank: int = 0, world: int = 1) -> WindowBatch:
        """This rank's part of the batch of a step."""
        rows = deal(self.order.batch(step), rank, world)
        return WindowBatch.of([self.windows[i] for i in rows], self.tokenizer.pad_id, self.multiple)

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss, nats a window; dev_exact and dev_f1 in per cent; the F1 says which model is best."""
        answers, nats = list[str](), 0.0
        for start in range(0, len(self.dev), QUESTIONS_TOGETHER):
            some = self.dev[start : start + QUESTIONS_TOGETHER]
            found = look_up(model, some, self.rules, self.tokenizer.pad_id)
            nats += sum(sighting.nats for sighting in found)
            answers += [choose(*both, self.rules, 1, None).text for both in zip(some, found, strict=True)]
        scores = score_answers(answers, self.questions)
        exact, f1 = (100 * float(values.mean()) for values in (scores.exact, scores.f1))
        count = max(1, sum(len(asked.windows) for asked in self.dev))
        return {"dev_loss": nats / count, "dev_exact": exact, "dev_f1": f1, "dev_merit": f1}


def _read(tokenizer: Tokenizer, questions: Sequence[Question]) -> list[tuple[Question, Passage]]:
    """Each question with its text as tokens; questions on the same text share them."""
    passages = {text: Passage.read(tokenizer, text) for text in dict.fromkeys(q.context for q in questions)}
    return [(question, passages[question.context]) for question in questions]


def _tokens(question: Question, passage: Passage) -> tuple[int, int] | None:
    """The first and the last token of the answer to learn; None where there is none."""
    answer = question.answer
    if answer is None or answer.start is None:
        return None
    return passage.tokens(answer.start, answer.start + len(answer.text))
