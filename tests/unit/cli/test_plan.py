"""`regard plan`: the cost of a training, and no training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., tuple[int, str, str]]


def test_a_plan_is_flat_and_named_and_trains_nothing(command: Command, workplace: Path) -> None:
    before = sorted(workplace.iterdir())
    code, out, _ = command("plan", "translation", "train.en", "train.de", "--minutes", "2", "--json")
    plan = json.loads(out)
    assert code == 0 and plan["minutes"] == 2
    names = ("parameters", "memory_bytes", "tokens_per_epoch", "flops_per_token", "tokens_per_second", "steps")
    assert all(plan[name] > 0 for name in names)
    assert sorted(workplace.iterdir()) == before


def test_more_time_is_more_arithmetic(command: Command) -> None:
    plans = [
        json.loads(command("plan", "translation", "train.en", "train.de", "--minutes", minutes, "--json")[1])
        for minutes in ("1", "30")
    ]
    short, long = (plan["steps"] * plan["recipe"]["batch"]["tokens"] * plan["flops_per_token"] for plan in plans)
    assert long > 3 * short


def test_the_plan_of_a_recipe_is_the_recipes(command: Command, workplace: Path) -> None:
    code, out, _ = command("plan", "run/recipe.toml")
    facts = json.loads((workplace / "run" / "checkpoints" / "final" / "config.json").read_text())
    assert "seconds of updates" in out.split("time")[1], "a few steps take no minutes"
    assert "if nothing else runs" in out
    assert code == 0 and f"updates        {facts['training']['steps']} of 1,000 tokens" in out
    assert f"vocabulary of {facts['transformer']['vocab_size']}" in out
