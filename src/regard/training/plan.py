"""So many minutes on this machine with this text: what model, what batch, what schedule.

What is unusual: the plan is arithmetic over measured numbers (the machine's matrix-product rate, the corpus' size) and
a few rules, each with its reason; it gives a plain recipe, which is printed and can be edited. It fixes no number of
steps: the loop decides that from the clock (loop.py), so a wrong estimate costs quality, never punctuality.
What it does not know: how to train.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.config import build
from regard.machine import DTYPES, Speeds
from regard.model import TransformerConfig
from regard.runtime import longest_open
from regard.training.pace import best_precision, token_seconds, training_flops
from regard.training.recipe import Recipe
from regard.training.start import brings_vocabulary
from regard.training.subject import Corpus
from regard.training.subjects import SUBJECTS

TRAINING_SHARE = 0.85
"""Of the minutes; reading, the tokenizer, evaluations and the end take the rest."""
LEAST_BATCH = 900
"""Tokens of an update."""
FEWEST = 150
"""Updates that are made however few passes the recipe has."""
UPDATES = 1
"""Which of a plan's sentences tells of the updates."""
RESIDENT = 370 * 2**20
"""Bytes that Python and torch need before any of the user's: the most that was resident (ru_maxrss) in a `regard train`
of a thousand parameters on 60 short pairs; torch 2.13 for CPUs, Linux."""
TOKENS_A_PARAMETER = 20
"""Of a language model that is the best for its arithmetic: Hoffmann et al. 2022, arXiv 2203.15556, table 3."""
USEFUL_PASSES = 4
"""After which reading the same text again teaches a language model ever less: Muennighoff et al. 2023, 2305.16264."""
LADDER = ((64, 2), (96, 3), (128, 3), (128, 4), (192, 4), (256, 5), (384, 6), (512, 6), (768, 8))
"""Widths and layers; the subject says what a model of these is."""


@dataclass(frozen=True)
class Plan:
    """What was decided, and what it should cost."""

    recipe: Recipe
    corpus: Corpus
    """What was read to make the plan; a run of it need not read it again."""
    parameters: int
    memory_bytes: int
    """Python and torch (`RESIDENT`), weights, gradients, optimizer state and the largest batch's activations, roughly;
    the texts come on top. With a GPU the first is the host's, the rest the GPU's."""
    tokens_per_epoch: int
    """Target tokens; where there is but one side, tokens."""
    tokens_kind: str
    """Which of the two."""
    optimal_parameters: int | None
    """What a language model had best have for the tokens of this plan, were they all different; else None."""
    flops_per_token: float
    """Forward and backward, for a target token and the source tokens that come with it."""
    tokens_per_second: float
    steps: int
    minutes: float
    sentences: tuple[str, ...]
    """The reasons, for people: of the size, of the updates (`UPDATES`), then what else there is."""


def plan_recipe(base: Recipe, corpus: Corpus, *, minutes: float, device: torch.device, speeds: Speeds) -> Plan:
    """Fill in what `base` leaves open for a run of so many minutes; what `base.model` already says is kept."""
    subject = SUBJECTS[base.task]
    base = subject.unset(base)
    source, target = corpus.amount()
    seconds = 60 * minutes * TRAINING_SHARE / _passes(base)
    vocabulary = base.tokenizer.vocab_size if brings_vocabulary(base) else _vocabulary(target)
    sizes = [_Size.make(base.task, d, n, vocabulary, source / target, seconds, speeds) for d, n in LADDER]
    # A model earns its size when it can see about as many tokens as its blocks have weights, and its data can fill it.
    fitting = [s for s in sizes if s.tokens >= 0.5 * s.block_weights and s.block_weights <= 4 * max(target, 2e5)]
    width, layers = LADDER[sizes.index(fitting[-1]) if fitting else 0]
    # A width that the user gives brings its own heads and scales with it.
    axes = {**subject.axes(base.model.get("d_model", width), layers), **base.model}
    flops = speeds.matmul_flops
    size = _Size.of(base.task, axes, vocabulary, source / target, seconds, speeds)
    tokens, precision = size.tokens, best_precision(size.config, source / target, speeds, subject.projected)
    clock: float | None = minutes
    most = max(base.loop.epochs * target, FEWEST * LEAST_BATCH)  # of few examples, more passes
    if base.loop.epochs and tokens > most:
        tokens, clock = most, None  # done before the time is used up
    epochs = tokens / target
    batch = int(min(16_000, max(LEAST_BATCH, tokens / 900)))
    updates = tokens / batch
    recipe = replace(
        base,
        model={"dropout": _dropout(epochs), **axes},
        tokenizer=replace(base.tokenizer, vocab_size=vocabulary),
        batch=replace(base.batch, tokens=batch),
        optim=replace(base.optim, matrix_dtype="bfloat16" if flops["bfloat16"] > 1.3 * flops["float32"] else "float32"),
        schedule=replace(base.schedule, warmup=int(min(1_000, max(20, updates / 16)))),
        loop=replace(
            base.loop,
            minutes=clock,
            dtype=precision,
            evaluate_every=max(20, int(updates / 6)),
            open_until=longest_open(speeds, device, DTYPES[precision]),
        ),
    )
    return estimate(recipe, corpus, speeds, tokens=tokens, minutes=clock)


