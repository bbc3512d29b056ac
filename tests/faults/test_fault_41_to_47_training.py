"""Faults 41, 42 and 44 to 47: no room, no number, no memory, a signal, other data on resume, another locale."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from regard.config import to_toml, to_tree
from regard.errors import DataError, LeftError, NonFiniteError, UserError
from regard.hub.atomic import read_pointer, verify_manifest
from regard.hub.weights import WEIGHTS, read_weights
from regard.training import Event, Progress, Recipe, Reporter, StepEvent, loop, outcome, train
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.3}
STEPS, EVERY, ASKED = 12, 5, 7
"""Updates, those between two looks, and the one after which somebody asks to leave."""


class Told(Reporter):
    """Keeps what is said, and does something after an update."""

    def __init__(self, after: int = 0, do: signal.Signals | None = None) -> None:
        self.after, self.do, self.said = after, do, list[str]()

    def say(self, sentence: str) -> None:
        """Kept."""
        self.said.append(sentence)

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        """The signal, when it is time."""
        if isinstance(event, StepEvent) and event.step == self.after and self.do is not None:
            signal.raise_signal(self.do)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Real steps on a few dozen pairs, with all that a checkpoint can hold."""
    numbers, zahlen = ["one", "two", "three", "four", "five"], ["eins", "zwei", "drei", "vier", "fünf"]
    for name, words in (("a.en", numbers), ("a.de", zahlen)):
        lines = (" ".join([words[i], words[j], *[words[k % 5]] * k]) for i in range(5) for j in range(5)
                 for k in range(2 + i))  # fmt: skip
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return Recipe(
        data=DataRecipe(train=(str(tmp_path / "a.en"), str(tmp_path / "a.de"))),
        tokenizer=TokenizerRecipe(kind="chars", vocab_size=40), model=SIZES,
        batch=BatchRecipe(tokens=400, max_len=40), schedule=ScheduleRecipe(warmup=2),
        loop=LoopRecipe(steps=STEPS, evaluate_every=EVERY, average=2, keep=2, ema=0.9),
    )  # fmt: skip


def carried_out(recipe: Recipe, out: Path, reporter: Reporter | None = None, *, resume: bool = False) -> bytes:
    """The final weights."""
    train(recipe, out, device=torch.device("cpu"), reporter=reporter or Told(), resume=resume)
    return (out / "checkpoints" / "final" / WEIGHTS).read_bytes()


@pytest.mark.parametrize("bad", ["loss", "gradient"])
def test_fault_42_an_update_of_no_number_is_not_made(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """It ends with 5, tells the examples by file and line, and goes on from what was good as if nothing had been."""
    add, calls = loop.add_gradients, list[int]()

    def broken(module: nn.Module, micro: list[Any]) -> tuple[float, int]:
        total, count = add(module, micro)
        calls.append(count)
        if len(calls) != ASKED:
            return total, count
        if bad == "gradient":
            next(module.parameters()).grad[0] = torch.inf  # type: ignore[index]
            return total, count
        return math.nan, count

    monkeypatch.setattr(loop, "add_gradients", broken)
    out = tmp_path / "run"
    with pytest.raises(NonFiniteError, match=rf"before update {ASKED}; the update was not made") as caught:
        carried_out(recipe, out)
    assert caught.value.exit_code == 5 and "--resume" in str(caught.value) and "run.jsonl" in str(caught.value)
    (event,) = [json.loads(line) for line in (out / "run.jsonl").read_text().splitlines() if "nonfinite" in line]
    files = recipe.data.train
    assert event["step"] == ASKED - 1 and event["examples"]
    assert all(str(where).startswith(tuple(f"{file}:" for file in files)) for where in event["examples"])
    latest = out / "checkpoints" / str(read_pointer(out / "latest"))
    assert json.loads((latest / "state" / "progress.json").read_text())["step"] == EVERY
    assert all(tensor.isfinite().all() for tensor in read_weights(latest / WEIGHTS).values())
    monkeypatch.setattr(loop, "add_gradients", add)
    assert carried_out(recipe, out, resume=True) == carried_out(recipe, tmp_path / "straight")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
@pytest.mark.parametrize("asked", [ASKED, EVERY, 2])
def test_fault_45_what_was_done_is_saved_and_goes_on_as_if_nothing_had_been(
    recipe: Recipe, tmp_path: Path, number: signal.Signals, asked: int
) -> None:
    """Between two looks, at one, and before the first."""
    handlers = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]
    with pytest.raises(LeftError) as left:
        carried_out(recipe, tmp_path / "run", Told(asked, number))
    assert left.value.exit_code == (130 if number == signal.SIGINT else 75)
    assert f"update {asked} is saved" in str(left.value) and "--resume" in str(left.value)
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)] == handlers
    latest = tmp_path / "run" / "checkpoints" / str(read_pointer(tmp_path / "run" / "latest"))
    assert verify_manifest(latest) and json.loads((latest / "state" / "progress.json").read_text())["step"] == asked
    again = carried_out(recipe, tmp_path / "run", resume=True)
    assert again == carried_out(recipe, tmp_path / "straight")
    assert not [*(tmp_path / "run" / "checkpoints").glob("left-*")]


