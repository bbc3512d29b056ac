"""Adaptation: before a run an encoder guesses hidden tokens of the user's own texts, which need no labels.

    DIR/adapt/   a masked-LM run like any other: recipe.toml  run.jsonl  checkpoints/  latest  best
    DIR/         the run itself, which begins from the best checkpoint of that one

So an encoder learns the words of a field before it learns a task in it (Howard and Ruder 2018; Gururangan et al. 2020).
What is unusual: one recipe holds both, the first run in [adapt], so that its file repeats them; and a run that was
killed goes on in whichever of the two it was. What the model had for a head is given up: both runs' heads are new, but
for one over the vocabulary in the first.
What it does not know: how a run is carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.config import to_toml, to_tree
from regard.errors import ConfigError
from regard.hub.atomic import read_pointer, write_text_atomic
from regard.hub.folder import find_model, read_config
from regard.training.outcome import ADAPT, Result, outcome
from regard.training.recipe import Recipe
from regard.training.start import UNDERSTANDING
from regard.training.state import read_progress

SHARE = 1 / 3
"""Of the minutes, for the first run."""


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """An adaptation that was carried out.

    Attributes:
        recipe: the whole run's, with the updates that the first run really made.
        folder: the model to go on from.
        facts: of the first run, for config.json.
        began: when the minutes of the run itself began, by time.monotonic().
    """

    recipe: Recipe
    folder: Path
    facts: dict[str, Any]
    began: float


def first_run(recipe: Recipe) -> Recipe:
    """The masked-LM run that a recipe with `adapt` begins with; raises ConfigError where there can be none."""
    assert recipe.adapt is not None
    if recipe.task not in UNDERSTANDING:
        raise ConfigError("only an encoder that reads is adapted to texts", where="adapt",
                          expected=f"one of the tasks {', '.join(UNDERSTANDING)}", got=recipe.task,
                          mend="leave --adapt out")  # fmt: skip
    if recipe.init_from is None:
        raise ConfigError("there is no model to adapt", where="adapt", expected="a trained encoder to start from",
                          got="a run from nothing",
                          mend="name one by --from, or train one first: regard train masked-lm FILES")  # fmt: skip
    if not recipe.adapt.data.train:
        raise ConfigError("there is nothing to adapt to", where="adapt.data.train", expected="files of text",
                          got="none")  # fmt: skip
    own = recipe.adapt
    return Recipe(
        task="masked-lm", seed=recipe.seed, data=own.data, init_from=recipe.init_from, tokenizer=recipe.tokenizer,
        model={**recipe.model, "head_bias": True}, label_smoothing=0.0, batch=own.batch, optim=own.optim,
        schedule=own.schedule, loop=own.loop,
    )  # fmt: skip


def filled_in(recipe: Recipe, first: Recipe) -> Recipe:
    """The recipe with what a plan, or the run, made of its first run."""
    assert recipe.adapt is not None
    own = replace(recipe.adapt, batch=first.batch, optim=first.optim, schedule=first.schedule, loop=first.loop)
    return replace(recipe, adapt=own)


def adapt_first(
    recipe: Recipe, out: Path, *, resume: bool, began: float, say: Callable[[str], None],
    carry_out: Callable[[Recipe, Path, bool, float], Result],
) -> Adapted:  # fmt: skip
    """Carry out the first run of a recipe whose own has no checkpoint yet, or what is left of it.

    Its minutes and those of the run itself are apart; what it takes beyond its own, the other has less.

    Args:
        resume: go on with it.
        carry_out: a recipe, its folder, whether to go on, and when its minutes began -> what came of it.

    Raises:
        ConfigError: see `first_run`; otherwise as `regard.training.train`.
    """
    first, folder = first_run(recipe), out / ADAPT
    folder.mkdir(parents=True, exist_ok=True)
    cut = read_pointer(folder / "latest") if resume else None
    earlier = read_progress(folder / "checkpoints" / cut / "state").seconds if cut else 0.0
    write_text_atomic(out / "recipe.toml", to_toml(to_tree(recipe)))  # from here on the run can be gone on with
    result = outcome(first, folder) if resume else None
    if result is None:
        say(f"first it is adapted to {' '.join(first.data.train)}")
        result = carry_out(first, folder, cut is not None, began)
    recipe = filled_in(recipe, result.recipe)
    write_text_atomic(out / "recipe.toml", to_toml(to_tree(recipe)))
    training = read_config(find_model(folder))["training"]
    facts = {name: training[name] for name in ("steps", "seconds", "data", "scores")}
    minutes, now = first.loop.minutes, time.monotonic()
    began = now if minutes is None else min(now, began - earlier + 60 * minutes)
    return Adapted(recipe=recipe, folder=find_model(folder), facts=facts, began=began)
