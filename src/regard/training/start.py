"""What a run starts from: a model, new or trained before.

What is unusual: a folder stands for its weights, its sizes and its tokenizer. Going on with a run and fine-tuning
another model differ only in which folder it is, and in what else is taken from it (the optimizers' state, in
training/run.py).
What it does not know: how a run goes on from there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard.config import build, to_tree
from regard.data.shards import is_prepared
from regard.errors import CheckpointError, ConfigError
from regard.hub.atomic import verify_manifest
from regard.hub.description import Description, read_model, refuse_quantized
from regard.hub.folder import describe_model, open_vocabularies
from regard.hub.packaged import model_path
from regard.hub.weights import load_strict, state_tensors
from regard.model import CLASSIFIERS, HEADS, ClsClassifierHead, Model, Pooler, TransformerConfig
from regard.model import make_model as build_model
from regard.model.lora import adapt
from regard.tasks.conventions import Conventions
from regard.text import Tokenizer
from regard.training.recipe import Recipe

UNDERSTANDING = ("classification", "tagging", "question-answering")
"""The tasks that say something of a text."""
ENCODING = (*UNDERSTANDING, "masked-lm")
"""The tasks that begin from any encoder: where it has no such head, theirs is new."""
POOLED = {"mean": "classifier", "cls": "cls-classifier"}
"""The head over classes for each way to make one vector of a text; a classifier that goes on keeps its own."""
SHAPES = ("d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "n_encoder_layers", "n_decoder_layers", "gated_ffn",
          "n_token_types", "decoder_vocab_size", "tie_embeddings", "embed_norm")  # fmt: skip
"""Axes that trained weights have and no recipe changes."""
LOWER_RATE = 1 / 3
"""Of the peak rates where training goes on from trained weights, which full rates would throw far off."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A model that training goes on from: all of its folder but the weights."""

    path: Path
    tokenizer: Tokenizer
    """Of what it reads."""
    target_tokenizer: Tokenizer
    """Of what it says; the same one, unless there are two vocabularies."""
    about: Mapping[str, Any]

    @property
    def conventions(self) -> Conventions:
        """What stands around its texts."""
        return Conventions.read(self.about, self.tokenizer, self.target_tokenizer)

    @property
    def kept(self) -> dict[str, Any]:
        """The facts of config.json that no training changes."""
        return {name: self.about[name] for name in ("conventions", "chat") if name in self.about}


def open_origin(path: str, task: str) -> tuple[Path, dict[str, str]]:
    """The folder of the model to start from, verified, and what a run says of it: its path and its weights' SHA-256.

    Raises:
        CheckpointError: it is missing, damaged, quantised, or of another task.
    """
    described = describe_model(model_path(path))
    verify_manifest(described.path)
    refuse_quantized(described)
    config, own = described.config, described.about.get("task")
    encoder = config.n_encoder_layers and not config.n_decoder_layers
    if own != task and not (task in ENCODING and encoder):
        expected = f'"task": "{task}"' + (", or any encoder" if task in ENCODING else "")
        raise CheckpointError("a model of another task cannot be trained on", where=described.path,
                              expected=expected, got=own, mend="choose another model for --from")  # fmt: skip
    return described.path, {"from": path, "sha256": hash_weights(described)}


def hash_weights(described: Description) -> str:
    """The SHA-256 of the files with a model's weights, in the order of their names."""
    digest = hashlib.sha256()
    for file in sorted({stored.path for stored in described.weights.values()}):
        with file.open("rb") as opened:
            while block := opened.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def read_origin(folder: Path) -> Origin:
    """What is in the folder of a model beside its weights; raises CheckpointError where that is damaged."""
    source, target, about = open_vocabularies(describe_model(folder))
    return Origin(path=folder, tokenizer=source, target_tokenizer=target, about=about)


def tuned(recipe: Recipe) -> Recipe:
    """A recipe for training on from `init_from`: its sizes, its vocabulary, a lower rate; what the recipe says stays.

    Raises:
        CheckpointError: as `open_origin`.
        ConfigError: the recipe asks for a model of other sizes.
    """
    if recipe.init_from is None:
        return recipe
    folder, _ = open_origin(recipe.init_from, recipe.task)
    described = describe_model(folder)
    tree = to_tree(described.config)
    size = tree.pop("vocab_size")
    for name in (*SHAPES, "vocab_size"):
        if (wanted := recipe.model.get(name)) not in (None, tree.get(name, size)):
            raise ConfigError("the sizes are those of the model to start from", where=f"model.{name}",
                              expected=tree.get(name, size), got=wanted,
                              mend="leave it out, or leave out --from")  # fmt: skip
    if described.about.get("task") != recipe.task:
        tree["head_bias"] = recipe.task == "masked-lm"
    optim = recipe.optim
    return replace(
        recipe,
        model={**tree, **recipe.model},
        tokenizer=replace(recipe.tokenizer, vocab_size=size),
        batch=replace(recipe.batch, max_len=min(recipe.batch.max_len, tree["max_len"])),
        optim=replace(optim, lr=optim.lr * LOWER_RATE, matrix_lr=optim.matrix_lr * LOWER_RATE),
    )


def brings_vocabulary(recipe: Recipe) -> bool:
    """Whether the vocabulary is there before any text is read: that of a model, or of a prepared folder."""
    return recipe.init_from is not None or is_prepared(Path(recipe.data.train[0]))


def make_model(
    recipe: Recipe, head: str, tokenizer: Tokenizer, folder: Path | None, labels: Sequence[str] = ()
) -> Model:
    """The model of the recipe, with a head of `model.HEADS` and the weights in `folder` where there is one, else new.

    Whether a head over the vocabulary has a bias is no choice where the head is the folder's. A new one has BERT's.

    Args:
        labels: what a head over classes tells apart. It is the folder's only where that has the same ones.

    Raises:
        CheckpointError: the weights are of other sizes.
    """
    described = None if folder is None else describe_model(folder)
    if head == "classifier":
        kept = described is not None and described.head in CLASSIFIERS
        head = described.head if described and kept else POOLED[recipe.pooling]
    vocab_size = tokenizer.vocab_size if described is None else described.config.vocab_size
    config = build(TransformerConfig, {**recipe.model, "vocab_size": vocab_size}, where="[model]")
    torch.manual_seed(recipe.seed)
    if described is None:
        return build_model(config, head, len(labels) or 1)
    theirs = replace(config, head_bias=described.config.head_bias)
    origin = read_model(replace(described, config=theirs))  # whose weights become the model's: they are there once
    if described.head == head and described.about.get("labels", []) == list(labels):
        return origin
    origin.transformer.config = config = replace(config, head_bias=head == "masked-lm")
    model = Model(origin.transformer, HEADS[head](config, len(labels) or 1))
    if isinstance(origin.head, Pooler) and isinstance(model.head, ClsClassifierHead):
        load_strict(model.head.pooler, state_tensors(origin.head), described.path)
    return model


def choose_learners(model: Model, recipe: Recipe) -> None:
    """Keep from learning what the recipe says, and put in adapters; raises ConfigError where these adapt nothing."""
    if recipe.freeze == "encoder":
        model.transformer.requires_grad_(False)
    if not recipe.lora.rank:
        return
    if recipe.init_from is None or recipe.freeze != "none":
        raise ConfigError("adapters go on a trained model, of which nothing else is frozen", where="lora.rank",
                          expected="0, or a model to start from (--from) and freeze = \"none\"",
                          got=recipe.lora.rank)  # fmt: skip
    adapt(model, recipe.lora.rank, recipe.lora.alpha)
