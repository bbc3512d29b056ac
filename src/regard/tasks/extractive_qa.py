"""Answers to questions as pieces of texts of any length: the windows of a text put together, and no answer.

What is unusual: each window has probabilities of its own, where "not here" takes part, so those of a window without the
answer are small and the likeliest span of all windows can be taken. A text has no answer as far as every one of its
windows says so. An answer is a piece of the original text, letter for letter (law 37).
What it does not know: files; how a window is scored (`spans`), and how answers are judged (`squad_metrics`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import CheckpointError, ConfigError
from regard.model import Model
from regard.tasks.base import evaluating
from regard.tasks.spans import best_spans, read_windows
from regard.tasks.windows import Cutter, Passage, Window
from regard.text import Tokenizer

QUESTIONS_TOGETHER = 256
"""Windows of like length find one another among so many questions."""
CANDIDATES = 20
"""Spans of one question that share its probability (Devlin et al. 2019 keep as many)."""


@dataclass(frozen=True)
class Rules:
    """How a model's answers are found; the facts of its training, in config.json under "answering".

    Attributes:
        length, overlap: of windows, in tokens; see `Cutter`.
        longest: the most tokens of an answer.
        null: it learned from questions that their text does not answer, and so can say that a text does not.
    """

    length: int
    overlap: int
    longest: int
    null: bool

    @property
    def threshold(self) -> float:
        """On `Answer.null_odds`: above it there is no answer."""
        return 0.0 if self.null else math.inf

    @classmethod
    def read(cls, about: Mapping[str, Any], max_len: int) -> Rules:
        """Those of a model with these facts; raises CheckpointError where they cannot be."""
        said = about.get("answering")
        try:
            rules = cls(**said)  # type: ignore[arg-type]
        except TypeError:
            rules = cls(0, 0, 0, False)
        whole = all(type(number) is int for number in (rules.length, rules.overlap, rules.longest))
        if not whole or not (0 < rules.length <= max_len and rules.overlap >= 0 and rules.longest > 0):
            raise CheckpointError("what the model says of how it answers cannot be", where="config.json: answering",
                                  expected=f"a length of at most {max_len:,} tokens, overlap, longest and null",
                                  got=repr(said)[:80])  # fmt: skip
        return rules


@dataclass(frozen=True)
class Answer:
    """What a text says to a question.

    Attributes:
        text: a piece of the context, letter for letter; "" where the context does not answer the question.
        start, end: its characters [start, end) of the context; None where there is no answer.
        score: its probability among the likeliest spans and, for a model that knows of it, no answer.
        null_odds: log p(no answer) - log p(the likeliest span): what a threshold is held against.
        alternatives: further answers, likeliest first.
        left_out: how many tokens of the question did not fit.
    """

    text: str
    start: int | None
    end: int | None
    score: float
    null_odds: float
    alternatives: tuple[Answer, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class Asked:
    """A question as windows of its text; a text without a word has none."""

    passage: Passage
    windows: list[Window]
    left_out: int

    @classmethod
    def of(cls, cutter: Cutter, question: str, passage: Passage, answer: tuple[int, int] | None = None) -> Asked:
        """Cut a text; arguments as `Cutter.windows`, whose errors it raises."""
        windows, left_out = cutter.windows(question, passage, answer)
        return cls(passage, windows if len(passage) and passage.text.strip() else [], left_out)


class Answerer:
    """A model that answers questions with pieces of texts. It holds no state between calls.

    Args:
        about: the facts of config.json.

    Raises:
        CheckpointError: they do not say how the model answers.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any]) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.rules = Rules.read(about, model.config.max_len)
        self.cutter = Cutter(tokenizer, self.rules.length, self.rules.overlap)

    def answer(self, question: str, context: str, *, top_k: int = 1, null_threshold: float | None = None) -> Answer:
        """What a text of any length says to a question.

        Args:
            top_k: how many answers; all but the first in `alternatives`.
            null_threshold: say that there is no answer where `null_odds` is above it. None: 0 for a model that learned
                from such questions; any other model then always answers, but for a text without a word.

        Raises:
            ConfigError: top_k is less than 1.
        """
        return self.answer_all([question], [context], top_k=top_k, null_threshold=null_threshold)[0]

    def answer_all(
        self, questions: Sequence[str], contexts: Sequence[str], *, top_k: int = 1, null_threshold: float | None = None
    ) -> list[Answer]:
        """`answer` for many; what is asked together changes nothing but rounding.

        Raises:
            ConfigError: as `answer`, or there are not as many texts as questions.
        """
        return [answer for some in self.in_parts(questions, contexts, top_k=top_k, null_threshold=null_threshold)
                for answer in some]  # fmt: skip

    def in_parts(
        self, questions: Sequence[str], contexts: Sequence[str], *, top_k: int = 1, null_threshold: float | None = None
    ) -> Iterator[list[Answer]]:
        """`answer_all` some hundred questions at a time, each as soon as its answers are there."""
        if len(questions) != len(contexts):
            raise ConfigError("each question needs its text", expected=f"{len(questions):,} contexts",
                              got=f"{len(contexts):,}")  # fmt: skip
        if top_k < 1:
            raise ConfigError("the number is too small", where="top_k", expected="1 or more", got=top_k)
        for start in range(0, len(questions), QUESTIONS_TOGETHER):
            some = slice(start, start + QUESTIONS_TOGETHER)
            passages = {text: Passage.read(self.tokenizer, text) for text in dict.fromkeys(contexts[some])}
            pairs = zip(questions[some], contexts[some], strict=True)
            asked = [Asked.of(self.cutter, question, passages[text]) for question, text in pairs]
            found = look_up(self.model, asked, self.rules, self.tokenizer.pad_id)
            yield [choose(one, sighting, self.rules, top_k, null_threshold)
                   for one, sighting in zip(asked, found, strict=True)]  # fmt: skip


