"""A run of so many minutes that was cut and resumed has those minutes in all, and its rate falls as it would have.

The clock is made of updates (a second each) and looks (five): nothing here depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regard.data import Finding
from regard.hub.folder import find_model, read_config
from regard.tasks.translation import TranslationData
from regard.training import DevEvent, Event, Progress, Recipe, StepEvent, read_recipe, train
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.whole]
SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
MINUTES, LOOK, DEAD, READING = 4, 5.0, 10_000.0, 40.0


class Cut(Exception):
    """The process is gone."""


class Clock:
    """Tells the time that it is told."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class Listener:
    """Keeps the rates, makes time pass, and dies after the checkpoint of a step."""

    def __init__(self, clock: Clock, dies_at: int | None) -> None:
        self.rates: list[float] = []
        self.said: list[str] = []
        self.clock, self.dies_at = clock, dies_at

    def begin(self, unit: str) -> None:
        pass

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def show(self, findings: Iterable[Finding]) -> None:
        pass

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        if isinstance(event, StepEvent):
            self.rates.append(event.lr)
            self.clock.now += 1
        if isinstance(event, DevEvent) and event.step == self.dies_at:
            raise Cut


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock, evaluate = Clock(), TranslationData.evaluate

    def slow(self: TranslationData, model: object) -> dict[str, float]:
        clock.now += LOOK
        return evaluate(self, model)  # type: ignore[arg-type]

    monkeypatch.setattr(TranslationData, "evaluate", slow)
    for module in ("run", "loop", "adaptation"):
        monkeypatch.setattr(f"regard.training.{module}.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    lines = [f"{'ab' * (i % 5)} {i}\t{'cd' * (i % 7)} {i}\n" for i in range(60)]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    return Recipe(
        data=DataRecipe(train=(str(tmp_path / "pairs.tsv"),)),
        tokenizer=TokenizerRecipe(kind="chars", vocab_size=40),
        model=SIZES,
        batch=BatchRecipe(tokens=200, max_len=40),
        schedule=ScheduleRecipe(warmup=2),
        loop=LoopRecipe(steps=200, minutes=MINUTES, evaluate_every=60),
    )


def sittings(recipe: Recipe, out: Path, clock: Clock, dies_at: Sequence[int]) -> list[Listener]:
    """A run that dies after these updates, is dead for hours, and takes a while to read its data each time."""
    listeners = [Listener(clock, step) for step in (*dies_at, None)]
    for number, listener in enumerate(listeners):
        began, chosen = clock.now, recipe if number == 0 else read_recipe(out / "recipe.toml")
        clock.now += READING if number else 1.0
        try:
            train(chosen, out, device=torch.device("cpu"), reporter=listener, resume=number > 0, began=began)
        except Cut:
            clock.now += DEAD
    return listeners


def seconds(out: Path) -> float:
    return float(read_config(find_model(out))["training"]["seconds"])


@pytest.mark.parametrize("dies_at", [[60], [120, 180], [60, 120, 180]], ids=["before", "after", "often"])
def test_cut_before_or_after_the_clock_decided_every_rate_is_the_uninterrupted_runs(
    recipe: Recipe, tmp_path: Path, clock: Clock, dies_at: Sequence[int]
) -> None:
    [whole] = sittings(recipe, tmp_path / "whole", clock, [])
    parts = sittings(recipe, tmp_path / "cut", clock, dies_at)
    assert len(parts[0].rates) == dies_at[0] and all(part.rates for part in parts)
    assert [rate for part in parts for rate in part.rates] == whole.rates
    assert read_recipe(tmp_path / "cut" / "recipe.toml") == read_recipe(tmp_path / "whole" / "recipe.toml")
    assert seconds(tmp_path / "cut") == seconds(tmp_path / "whole")


def test_what_such_a_run_is_held_to_uses_its_minutes_and_lets_the_rate_fall(
    recipe: Recipe, tmp_path: Path, clock: Clock
) -> None:
    """Else the tests above would prove nothing."""
    [whole] = sittings(recipe, tmp_path / "run", clock, [])
    assert 0.9 * 60 * MINUTES < seconds(tmp_path / "run") <= 60 * MINUTES
    falling = [rate for rate in whole.rates[2:] if rate < max(whole.rates)]
    assert 0.4 < len(falling) / len(whole.rates) < 0.5 and whole.rates[-1] < 0.1 * max(whole.rates)


def test_a_run_whose_minutes_are_over_ends_at_once(recipe: Recipe, tmp_path: Path, clock: Clock) -> None:
    """As when the last checkpoint is that of its end, and it was killed while it was scored."""
    [_, last] = sittings(replace(recipe, loop=replace(recipe.loop, evaluate_every=220)), tmp_path / "run", clock, [220])
    assert len(last.rates) <= 5 and read_recipe(tmp_path / "run" / "recipe.toml").loop.minutes is None


def test_nothing_is_said_of_the_pace_of_a_later_sitting_that_keeps_it(
    recipe: Recipe, tmp_path: Path, clock: Clock
) -> None:
    parts = sittings(recipe, tmp_path / "run", clock, [60])
    assert not [sentence for part in parts for sentence in part.said if "pace" in sentence or "busy" in sentence]
