"""So many minutes on this machine with this text: what model, what batch, what schedule.

What is unusual: the plan is arithmetic over measured numbers (the machine's matrix-product rate, the corpus' size) and
a few rules, each with its reason; it gives a plain recipe, which is printed and can be edited. It fixes no number of
steps: the loop decides that from the clock (loop.py), so a wrong estimate costs quality, never punctuality.
What it does not know: how to train.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from regard.config import build
from regard.machine import Speeds, best_dtype
from regard.model import TransformerConfig
from regard.runtime import longest_open
from regard.tasks.pairs import Corpus
from regard.training.recipe import Recipe

CHARACTERS_A_TOKEN = 3.9
"""Of BPE with some thousand pieces on European text (Multi30k en-de at 4,000: 3.9); unspaced scripts have fewer."""
UTILISATION = 0.27
"""The share of the matrix-product peak that a whole run of a small model reaches, Muon and looks included: `train`
prints it at its end (0.23 to 0.3 on 2 cores with AVX2)."""
LADDER = ((64, 2), (96, 3), (128, 3), (128, 4), (192, 4), (256, 5), (384, 6), (512, 6), (768, 8))
"""Widths and layers on each side; heads of 32 to 64, d_ff = 4 d_model from 256 on, 2 d_model below."""


@dataclass(frozen=True)
class Plan:
    """What was decided, and what it should cost."""

    recipe: Recipe
    corpus: Corpus
    """What was read to make the plan; a run of it need not read it again."""
    parameters: int
    memory_bytes: int
    """Weights, gradients, optimizer state and the largest batch's activations, roughly."""
    tokens_per_epoch: int
    """Target tokens."""
    flops_per_token: float
    """Forward and backward, for a target token and the source tokens that come with it."""
    tokens_per_second: float
    steps: int
    minutes: float
    sentences: tuple[str, ...]
    """The reasons, for people."""


def training_flops(config: TransformerConfig) -> tuple[float, float]:
    """Floating-point operations of forward and backward for one source token and for one target token.

    6 for each weight that meets a token (2 forward, 4 backward); attention's own T x S products are left out: below a
    thousand tokens they are few.
    """
    width, keys = config.n_heads * config.head_width, config.kv_heads * config.head_width
    self_attention = 2 * config.d_model * (width + keys)
    ffn = (3 if config.gated_ffn else 2) * config.d_model * config.d_ff
    cross_keys, cross_queries = 2 * config.d_model * keys, 2 * config.d_model * width
    both = config.n_encoder_layers > 0 and config.n_decoder_layers > 0
    source = config.n_encoder_layers * (self_attention + ffn) + both * config.n_decoder_layers * cross_keys
    target = config.n_decoder_layers * (self_attention + ffn + both * cross_queries)
    return 6.0 * source, 6.0 * (target + config.vocab_size * config.d_model)


def plan_recipe(base: Recipe, corpus: Corpus, *, minutes: float, device: torch.device, speeds: Speeds) -> Plan:
    """Fill in what `base` leaves open for a run of so many minutes; what `base.model` already says is kept."""
    name: Literal["float32", "bfloat16"] = "bfloat16" if best_dtype(speeds) is torch.bfloat16 else "float32"
    rate = UTILISATION * speeds.matmul_flops[name]
    source, target = (sum(map(len, side)) / CHARACTERS_A_TOKEN for side in (corpus.train.source, corpus.train.target))
    seconds = 60 * minutes * 0.85  # reading, the tokenizer, evaluations and the end take the rest
    sizes = [_Size.make(d, n, _vocabulary(target), source / target, rate * seconds) for d, n in LADDER]
    # A model earns its size when it can see about as many tokens as its blocks have weights, and its data can fill it.
    fitting = [s for s in sizes if s.tokens >= 0.5 * s.block_weights and s.block_weights <= 4 * max(target, 2e5)]
    size = fitting[-1] if fitting else sizes[0]
    epochs = size.tokens / target
    batch = int(min(16_000, max(900, size.tokens / 900)))
    updates = size.tokens / batch
    tree = {**size.axes, "dropout": _dropout(epochs), **base.model}
    tree.setdefault("embed_scale", tree["d_model"] ** 0.5)
    recipe = replace(
        base,
        model=tree,
        tokenizer=replace(base.tokenizer, vocab_size=_vocabulary(target)),
        batch=replace(base.batch, tokens=batch),
        schedule=replace(base.schedule, warmup=int(min(1_000, max(20, updates / 16)))),
        loop=replace(
            base.loop,
            minutes=minutes,
            dtype=name,
            evaluate_every=max(20, int(updates / 6)),
            open_until=longest_open(speeds, device, best_dtype(speeds)),
        ),
    )
    return estimate(recipe, corpus, rate=rate, tokens=size.tokens, minutes=minutes)


