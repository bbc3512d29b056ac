"""`regard plan`: the cost of a training, and no training."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.training.plan import RESIDENT

Command = Callable[..., tuple[int, str, str]]


def test_a_plan_is_flat_and_named_and_trains_nothing(command: Command, workplace: Path) -> None:
    before = sorted(workplace.iterdir())
    code, out, _ = command("plan", "translation", "train.en", "train.de", "--minutes", "2", "--json")
    plan = json.loads(out)
    assert code == 0 and plan["minutes"] == 2
    names = ("parameters", "memory_bytes", "tokens_per_epoch", "flops_per_token", "tokens_per_second", "steps")
    assert all(plan[name] > 0 for name in names)
    assert sorted(workplace.iterdir()) == before


AND_MEMORY = """
import sys
from pathlib import Path
from regard.cli.main import main
code = main(sys.argv[1:])
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
sys.exit(code)
"""
"""The command, and then the most memory it held, in KiB: of its own, which what its parent held is no part of."""


@pytest.mark.whole
def test_the_memory_holds_what_a_run_of_next_to_nothing_holds(command: Command, workplace: Path) -> None:
    (workplace / "few.tsv").write_text("".join(f"{'ab ' * (i % 5)}{i}\t{'cd ' * (i % 7)}{i}\n" for i in range(60)))
    tiny = "tokenizer.kind=chars tokenizer.vocab_size=40 model.d_model=8 model.n_heads=2 model.d_ff=8 loop.steps=2 "
    tiny += "model.n_encoder_layers=1 model.n_decoder_layers=1 batch.tokens=200"
    job = ["translation", "few.tsv", *(word for change in tiny.split() for word in ("--set", change))]
    words = [sys.executable, "-c", AND_MEMORY, "train", *job, "--out", "few", "--threads", "1", "--quiet"]
    done = subprocess.run(words, cwd=workplace, stdout=subprocess.PIPE, text=True, check=True)
    used = 1024 * int(done.stdout.split()[-1])
    planned = json.loads(command("plan", *job, "--json")[1])["memory_bytes"]
    assert RESIDENT < planned < 1.1 * RESIDENT and 0.6 < planned / used < 1.6
    said = command("plan", *job)[1]
    assert re.search(r"memory +3\d\d\.\d MiB, of which 370\.0 MiB are Python and torch themselves", said)


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
