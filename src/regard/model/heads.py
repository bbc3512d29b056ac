"""Heads turn hidden states into logits; Model = Transformer + one head.

What is unusual: a tied output projection is not a second parameter that must be kept equal. It is the embedding matrix,
handed to the head by the Model, so it has one name in memory, in checkpoints and in the optimizer.
What it does not know: losses (tasks) and what the numbers of a label mean.

Shapes: B batch, T tokens, D d_model, V vocabulary, C classes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.config import TransformerConfig
from regard.model.init import initialise
from regard.model.transformer import Transformer
from regard.model.watch import see


class LMHead(nn.Module):
    """Logits over the vocabulary: h W^T + b, with W the embedding matrix when the two are tied."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.weight = None if config.tie_embeddings else nn.Parameter(torch.empty(config.vocab_size, config.d_model))
        self.bias = nn.Parameter(torch.empty(config.vocab_size)) if config.head_bias else None
        self.scale = config.logit_scale
        initialise(self, config)

    def projection(self, embedding: Tensor) -> Tensor:
        """W (V, D): its own, or the embedding matrix it was handed."""
        return embedding if self.weight is None else self.weight

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """hidden (.., D), embedding (V, D) -> logits (.., V)."""
        return F.linear(hidden * self.scale, self.projection(embedding), self.bias)


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
        return see(self, "logits", self.head(hidden, self.transformer.tokens.weight))


def make_language_model(config: TransformerConfig) -> Model:
    """A Transformer with a head over its vocabulary: translators and language models."""
    return Model(Transformer(config), LMHead(config))


def make_classifier(config: TransformerConfig, n_classes: int) -> Model:
    """An encoder with a head over classes."""
    return Model(Transformer(config), ClassifierHead(config, n_classes))
