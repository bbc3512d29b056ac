"""Question answering as training sees it: questions with their answers' places, windows, F1 on the development part.

What is unusual: what a text says is learned from far more text than questions come with, so a run means to begin from a
trained encoder (`--from`); from nothing it works, and learns little beyond which words look like answers.
What it does not know: how a run is carried out.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from regard.model import Model
from regard.tasks.quiz import QuestionData, Quiz, read_quiz
from regard.tasks.spans import ExtractiveQATask
from regard.text import Tokenizer
from regard.training.recipe import Recipe
from regard.training.understanding import Encoding

OVERLAP = 1 / 4
"""The share of a window's length that it has in common with the next; no answer should be longer."""


class Answering(Encoding):
    """See `training.subject.Subject`."""

    head = "span"
    unit = "windows"

    def read(self, recipe: Recipe) -> Quiz:
        """The questions that a recipe names, read, checked and cleaned; raises DataError."""
        data = recipe.data
        return read_quiz(data.train, data.dev, skip_bad=data.skip_bad, seed=recipe.seed)

    def tokenizer(self, recipe: Recipe, corpus: Quiz) -> Tokenizer:
        """A vocabulary of the training questions and texts; <s> begins an input, and </s> ends each part of it."""
        kind, size = recipe.tokenizer.kind, recipe.tokenizer.vocab_size
        return Tokenizer.train(corpus.texts(), kind=kind, vocab_size=size).framed(before="bos", after="eos")

    def data(self, recipe: Recipe, corpus: Quiz, tokenizer: Tokenizer) -> QuestionData:
        """The questions as windows of `batch.max_len` tokens, if the model reads as many."""
        length = min(recipe.batch.max_len, recipe.model.get("max_len", recipe.batch.max_len))
        return QuestionData(
            tokenizer, corpus.train, corpus.dev, length=length, overlap=int(OVERLAP * length),
            tokens_per_batch=recipe.batch.tokens, seed=recipe.seed, multiple=recipe.batch.multiple,
        )  # fmt: skip

    def task(self, recipe: Recipe, data: QuestionData) -> ExtractiveQATask:
        """Cross entropy of the answer's first and last token."""
        return ExtractiveQATask()

    def scores(self, model: Model, data: QuestionData, corpus: Quiz) -> tuple[dict[str, float], dict[str, str]]:
        """What evaluation gives says it all."""
        return {}, {}

    def glimpse(self, model: Model, data: QuestionData) -> None:
        """The scores tell enough."""

    def facts(self, data: QuestionData, corpus: Quiz) -> dict[str, Any]:
        """How answers are found."""
        return {"answering": asdict(data.rules)}
