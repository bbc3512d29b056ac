"""From what was typed to a recipe: a plan for so many minutes, or the run to go on with; then the user's changes.

What is unusual: a change is put in twice, before the plan is made (which keeps the model's fields it finds) and after
it, so whatever the user says is never overruled.
What it does not know: flags, and how a recipe is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from regard.config import build, override, to_tree
from regard.errors import ConfigError
from regard.machine import speeds
from regard.training.adaptation import SHARE, filled_in, first_run
from regard.training.plan import TRAINING_SHARE, UPDATES, Plan, estimate, plan_recipe
from regard.training.recipe import LoopRecipe, Recipe
from regard.training.run import read_recipe
from regard.training.start import tuned
from regard.training.subject import Corpus
from regard.training.subjects import SUBJECTS

SLACK = 2.0
"""How much longer than estimated a first run without a clock may take, before it takes from the time of the second."""


def planned(base: Recipe, changes: Sequence[str], *, minutes: float, device: torch.device) -> Plan:
    """Fill in what `base` leaves open for a run of so many minutes on this machine, and say what it should cost.

    Args:
        changes: assignments like `model.d_model=128`; see `changed`.

    Raises:
        ConfigError: the minutes or a change cannot be.
        CheckpointError: there is no model to start from.
        DataError: the data is bad.
    """
    LoopRecipe(minutes=minutes)  # refuses what is no time
    base = changed(base, changes)
    if base.adapt is not None:
        first_run(base)  # before anything is opened
    _refuse_other_vocabulary(base, changes)
    base = changed(tuned(base), changes)
    if base.adapt is not None:
        first = first_run(base)
        texts = SUBJECTS[first.task].read(first)
        plan = plan_recipe(first, texts, minutes=SHARE * minutes, device=device, speeds=speeds(device))
        base = changed(filled_in(base, plan.recipe), changes)
        minutes -= min(SHARE * minutes, SLACK * plan.minutes)  # of few texts it soon has enough
    corpus = SUBJECTS[base.task].read(base)
    plan = plan_recipe(base, corpus, minutes=minutes, device=device, speeds=speeds(device))
    return _cost(changed(plan.recipe, changes), corpus, device)


def _refuse_other_vocabulary(base: Recipe, changes: Sequence[str]) -> None:
    """Raise ConfigError for a change of the vocabulary where that is the one of the model to start from."""
    for change in changes if base.init_from is not None else ():
        name, _, value = (part.strip() for part in change.partition("="))
        if name in ("tokenizer.kind", "tokenizer.vocab_size"):
            mend = "leave it out, or leave out --from"
            raise ConfigError("the vocabulary is that of the model to start from", where=name, got=value,
                              expected=f"that of {base.init_from}", mend=mend)  # fmt: skip


def cost(recipe: Recipe, device: torch.device) -> Plan:
    """What carrying out a recipe should take on this machine; raises as `planned`."""
    return _cost(recipe, SUBJECTS[recipe.task].read(recipe), device)


def resumed(out: Path, changes: Sequence[str]) -> Recipe:
    """The recipe of the run in `out`, with changes; raises ConfigError where there is none, or a change comes late."""
    path = out / "recipe.toml"
    if not path.exists():
        mend = "leave out --resume"
        raise ConfigError("there is no run to go on with", where=out, expected="a recipe.toml", got="none", mend=mend)
    recipe = read_recipe(path)
    if (new := changed(recipe, changes)).adapt != recipe.adapt:
        raise ConfigError("a run that has begun is not adapted to anything else", where=out,
                          expected="what its recipe.toml says of [adapt], or says not",
                          mend="leave --adapt out, or choose another --out")  # fmt: skip
    return new


def changed(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with assignments like `optim.lr=1e-3` put in; ConfigError names a field that cannot be.

    One of `loop.steps`, or `adapt.loop.steps`, puts a number of updates in the clock's place, and in that of an earlier
    stop.
    """
    new = build(Recipe, override(to_tree(recipe), changes), where="the recipe")
    names = {change.partition("=")[0].strip() for change in changes}
    if new.adapt is not None:
        new = replace(new, adapt=replace(new.adapt, loop=_unclocked(new.adapt.loop, names, "adapt.")))
    return replace(new, loop=_unclocked(new.loop, names))


def _unclocked(loop: LoopRecipe, names: set[str], before: str = "") -> LoopRecipe:
    if f"{before}loop.steps" not in names or f"{before}loop.minutes" in names:
        return loop
    return replace(loop, minutes=None, stop=loop.stop if f"{before}loop.stop" in names else None)


def _cost(recipe: Recipe, corpus: Corpus, device: torch.device) -> Plan:
    if recipe.adapt is None:
        return _cost_alone(recipe, corpus, device)
    first = first_run(recipe)
    one, two = _cost_alone(first, SUBJECTS[first.task].read(first), device), _cost_alone(recipe, corpus, device)
    return replace(
        two, recipe=filled_in(two.recipe, one.recipe), memory_bytes=max(one.memory_bytes, two.memory_bytes),
        minutes=one.minutes + two.minutes,
        sentences=(f"first it is adapted to {' '.join(first.data.train)}: {one.sentences[UPDATES]}", *two.sentences),
    )  # fmt: skip


def _cost_alone(recipe: Recipe, corpus: Corpus, device: torch.device) -> Plan:
    table = speeds(device)
    by_steps = estimate(recipe, corpus, table, tokens=None, minutes=None)
    minutes = recipe.loop.minutes
    if minutes is None:
        return by_steps
    tokens = by_steps.tokens_per_second * 60 * minutes * TRAINING_SHARE
    return estimate(recipe, corpus, table, tokens=tokens, minutes=minutes)
