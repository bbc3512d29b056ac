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

    def __init__(self, config: TransformerConfig, n_classes: int) -> None:
        super().__init__()
        self.out = nn.Linear(config.d_model, n_classes)
        initialise(self, config)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        """hidden (B, T, D), real (B, T) -> logits (B, C)."""
        return self.out(mean_pool(hidden, real))


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


HEADS: dict[str, Callable[[TransformerConfig], nn.Module]] = {
    "language-model": LMHead, "masked-lm": MaskedLMHead, "pooler": Pooler, "none": NoHead,
}  # fmt: skip
"""The heads that need no number of their own, by the name that config.json has for them."""


def head_name(model: Model) -> str:
    """The name of a model's head in `HEADS`."""
    return next(name for name, kind in HEADS.items() if type(model.head) is kind)


def make_model(config: TransformerConfig, head: str) -> Model:
    """A Transformer with a head of `HEADS`."""
    return Model(Transformer(config), HEADS[head](config))


def make_language_model(config: TransformerConfig) -> Model:
    """A Transformer with a head over its vocabulary: translators and language models."""
    return make_model(config, "language-model")


def make_classifier(config: TransformerConfig, n_classes: int) -> Model:
    """An encoder with a head over classes."""
    return Model(Transformer(config), ClassifierHead(config, n_classes))