def estimate(recipe: Recipe, corpus: Corpus, *, rate: float, tokens: float | None, minutes: float | None) -> Plan:
    """What a recipe should cost, at `rate` FLOP/s: for so many target tokens, or else for the recipe's own steps."""
    config = build(TransformerConfig, {**recipe.model, "vocab_size": recipe.tokenizer.vocab_size}, where="[model]")
    source, target = (sum(map(len, side)) / CHARACTERS_A_TOKEN for side in (corpus.train.source, corpus.train.target))
    per_source, per_target = training_flops(config)
    flops = per_target + per_source * source / target
    # A batch of so many tokens on its longer side holds about nine tenths of that in real target tokens.
    filled = 0.9 * recipe.batch.tokens
    steps = round(tokens / filled) if tokens is not None else recipe.loop.steps
    seconds = steps * filled * flops / rate
    parameters = config.n_parameters
    activations = 4 * recipe.batch.tokens / max(1, recipe.batch.accumulate) * config.d_model * 16
    activations *= config.n_encoder_layers + config.n_decoder_layers
    return Plan(
        recipe=recipe, corpus=corpus, parameters=parameters, memory_bytes=int(parameters * 16 + activations),
        tokens_per_epoch=int(target), flops_per_token=flops, tokens_per_second=rate / flops, steps=steps,
        minutes=seconds / 60 if minutes is None else minutes,
        sentences=(
            f"{parameters:,} parameters: {config.n_encoder_layers} + {config.n_decoder_layers} layers, width "
            f"{config.d_model}, {config.n_heads} heads, a vocabulary of {config.vocab_size:,}",
            f"about {steps:,} updates of {recipe.batch.tokens:,} tokens: {steps * filled / target:.1f} passes over "
            f"{len(corpus.train):,} pairs (about {target:,.0f} target tokens), dropout {config.dropout}",
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class _Size:
    axes: dict[str, Any]
    block_weights: float
    tokens: float
    """Target tokens that the time allows."""

    @classmethod
    def make(cls, width: int, layers: int, vocabulary: int, source_share: float, flops: float) -> _Size:
        axes = {
            "d_model": width, "n_heads": max(2, width // 32) if width < 512 else width // 64,
            "d_ff": width * (4 if width >= 256 else 2), "n_encoder_layers": layers, "n_decoder_layers": layers,
            "norm_order": "pre", "max_len": 256,
        }  # fmt: skip
        config = build(TransformerConfig, {**axes, "vocab_size": vocabulary}, where="plan")
        source, target = training_flops(config)
        blocks = config.n_parameters - vocabulary * width
        return cls(axes, blocks, flops / (target + source * source_share))


def _vocabulary(target_tokens: float) -> int:
    """Pieces that the text can teach: a few hundred sightings each, between 1,000 and 32,000."""
    for size, enough in ((32_000, 3e7), (16_000, 6e6), (8_000, 1.5e6), (4_000, 1.5e5), (2_000, 4e4)):
        if target_tokens >= enough:
            return size
    return 1_000


def _dropout(epochs: float) -> float:
    """What is seen often is learned by heart, and dropout hinders that; what is seen once needs none."""
    return 0.05 if epochs < 1.5 else 0.1 if epochs < 5 else 0.2 if epochs < 15 else 0.3
