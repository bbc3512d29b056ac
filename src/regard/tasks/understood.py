"""What a loaded model with an encoder does: classify, tag, answer, embed. `regard.loaded.Loaded` derives from it.

What is unusual: each is a short way to a class that does the work without knowing of model folders, and so can be used
on its own (`Classifier`, `Tagger`, `Answerer`). A text that the model cannot read whole is cut, with a warning.
What it does not know: how a model is opened.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.model import Model
from regard.tasks.classifier import Classifier, Label, Texts
from regard.tasks.embedding import Pooling, embed_texts
from regard.tasks.extractive_qa import Answer, Answerer
from regard.tasks.tagging import TaggedSpan, Tagger
from regard.text import Tokenizer


class Understanding:
    """The part of `Loaded` that reads."""

    path: Path
    model: Model
    tokenizer: Tokenizer
    about: Mapping[str, Any]

    @property
    def fast(self) -> Model:
        """The model as texts are read with it."""
        raise NotImplementedError

    @property
    def longest_source(self) -> int:
        """How many tokens of a text the model reads, beside those that stand around them."""
        raise NotImplementedError

    def _able(self, what: str) -> None:
        """Raise ConfigError unless a model of this task can do that."""
        raise NotImplementedError

    @cached_property
    def classifier(self) -> Classifier:
        """The model as a classifier; raises ConfigError where it is none."""
        self._able("classify")
        return Classifier(self.fast, self.tokenizer, self.about)

    def classify(self, texts: Texts, *, top_k: int = 1) -> list[Label]:
        """The label of each text, or pair of texts, with its probability, in their order.

        A text longer than the model is cut, with a warning. An empty text has a label too. The results do not depend
        on what is classified together (to rounding).

        Args:
            texts: a list of strings, or of pairs of strings for a model that was trained on pairs.
            top_k: how many classes to give in `Label.likeliest`.

        Raises:
            TypeError: `texts` is one string.
            ConfigError: `top_k` is below 1, texts are given for pairs or pairs for texts, or it is no classifier.
        """
        found = self.classifier.classify(not_one(texts), top_k=top_k)
        self._warn([label.left_out for label in found])
        return found

    def tag(self, texts: Sequence[str]) -> list[list[TaggedSpan]]:
        """The spans of each text with their labels and characters, in their order.

        A text longer than the model is read in pieces. The results do not depend on what is tagged together (to
        rounding).

        Raises:
            TypeError: `texts` is one string.
            ConfigError: the model is no tagger.
        """
        self._able("tag")
        return Tagger(self.fast, self.tokenizer, self.about).tag(not_one(texts))

    def answer(
        self, question: str, context: str, *, top_k: int = 1, null_threshold: float | None = None
    ) -> Answer:  # fmt: skip
        """The piece of a text, of any length, that answers a question; or that there is none.

        Args:
            top_k: how many answers; all but the first in `alternatives`.
            null_threshold: say that there is no answer where `Answer.null_odds` is above it; None: the model's own.

        Raises:
            TypeError: a list in place of a string.
            ConfigError: top_k is less than 1, or the model answers no questions.
        """
        self._able("answer")
        if not isinstance(question, str) or not isinstance(context, str):
            raise TypeError("one question and one text are needed, both strings: answer(question, context)")
        answerer = Answerer(self.fast, self.tokenizer, self.about)
        return answerer.answer(question, context, top_k=top_k, null_threshold=null_threshold)

    def embed(self, texts: Sequence[str], *, pooling: Pooling = "mean", normalize: bool = True) -> np.ndarray:
        """A vector for each text, (N, D) float32.

        A text longer than the model is cut, with a warning. An empty text has a vector too: that of an empty text.

        Args:
            texts: a list; the vectors do not depend on what is embedded together (to rounding).
            pooling: "mean", of all tokens; or "cls", the first token's.
            normalize: give each vector length 1, so that a product of two is their cosine.

        Raises:
            TypeError: `texts` is one string.
            ConfigError: an unknown pooling, or the model is no encoder.
        """
        self._able("embed")
        vectors, left_out = embed_texts(
            self.fast, self.tokenizer, not_one(texts), pooling=pooling, normalize=normalize
        )  # fmt: skip
        self._warn(left_out)
        return vectors

    def _warn(self, left_out: Sequence[int]) -> None:
        """Say how many texts were cut, if any were."""
        if cut := [count for count in left_out if count]:
            reads = f"the {self.longest_source:,} tokens that the model reads"
            what = f"{len(cut):,} of {len(left_out):,} texts are longer than {reads}"
            warnings.warn(f"{what}; up to {max(cut):,} tokens of a text were left out", stacklevel=3)


def not_one(texts: Any) -> Any:
    """The same; raises TypeError for one string, whose letters would be taken for texts."""
    if isinstance(texts, str):
        raise TypeError("a list of texts is needed, not one string: [text]")
    return texts
