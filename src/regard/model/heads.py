"""Heads turn hidden states into logits; Model = Transformer + one head.

What is unusual: a tied output projection is not a second parameter that must be kept equal. It is the embedding matrix,
handed to the head by the Model, so it has one name in memory, in checkpoints and in the optimizer.
What it does not know: losses (tasks) and what the numbers of a label mean.

Shapes: B batch, T tokens, D d_model, V vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.config import TransformerConfig
from regard.model.init import initialise
from regard.model.layers import ACTIVATIONS, make_norm
from regard.model.transformer import Transformer
from regard.model.watch import see


class LMHead(nn.Module):
    """Logits over the vocabulary: h W^T + b, with W the embedding matrix when the two are tied."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        said = config.target_vocab_size
        self.weight = None if config.tie_embeddings else nn.Parameter(torch.empty(said, config.d_model))
        self.bias = nn.Parameter(torch.empty(said)) if config.head_bias else None
        self.scale = config.logit_scale
        initialise(self, config)

    def projection(self, embedding: Tensor) -> Tensor:
        """W (V, D): its own, or the embedding matrix it was handed."""
        return embedding if self.weight is None else self.weight

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """hidden (.., D), embedding (V, D) -> logits (.., V)."""
        return F.linear(hidden * self.scale, self.projection(embedding), self.bias)


class MaskedLMHead(LMHead):
    """The same after one more layer, norm(sigma(W h + b)): what BERT guesses hidden words with."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.dense, self.norm = nn.Linear(config.d_model, config.d_model), make_norm(config)
        self.activation = ACTIVATIONS[config.activation]
        initialise(self, config)

    def transform(self, hidden: Tensor) -> Tensor:
        """hidden (.., D) -> what is projected, (.., D)."""
        return self.norm(self.activation(self.dense(hidden)))

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """hidden (.., D), embedding (V, D) -> logits (.., V)."""
        return super().forward(self.transform(hidden), embedding)


class Pooler(nn.Module):
    """tanh(W h_0 + b) of the first token, BERT's summary of a text."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        initialise(self, config)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (B, T, D) -> (B, D)."""
        return torch.tanh(self.dense(hidden[:, 0]))


class NoHead(nn.Module):
    """The hidden states are the result."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()


class ClassifierHead(nn.Module):
    """Logits over classes from the mean of the real tokens' hidden states."""

    def __init__(self, config: TransformerConfig, n_labels: int) -> None:
        super().__init__()
        self.dropout, self.out = nn.Dropout(config.dropout), nn.Linear(config.d_model, n_labels)
        initialise(self, config)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        """hidden (B, T, D), real (B, T) -> logits (B, C)."""
        return self.out(self.dropout(mean_pool(hidden, real)))


class ClsClassifierHead(nn.Module):
    """Logits over classes from the first token, by way of a `Pooler`: what BERT classifies texts with."""

    def __init__(self, config: TransformerConfig, n_labels: int) -> None:
        super().__init__()
        self.pooler, self.dropout = Pooler(config), nn.Dropout(config.dropout)
        self.out = nn.Linear(config.d_model, n_labels)
        initialise(self, config)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        """hidden (B, T, D) -> logits (B, C); `real` is not looked at, since every text has a first token."""
        return self.out(self.dropout(self.pooler(hidden)))


class ReluClassifierHead(ClsClassifierHead):
    """The same with relu in place of the pooler's tanh: what DistilBERT classifies texts with."""

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        """hidden (B, T, D) -> logits (B, C)."""
        return self.out(self.dropout(F.relu(self.pooler.dense(hidden[:, 0]))))


class TaggerHead(nn.Module):
    """Logits over classes for each token."""

    def __init__(self, config: TransformerConfig, n_labels: int) -> None:
        super().__init__()
        self.dropout, self.out = nn.Dropout(config.dropout), nn.Linear(config.d_model, n_labels)
        initialise(self, config)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (.., D) -> logits (.., C)."""
        return self.out(self.dropout(hidden))


class SpanHead(nn.Module):
    """For each token, how well an answer begins there, and how well it ends there."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.out = nn.Linear(config.d_model, 2)
        initialise(self, config)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (B, T, D) -> logits of beginnings and of ends, (B, T, 2)."""
        return self.out(hidden)


def mean_pool(hidden: Tensor, real: Tensor) -> Tensor:
    """The mean of the real tokens' hidden states, (B, T, D) -> (B, D); zero for a row without any."""
    weight = real.to(hidden.dtype)[..., None]
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


class Model(nn.Module):
    """A Transformer and one head: what is trained, saved, loaded and served."""

    def __init__(self, transformer: Transformer, head: nn.Module) -> None:
        super().__init__()
        self.transformer, self.head = transformer, head

    @property
    def config(self) -> TransformerConfig:
        """The Transformer's configuration."""
        return self.transformer.config

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return self.transformer.tokens.weight.device

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary, hidden (.., D) -> (.., V); for a language-model head."""
        return see(self, "logits", self.head(hidden, self.transformer.output_embedding))


HEADS: dict[str, Callable[[TransformerConfig, int], nn.Module]] = {
    "language-model": lambda config, _: LMHead(config),
    "masked-lm": lambda config, _: MaskedLMHead(config),
    "pooler": lambda config, _: Pooler(config),
    "none": lambda config, _: NoHead(config),
    "classifier": ClassifierHead,
    "cls-classifier": ClsClassifierHead,
    "relu-classifier": ReluClassifierHead,
    "tagger": TaggerHead,
    "span": lambda config, _: SpanHead(config),
}
"""(configuration, number of labels) -> a head, by the name that config.json has for it."""
KINDS: dict[type[nn.Module], str] = {
    LMHead: "language-model", MaskedLMHead: "masked-lm", Pooler: "pooler", NoHead: "none",
    ClassifierHead: "classifier", ClsClassifierHead: "cls-classifier", ReluClassifierHead: "relu-classifier",
    TaggerHead: "tagger", SpanHead: "span",
}  # fmt: skip
"""The same names by the heads' types."""
CLASSIFIERS = ("classifier", "cls-classifier", "relu-classifier")
"""The heads over classes of a text."""
LABELLED = (*CLASSIFIERS, "tagger")
"""The heads over classes."""


def head_name(model: Model) -> str:
    """The name of a model's head in `HEADS`."""
    return next(
        KINDS[kind] for kind in type(model.head).__mro__ if kind in KINDS
    )  # a runtime's heads are kinds of ours


def make_model(config: TransformerConfig, head: str, n_labels: int = 1) -> Model:
    """A Transformer with a head of `HEADS`; heads over classes are given the number of labels."""
    return Model(Transformer(config), HEADS[head](config, n_labels))


def make_language_model(config: TransformerConfig) -> Model:
    """A Transformer with a head over its vocabulary: translators and language models."""
    return make_model(config, "language-model")


def make_classifier(config: TransformerConfig, n_labels: int) -> Model:
    """An encoder with a head over classes."""
    return make_model(config, "classifier", n_labels)
