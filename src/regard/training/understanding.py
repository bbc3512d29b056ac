"""Classifiers and taggers as training sees them: labels, a vocabulary of the texts, the task's own score.

What is unusual: two beginnings. From nothing it is a small pre-norm encoder with rotary positions, dropout, and words
cut otherwise in each epoch, since a few thousand sentences are soon known by heart. From a trained encoder (`--from`)
it is a few passes of AdamW at rates a hundred times lower, lower still in the layers below (Howard and Ruder 2018).
What it does not know: how a run is carried out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np

from regard.data.conll import OUTSIDE
from regard.errors import ConfigError
from regard.model import Model, TransformerConfig
from regard.tasks.classification import ClassificationData, ClassificationTask, Labels, balanced
from regard.tasks.examples import Examples, read_examples
from regard.tasks.reading import Read, read_texts
from regard.tasks.tagged import Sentences, read_sentences
from regard.tasks.tagging import TaggingData, TaggingTask
from regard.text import Tokenizer
from regard.text.dropout import BpeDropout
from regard.training.recipe import Recipe

PASSES = 4.0
"""Over the training examples when a trained encoder is trained on: Devlin et al. 2019 make 2 to 4."""


class Encoding:
    """What all that begins with an encoder has in common."""

    projected = 0.0

    def axes(self, width: int, layers: int) -> dict[str, Any]:
        """A shallow encoder: what few labels teach, two layers hold."""
        return {
            "d_model": width, "n_heads": max(2, width // 32) if width < 512 else width // 64, "d_ff": 2 * width,
            "n_encoder_layers": min(2, layers), "norm_order": "pre", "positions": "rope", "n_token_types": 2,
            "max_len": 512,
        }  # fmt: skip

    def about(self, config: TransformerConfig) -> str:
        """The encoder's layers."""
        return f"{config.n_encoder_layers} layer{'s' * (config.n_encoder_layers != 1)}"

    def unset(self, base: Recipe) -> Recipe:
        """See the module's docstring; a head on a frozen encoder learns at full rates, adapters at a third."""
        if base.init_from is None:
            dropout = 0.1 if base.tokenizer.kind in ("bpe", "bytes") else 0.0
            return replace(base, tokenizer=replace(base.tokenizer, dropout=dropout))
        if base.freeze == "encoder":
            optim = replace(base.optim, kind="adamw", lr=3e-3, weight_decay=0.01)
        elif base.lora.rank:
            optim = replace(base.optim, kind="adamw", lr=1e-3, weight_decay=0.01)
        else:
            optim = replace(base.optim, kind="adamw", lr=1e-4, weight_decay=0.01, layer_decay=0.9)
        return replace(
            base, model={**base.model, "dropout": 0.1}, optim=optim, label_smoothing=0.0,
            schedule=replace(base.schedule, decay=0.9), loop=replace(base.loop, epochs=PASSES),
        )  # fmt: skip


