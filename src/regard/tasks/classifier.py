"""A classifier in use: texts in, labels with their probabilities out.

What is unusual: probabilities are the model's own (softmax, or a sigmoid for each class); `regard evaluate` measures
how far they can be believed. What the model cannot read of a text is cut and counted.
What it does not know: files, and why the model says so (`inspect.attribution`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import ConfigError
from regard.model import Model
from regard.tasks.classification import Labels, classify, probabilities
from regard.tasks.reading import read_texts
from regard.text import Tokenizer

Texts = Sequence[str | tuple[str, ...]]
"""Single texts, or pairs, as the model was trained on."""


@dataclass(frozen=True)
class Label:
    """What a model says of a text.

    Attributes:
        label: one class; the classes above one half, of a model of several; a number, of a regression.
        probability: of that label (of several classes: that these hold and no others); None of a number.
        likeliest: the k likeliest classes and the probability of each, best first; none of a number.
        left_out: how many tokens of the text were too many to be read.
    """

    label: str | tuple[str, ...] | float
    probability: float | None
    likeliest: tuple[tuple[str, float], ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class Classifier:
    """A model with a head over classes, its vocabulary, and what config.json says of its labels."""

    model: Model
    tokenizer: Tokenizer
    about: Mapping[str, Any]

    @property
    def labels(self) -> Labels:
        """The label set."""
        return Labels.read(self.about)

    @property
    def parts(self) -> int | None:
        """How many texts an example is: 1, or 2; None for a model of another tool's, which may read either."""
        parts: int | None = self.about.get("texts")
        return parts

    def rows(self, texts: Texts) -> list[tuple[str, ...]]:
        """The texts as tuples. Raises ConfigError where single texts are given for pairs, or pairs for texts."""
        rows = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
        kinds = {1: "one text", 2: "a pair of texts"}
        parts = self.parts or (len(rows[0]) if rows and len(rows[0]) in kinds else 1)
        for number, row in enumerate(rows, 1):
            if len(row) != parts or not all(isinstance(text, str) for text in row):
                raise ConfigError("this is not what the model was trained on", where=f"text {number}",
                                  expected=kinds[parts], got=kinds.get(len(row), f"{len(row)} texts"))  # fmt: skip
        return rows

    def logits(self, texts: Texts) -> tuple[np.ndarray, list[int]]:
        """(N, C) float32 before softmax or sigmoid, and how many tokens of each text were cut off."""
        reads, cut = read_texts(self.tokenizer, self.rows(texts), self.model.config.max_len)
        return classify(self.model, reads), cut

    def classify(self, texts: Texts, *, top_k: int = 1) -> list[Label]:
        """The label of each text, in their order; the same whatever is classified together (to rounding).

        Args:
            top_k: how many classes to give the probability of.

        Raises:
            ConfigError: `top_k` is below 1, or the texts are not what the model was trained on.
        """
        if top_k < 1:
            raise ConfigError("the number is too small", where="top_k", expected="1 or more", got=top_k)
        labels, (logits, cut) = self.labels, self.logits(texts)
        return [label_of(labels, row, top_k, left) for row, left in zip(logits, cut, strict=True)]


def label_of(labels: Labels, logits: np.ndarray, top_k: int, left_out: int) -> Label:
    """What (C,) logits say of one text, of which so many tokens were left out."""
    if labels.kind == "number":
        return Label(float(labels.decided(logits[None])[0]), None, left_out=left_out)
    shares = probabilities(labels.kind, logits[None])[0]
    best = np.argsort(-shares, kind="stable")[:top_k]
    likeliest = tuple((labels.names[i], float(shares[i])) for i in best)
    if labels.kind == "one":
        return Label(likeliest[0][0], likeliest[0][1], likeliest, left_out)
    said = logits > 0
    names = tuple(name for name, is_said in zip(labels.names, said, strict=True) if is_said)
    return Label(names, float(np.where(said, shares, 1 - shares).prod()), likeliest, left_out)
