"""What a run starts from: its tokenizer, its examples as ids, its model; new ones, or those of a trained model.

What is unusual: a folder stands for all three. Going on with a run and fine-tuning another model differ only in which
folder it is, and in what else is taken from it (the optimizers' state, in training/run.py).
What it does not know: how a run goes on from there.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from random import Random

import torch

from regard.config import build, to_tree
from regard.errors import CheckpointError
from regard.hub.folder import load_model, read_config, read_transformer_config
from regard.hub.weights import load_strict, read_model_weights
from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks.pairs import Corpus
from regard.tasks.prefix import prefix_tokens, source_prefixes
from regard.tasks.translation import TranslationData
from regard.tasks.variation import Variation, vary
from regard.text import Tokenizer
from regard.text.dropout import BpeDropout
from regard.training.recipe import Recipe

LOWER_RATE = 1 / 3
"""Of the peak rates where training goes on from trained weights, which full rates would throw far off."""


def open_origin(path: str) -> tuple[Path, dict[str, str]]:
    """The folder of the model to start from, verified, and what a run says of it: its path and its weights' SHA-256.

    Raises:
        CheckpointError: it is missing, damaged, or of another task.
    """
    found = load_model(path)
    if found.about.get("task") != "translation":
        raise CheckpointError("a model of another task cannot be trained on", where=found.path,
                              expected='"task": "translation"', got=found.about.get("task"))  # fmt: skip
    with (found.path / "model.safetensors").open("rb") as file:
        return found.path, {"from": path, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def tuned(recipe: Recipe) -> Recipe:
    """A recipe for training on from `init_from`: its sizes, its vocabulary, a lower rate; what the recipe says stays.

    Raises:
        CheckpointError: as `open_origin`.
    """
    if recipe.init_from is None:
        return recipe
    folder, _ = open_origin(recipe.init_from)
    tree = to_tree(read_transformer_config(read_config(folder), folder))
    size = tree.pop("vocab_size")
    optim = recipe.optim
    return replace(
        recipe,
        model={**tree, **recipe.model},
        tokenizer=replace(recipe.tokenizer, vocab_size=size),
        optim=replace(optim, lr=optim.lr * LOWER_RATE, matrix_lr=optim.matrix_lr * LOWER_RATE),
    )


def make_tokenizer(recipe: Recipe, corpus: Corpus) -> Tokenizer:
    """A vocabulary of the training texts, in the forms in which they are first seen, and of their prefixes."""
    pairs = list(zip(*corpus.sides, strict=True))
    if recipe.augment:
        pairs = [vary(s, t, recipe.augment, Random(f"{recipe.seed} {i}")) for i, (s, t) in enumerate(pairs)]
    return Tokenizer.train(
        [*(source for source, _ in pairs), *(target for _, target in pairs)],
        kind=recipe.tokenizer.kind, vocab_size=recipe.tokenizer.vocab_size,
        specials=prefix_tokens([corpus.tag] if corpus.tag else [], corpus.targets),
    )  # fmt: skip


def make_model(recipe: Recipe, tokenizer: Tokenizer, folder: Path | None) -> Model:
    """The model of the recipe, with the weights in `folder` where there is one, else new.

    Raises:
        CheckpointError: the weights are of other sizes.
    """
    vocab_size = tokenizer.vocab_size
    if folder is not None:
        vocab_size = read_transformer_config(read_config(folder), folder).vocab_size
    config = build(TransformerConfig, {**recipe.model, "vocab_size": vocab_size}, where="[model]")
    torch.manual_seed(recipe.seed)
    model = make_language_model(config)
    if folder is not None:
        load_strict(model, read_model_weights(folder), folder)
    return model


def encode(recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer) -> TranslationData:
    """The training and development pairs as ids.

    Raises:
        ConfigError: the vocabulary lacks a language or a tag of theirs; no pair is short enough.
    """
    batch, prefixes = recipe.batch, list[list[int]]()
    for pairs, tag in corpus.parts:
        prefixes += source_prefixes(tokenizer, pairs, tag)
    sources, targets = corpus.sides
    plain = _with(prefixes, tokenizer.encode_batch(sources)), tokenizer.encode_batch(targets)
    held = corpus.dev
    dev = _with(source_prefixes(tokenizer, held), tokenizer.encode_batch(held.source))
    dropout = BpeDropout(tokenizer, recipe.tokenizer.dropout) if recipe.tokenizer.dropout else None
    variation = Variation(
        tokenizer, sources, targets, prefixes, plain, seed=recipe.seed, max_len=batch.max_len,
        augment=recipe.augment, dropout=dropout,
    )  # fmt: skip
    return TranslationData(
        tokenizer, plain, (dev, tokenizer.encode_batch(held.target)),
        tokens_per_batch=batch.tokens, seed=recipe.seed, multiple=batch.multiple, max_len=batch.max_len,
        variation=variation if recipe.augment or dropout else None,
    )  # fmt: skip


def _with(prefixes: list[list[int]], rows: list[list[int]]) -> list[list[int]]:
    return [prefix + ids for prefix, ids in zip(prefixes, rows, strict=True)]