class Classifying(Encoding):
    """See `training.subject.Subject`."""

    head = "classifier"
    unit = "examples"

    def read(self, recipe: Recipe) -> Examples:
        """The examples that a recipe names, read, checked and cleaned; raises DataError."""
        data = recipe.data
        return read_examples(
            data.train, data.dev, kind=data.labels, columns=data.columns, until=data.label_until,
            skip_bad=data.skip_bad, seed=recipe.seed,
        )  # fmt: skip

    def tokenizer(self, recipe: Recipe, corpus: Examples) -> Tokenizer:
        """A vocabulary of the training texts; <s> and </s> stand around each."""
        kind, size = recipe.tokenizer.kind, recipe.tokenizer.vocab_size
        return Tokenizer.train(corpus.texts, kind=kind, vocab_size=size).framed(before="bos", after="eos")

    def data(self, recipe: Recipe, corpus: Examples, tokenizer: Tokenizer) -> ClassificationData:
        """The texts as ids: of training's so many tokens as a batch has room for, of the others all a model reads."""
        labels = Labels.of(corpus.train.labels, corpus.train.kind, corpus.train.classes)
        most = min(recipe.batch.max_len, recipe.model.get("max_len", recipe.batch.max_len))
        train, cut = read_texts(tokenizer, corpus.train.texts, most)
        dev, dev_cut = read_texts(tokenizer, corpus.dev.texts, recipe.model.get("max_len", TransformerConfig.max_len))
        dropout = None
        if recipe.tokenizer.dropout and recipe.init_from is None:
            dropping = BpeDropout(tokenizer, recipe.tokenizer.dropout)
            dropout = partial(_cut_anew, tokenizer, dropping, corpus.train.texts, most)
        return ClassificationData(
            labels, labels.targets(corpus.train.labels), dev, labels.targets(corpus.dev.labels), tokenizer=tokenizer,
            train=train, dropout=dropout, cut=sum(map(bool, cut)), dev_cut=sum(map(bool, dev_cut)),
            tokens_per_batch=recipe.batch.tokens, seed=recipe.seed, multiple=recipe.batch.multiple, max_len=most,
        )  # fmt: skip

    def task(self, recipe: Recipe, data: ClassificationData) -> ClassificationTask:
        """Cross entropy, smoothed and weighed as the recipe says; squared error of numbers."""
        labels, weights = data.labels, None
        smoothing = recipe.label_smoothing if labels.kind == "one" else 0.0
        for name, without in (("class_weights", "none"), ("rdrop", 0.0)):
            if labels.kind != "one" and getattr(recipe, name) != without:
                raise ConfigError("this is for classes of which a text has one", where=name, expected=without,
                                  got=getattr(recipe, name), mend=f"leave {name} out")  # fmt: skip
        if recipe.class_weights == "balanced":
            weights = balanced(data.targets, len(labels.names))
        return ClassificationTask(labels.kind, smoothing, weights, recipe.rdrop)

    def scores(
        self, model: Model, data: ClassificationData, corpus: Examples
    ) -> tuple[dict[str, float], dict[str, str]]:
        """What saying the same of every text would score, to be held against the model's."""
        if data.labels.kind != "one":
            return {}, {}
        common = np.bincount(data.targets).argmax()
        return {"majority_accuracy": float((data.dev_targets == common).mean())}, {}

    def glimpse(self, model: Model, data: ClassificationData) -> None:
        """The scores tell enough."""

    def facts(self, data: ClassificationData, corpus: Examples) -> dict[str, Any]:
        """The label set in the order of its ids, what an example has of it, and how many texts it is."""
        until = {} if corpus.until is None else {"label_until": corpus.until}
        return {**data.labels.facts(), **until, "texts": 2 if corpus.train.paired else 1}


def _cut_anew(
    tokenizer: Tokenizer, dropping: BpeDropout, texts: list[tuple[str, ...]], most: int, index: int, random: Random
) -> Read:
    """A training text in other pieces than the tokenizer's own."""
    reads, _ = read_texts(tokenizer, [texts[index]], most, lambda text: dropping.encode(text, random))
    return reads[0]


class Tagging(Encoding):
    """See `training.subject.Subject`."""

    head = "tagger"
    unit = "tokens"

    def read(self, recipe: Recipe) -> Sentences:
        """The sentences that a recipe names, read and checked; raises DataError."""
        data = recipe.data
        return read_sentences(data.train, data.dev, skip_bad=data.skip_bad, seed=recipe.seed)

    def tokenizer(self, recipe: Recipe, corpus: Sentences) -> Tokenizer:
        """A vocabulary of the training sentences; <s> and </s> stand around each."""
        kind, size = recipe.tokenizer.kind, recipe.tokenizer.vocab_size
        return Tokenizer.train(corpus.texts, kind=kind, vocab_size=size).framed(before="bos", after="eos")

    def data(self, recipe: Recipe, corpus: Sentences, tokenizer: Tokenizer) -> TaggingData:
        """The sentences as ids, long ones cut."""
        most = min(recipe.batch.max_len, recipe.model.get("max_len", recipe.batch.max_len))
        labels = [OUTSIDE, *(f"{prefix}-{name}" for name in corpus.train.names for prefix in "BI")]
        return TaggingData(
            tokenizer, labels, corpus.train, corpus.dev, most=most, tokens_per_batch=recipe.batch.tokens,
            seed=recipe.seed, multiple=recipe.batch.multiple,
        )  # fmt: skip

    def task(self, recipe: Recipe, data: TaggingData) -> TaggingTask:
        """Cross entropy of the tags of words, smoothed as the recipe says."""
        return TaggingTask(recipe.label_smoothing)

    def scores(self, model: Model, data: TaggingData, corpus: Sentences) -> tuple[dict[str, float], dict[str, str]]:
        """The share of words that are outside, which saying nothing would get right."""
        tags = [tag for tags in corpus.dev.tags for tag in tags]
        return {"outside_accuracy": tags.count(OUTSIDE) / max(1, len(tags))}, {}

    def glimpse(self, model: Model, data: TaggingData) -> None:
        """The scores tell enough."""

    def facts(self, data: TaggingData, corpus: Sentences) -> dict[str, Any]:
        """The tags in the order of their ids."""
        return {"labels": list(data.labels)}