@dataclass
class Sighting:
    """What the windows of one text said.

    Attributes:
        spans: text -> log p and the characters [start, stop) where it is likeliest.
        null: log p of "not here" in the window that says it least.
        nats: the sum of the windows' losses against their targets.
    """

    spans: dict[str, tuple[float, int, int]]
    null: float = math.inf
    nats: float = 0.0


def look_up(model: Model, asked: Sequence[Asked], rules: Rules, pad_id: int) -> list[Sighting]:
    """Read all windows of some questions. The model is left in the mode it was in."""
    owners = [(owner, window) for owner, one in enumerate(asked) for window in one.windows]
    found = [Sighting({}) for _ in asked]
    with evaluating(model):
        for rows, log_p in read_windows(model, [window for _, window in owners], pad_id):
            _note(found, [owners[i] for i in rows], log_p, rules.longest)
    return found


def _note(found: list[Sighting], owners: Sequence[tuple[int, Window]], log_p: Tensor, longest: int) -> None:
    """Add what some windows, each of the text with that number, said: log_p (B, T, 2)."""
    targets = torch.tensor([window.target for _, window in owners])[:, None]  # (B, 1, 2)
    losses, nulls = -log_p.gather(1, targets).double().sum((1, 2)) / 2, log_p[:, 0].sum(-1)  # (B,)
    values, first, last = (best.tolist() for best in best_spans(log_p, longest, CANDIDATES))
    for row, (owner, window) in enumerate(owners):
        sighting, shift = found[owner], window.first - window.before
        sighting.nats += float(losses[row])
        sighting.null = min(sighting.null, float(nulls[row]))
        for value, begin, end in zip(values[row], first[row], last[row], strict=True):
            if value > -math.inf:
                _add(sighting.spans, window.passage, begin + shift, end + shift, value)


def _add(spans: dict[str, tuple[float, int, int]], passage: Passage, first: int, last: int, value: float) -> None:
    start, stop = passage.cut(first, last)
    text = passage.text[start:stop]
    if text and value > spans.get(text, (-math.inf,))[0]:  # of two places of one text, and of two windows, the likelier
        spans[text] = value, start, stop


def choose(one: Asked, sighting: Sighting, rules: Rules, top_k: int, null_threshold: float | None) -> Answer:
    """The answer, of what the windows said; arguments as `Answerer.answer`."""
    best = sorted(sighting.spans.items(), key=lambda item: -item[1][0])[:CANDIDATES]
    if not best:  # not a word was read
        return Answer("", None, None, 1.0, math.inf, left_out=one.left_out)
    values = [value for _, (value, _, _) in best]
    total = torch.tensor([*values, sighting.null] if rules.null else values).logsumexp(0).item()
    odds = sighting.null - values[0]
    found = [
        Answer(text, start, stop, math.exp(value - total), odds, left_out=one.left_out)
        for text, (value, start, stop) in best
    ]
    if odds > (rules.threshold if null_threshold is None else null_threshold):
        probability = math.exp(sighting.null - total) if rules.null else 0.0
        found.insert(0, Answer("", None, None, probability, odds, left_out=one.left_out))
    first, *others = found[:top_k]
    return first if not others else Answer(**{**vars(first), "alternatives": tuple(others)})