def estimate(recipe: Recipe, corpus: Corpus, speeds: Speeds, *, tokens: float | None, minutes: float | None) -> Plan:
    """What a recipe should cost on a machine of such speeds: for so many target tokens, or else for its own steps.

    The plan's recipe has the steps of the estimate, so that a run can tell afterwards what was expected of it.
    """
    config = build(TransformerConfig, {**recipe.model, "vocab_size": recipe.tokenizer.vocab_size}, where="[model]")
    source, target = corpus.amount()
    projected = SUBJECTS[recipe.task].projected
    per_source, per_target = training_flops(config, projected)
    flops = _passes(recipe) * (per_target + per_source * source / target)
    # A batch of so many tokens on its longer side holds about nine tenths of that in real target tokens.
    filled = 0.9 * recipe.batch.tokens
    steps = recipe.loop.steps if tokens is None else max(1, round(tokens / filled))
    a_token = _passes(recipe) * token_seconds(config, source / target, speeds, recipe.loop.dtype, projected)
    parameters = config.n_parameters
    kind = "target tokens" if config.n_encoder_layers and config.n_decoder_layers else "tokens"
    optimal = int(steps * filled / TOKENS_A_PARAMETER) if projected and not source else None
    activations = 4 * _passes(recipe) * recipe.batch.tokens / max(1, recipe.batch.accumulate) * config.d_model * 16
    activations *= config.n_encoder_layers + config.n_decoder_layers
    return Plan(
        recipe=replace(recipe, loop=replace(recipe.loop, steps=steps)), corpus=corpus,
        parameters=parameters, memory_bytes=int(RESIDENT + parameters * 16 + activations),
        tokens_per_epoch=int(target), tokens_kind=kind, optimal_parameters=optimal, flops_per_token=flops,
        tokens_per_second=1 / a_token, steps=steps,
        minutes=steps * filled * a_token / 60 if minutes is None else minutes,
        sentences=(
            f"{parameters:,} parameters: {SUBJECTS[recipe.task].about(config)}, width "
            f"{config.d_model}, {config.n_heads} heads, a vocabulary of {config.vocab_size:,}",
            f"about {steps:,} updates of {recipe.batch.tokens:,} tokens: {steps * filled / target:.1f} passes over "
            f"about {float(f'{target:.2g}'):,.0f} {kind}, dropout {config.dropout}",
            *([] if optimal is None else _advice(optimal, steps * filled / target)),
        ),
    )  # fmt: skip


def _advice(optimal: int, passes: float) -> list[str]:
    """How the size that suits so many tokens is known, and what becomes of it where a text is read too often."""
    said = (f"for so many tokens about {float(f'{optimal:.2g}'):,.0f} parameters are best, if each token is new: "
            f"{TOKENS_A_PARAMETER} tokens for each (Hoffmann et al. 2022)")  # fmt: skip
    often = (f"here each is read {passes:,.0f} times, and what is read more than some {USEFUL_PASSES} times teaches "
             "ever less: more text would help more than more minutes")  # fmt: skip
    return [said, often] if passes > 2 * USEFUL_PASSES else [said]


@dataclass(frozen=True)
class _Size:
    config: TransformerConfig
    block_weights: float
    tokens: float
    """Target tokens that the time allows."""

    @classmethod
    def make(
        cls, task: str, width: int, layers: int, vocabulary: int, source_share: float, seconds: float, speeds: Speeds
    ) -> _Size:
        return cls.of(task, SUBJECTS[task].axes(width, layers), vocabulary, source_share, seconds, speeds)

    @classmethod
    def of(
        cls, task: str, axes: dict[str, Any], vocabulary: int, source_share: float, seconds: float, speeds: Speeds
    ) -> _Size:
        config = build(TransformerConfig, {**axes, "vocab_size": vocabulary}, where="[model]")
        projected = SUBJECTS[task].projected
        precision = best_precision(config, source_share, speeds, projected)
        a_token = token_seconds(config, source_share, speeds, precision, projected)
        return cls(config, config.n_parameters - vocabulary * config.d_model, seconds / a_token)


def _passes(recipe: Recipe) -> int:
    """How often each batch goes through the model."""
    return 2 if recipe.rdrop else 1


def bfloat16_from(speeds: Speeds) -> int | None:
    """The least width of the ladder, on a vocabulary of 8,000, that is trained in bfloat16 here; None: no width is."""
    sizes = (_Size.make("translation", width, layers, 8_000, 1.0, 1.0, speeds) for width, layers in LADDER)
    return next((s.config.d_model for s in sizes if best_precision(s.config, 1.0, speeds) == "bfloat16"), None)


def _vocabulary(target_tokens: float) -> int:
    """Pieces that the text can teach: a few hundred sightings each, between 1,000 and 32,000."""
    for size, enough in ((32_000, 3e7), (16_000, 6e6), (8_000, 1.5e6), (4_000, 1.5e5), (2_000, 4e4)):
        if target_tokens >= enough:
            return size
    return 1_000


def _dropout(epochs: float) -> float:
    """What is seen often is learned by heart, and dropout hinders that; what is seen once needs none."""
    return 0.05 if epochs < 1.5 else 0.1 if epochs < 5 else 0.2 if epochs < 15 else 0.3