def test_fault_45_who_has_done_nothing_leaves_at_once(recipe: Recipe, tmp_path: Path) -> None:
    class Early(Told):
        def begin(self, unit: str) -> None:
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda number, frame: (_ for _ in ()).throw(SystemExit(143)))
    try:
        with pytest.raises(SystemExit):
            carried_out(recipe, tmp_path / "run", Early())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not (tmp_path / "run" / "latest").exists()


def written(recipe: Recipe, folder: Path) -> str:
    """The recipe as a file, for the command."""
    (path := folder / "recipe.toml").write_text(to_toml(to_tree(recipe)), encoding="utf-8")
    return str(path)


@pytest.mark.whole
def test_fault_45_at_the_shell(recipe: Recipe, tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "run" / "run.jsonl"
    endless = replace(recipe, loop=replace(recipe.loop, steps=10**6, evaluate_every=10**6))
    words = [sys.executable, "-m", "regard", "train", written(endless, tmp_path), "--out", str(out)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 120
        while not (log.exists() and '"event": "step"' in log.read_text()):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 75 and f"regard train --out {out} --resume" in err and "Traceback" not in err
    assert verify_manifest(out / "checkpoints" / str(read_pointer(out / "latest")))


def test_fault_46_a_run_does_not_go_on_with_other_data(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(LeftError):
        carried_out(recipe, tmp_path / "run", Told(ASKED, signal.SIGTERM))
    changed = Path(recipe.data.train[1])
    before = changed.read_text()
    changed.write_text(before.replace("fünf", "sechs"))
    with pytest.raises(DataError) as refused:
        carried_out(recipe, tmp_path / "run", resume=True)
    assert str(changed) in str(refused.value) and recipe.data.train[0] not in str(refused.value)
    changed.write_text(before)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    moved = tuple(shutil.copy(file, elsewhere) for file in recipe.data.train)
    carried_out(replace(recipe, data=replace(recipe.data, train=moved)), tmp_path / "run", resume=True)


def test_fault_46_another_torch_is_told(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LeftError):
        carried_out(recipe, tmp_path / "run", Told(ASKED, signal.SIGTERM))
    monkeypatch.setattr(outcome, "torch", SimpleNamespace(__version__="9.9"))
    told = Told()
    carried_out(recipe, tmp_path / "run", told, resume=True)
    assert any("torch 2" in sentence and "9.9" in sentence for sentence in told.said)


def test_fault_41_room_is_asked_for_before_anything_is_learned(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10_000))
    with pytest.raises(UserError, match="the disk is full") as refused:
        carried_out(recipe, tmp_path / "run")
    assert "10,000 bytes free" in str(refused.value) and not (tmp_path / "run" / "latest").exists()


@pytest.mark.whole
def test_fault_47_locale_and_hash_seed_change_nothing(recipe: Recipe, tmp_path: Path) -> None:
    found, file = set[bytes](), written(recipe, tmp_path)
    for number, more in enumerate(({}, {"LC_ALL": "C", "PYTHONHASHSEED": "7", "PYTHONUTF8": "0"})):
        words = [sys.executable, "-m", "regard", "train", file, "--out", str(tmp_path / str(number)), "--quiet"]
        subprocess.run(words, env=os.environ | more, check=True, timeout=120, stdout=subprocess.DEVNULL)
        found.add((tmp_path / str(number) / "checkpoints" / "final" / WEIGHTS).read_bytes())
    assert len(found) == 1
