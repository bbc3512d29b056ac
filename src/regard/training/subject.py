"""What training must know of what is trained: from the files of a recipe to examples, a head, a loss and scores.

What is unusual: everything that differs between a translator and a language model stands behind these two protocols;
the run, the loop and the plan never ask which of them it is.
What it does not know: how a run is carried out, and any subject (`subjects`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from regard.data import Finding
from regard.model import Model, TransformerConfig
from regard.tasks.base import Task, TrainingData
from regard.text import Tokenizer
from regard.training.recipe import Recipe


class Corpus(Protocol):
    """What was read of a recipe's files."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What the checks found."""
        ...

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file read."""
        ...

    def told(self) -> list[str]:
        """What the user should hear of it, a sentence each."""
        ...

    def where(self, index: int) -> str:
        """`file:line` of one training example."""
        ...

    def amount(self) -> tuple[float, float]:
        """About how many source and how many target tokens one pass has; no source: 0."""
        ...

    def counts(self) -> dict[str, int]:
        """Examples for training and development, by the names they have in config.json ("train_pairs")."""
        ...


class RunData(TrainingData, Protocol):
    """The examples of a run as ids."""

    @property
    def left_out(self) -> str | None:
        """A sentence on examples that are too long; None where there are none."""
        ...

    def examples(self, step: int) -> list[int]:
        """The training examples that the batch of a step is made of."""
        ...


class Subject(Protocol):
    """A kind of model, as its training sees it. A value without state."""

    head: str
    """The name of its head in `model.HEADS`."""
    unit: str
    """What its losses are counted in: tokens, examples, windows."""
    projected: float
    """The share of target tokens whose scores over the vocabulary are computed in training."""

    def read(self, recipe: Recipe) -> Any:
        """The corpus that a recipe names, read, checked and cleaned; raises DataError."""
        ...

    def tokenizer(self, recipe: Recipe, corpus: Any) -> Tokenizer:
        """A vocabulary of the training texts."""
        ...

    def data(self, recipe: Recipe, corpus: Any, tokenizer: Tokenizer) -> Any:
        """The examples as ids, a RunData."""
        ...

    def task(self, recipe: Recipe, data: Any) -> Task:
        """The loss, which may depend on the training examples (weights of classes)."""
        ...

    def scores(self, model: Model, data: Any, corpus: Any) -> tuple[dict[str, float], dict[str, str]]:
        """What is measured once at the end on the development examples, and how: signatures by score."""
        ...

    def glimpse(self, model: Model, data: Any) -> str | None:
        """What the model says now, for people who watch it learn; None: nothing that tells much."""
        ...

    def facts(self, data: Any, corpus: Any) -> dict[str, Any]:
        """What config.json says for those who use the model: languages, length ratio, labels of a head over classes."""
        ...

    def axes(self, width: int, layers: int) -> dict[str, Any]:
        """Fields of TransformerConfig for a model of a plan's ladder."""
        ...

    def unset(self, base: Recipe) -> Recipe:
        """The recipe that a plan begins with: what suits the subject where the user has said nothing."""
        ...

    def about(self, config: TransformerConfig) -> str:
        """A model's layers, in words."""
        ...
