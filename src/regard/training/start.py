"""What a run starts from: a model, new or trained before.

What is unusual: a folder stands for its weights, its sizes and its tokenizer. Going on with a run and fine-tuning
another model differ only in which folder it is, and in what else is taken from it (the optimizers' state, in
training/run.py).
What it does not know: how a run goes on from there.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import torch

from regard.config import build, to_tree
from regard.errors import CheckpointError
from regard.hub.folder import load_model, read_config, read_transformer_config
from regard.hub.weights import load_strict, read_model_weights
from regard.model import Model, TransformerConfig
from regard.model import make_model as build_model
from regard.text import Tokenizer
from regard.training.recipe import Recipe

LOWER_RATE = 1 / 3
"""Of the peak rates where training goes on from trained weights, which full rates would throw far off."""


def open_origin(path: str, task: str) -> tuple[Path, dict[str, str]]:
    """The folder of the model to start from, verified, and what a run says of it: its path and its weights' SHA-256.

    Raises:
        CheckpointError: it is missing, damaged, or of another task.
    """
    found = load_model(path)
    if found.about.get("task") != task:
        raise CheckpointError("a model of another task cannot be trained on", where=found.path,
                              expected=f'"task": "{task}"', got=found.about.get("task"))  # fmt: skip
    with (found.path / "model.safetensors").open("rb") as file:
        return found.path, {"from": path, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def tuned(recipe: Recipe) -> Recipe:
    """A recipe for training on from `init_from`: its sizes, its vocabulary, a lower rate; what the recipe says stays.

    Raises:
        CheckpointError: as `open_origin`.
    """
    if recipe.init_from is None:
        return recipe
    folder, _ = open_origin(recipe.init_from, recipe.task)
    tree = to_tree(read_transformer_config(read_config(folder), folder))
    size = tree.pop("vocab_size")
    optim = recipe.optim
    return replace(
        recipe,
        model={**tree, **recipe.model},
        tokenizer=replace(recipe.tokenizer, vocab_size=size),
        optim=replace(optim, lr=optim.lr * LOWER_RATE, matrix_lr=optim.matrix_lr * LOWER_RATE),
    )


def make_model(recipe: Recipe, head: str, tokenizer: Tokenizer, folder: Path | None) -> Model:
    """The model of the recipe, with a head of `model.HEADS` and the weights in `folder` where there is one, else new.

    Raises:
        CheckpointError: the weights are of other sizes.
    """
    vocab_size = tokenizer.vocab_size
    if folder is not None:
        vocab_size = read_transformer_config(read_config(folder), folder).vocab_size
    config = build(TransformerConfig, {**recipe.model, "vocab_size": vocab_size}, where="[model]")
    torch.manual_seed(recipe.seed)
    model = build_model(config, head)
    if folder is not None:
        load_strict(model, read_model_weights(folder), folder)
    return model
