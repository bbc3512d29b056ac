"""Law 23: a run that was cut and resumed is the run that was not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.data import Finding
from regard.hub.snapshots import find_snapshots
from regard.hub.weights import read_model_weights, read_weights
from regard.training import DevEvent, Event, Progress, Recipe, StepEvent, train
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.3}


class Cut(Exception):
    """The process is gone."""


class Listener:
    """Keeps the losses, and dies after the checkpoint of a step."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.losses: list[tuple[int, float]] = []
        self.dies_at = dies_at

    def begin(self, unit: str) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass

    def show(self, findings: Iterable[Finding]) -> None:
        pass

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        if isinstance(event, StepEvent):
            self.losses.append((event.step, event.loss))
        if isinstance(event, DevEvent) and event.step == self.dies_at:
            raise Cut


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    numbers = ["one", "two", "three", "four", "five"]
    zahlen = ["eins", "zwei", "drei", "vier", "fünf"]
    texts = [(i, j, k) for i in range(5) for j in range(5) for k in range(2 + i)]
    for name, words in (("a.en", numbers), ("a.de", zahlen)):
        (tmp_path / name).write_text(
            "".join(" ".join([words[i], words[j]] + [words[k % 5]] * k) + "\n" for i, j, k in texts)
        )
    return Recipe(
        data=DataRecipe(train=(str(tmp_path / "a.en"), str(tmp_path / "a.de"))),
        tokenizer=TokenizerRecipe(kind="chars", vocab_size=40),
        model=SIZES,
        batch=BatchRecipe(tokens=400, accumulate=3, max_len=40),
        schedule=ScheduleRecipe(warmup=2),
        loop=LoopRecipe(steps=8, evaluate_every=2, keep=9),
    )


@pytest.mark.parametrize(
    ("kind", "threads"),
    [("muon", 1), ("adamw", 1), pytest.param("muon", 2, marks=pytest.mark.slow)],  # two are slow where cores are busy
)
def test_a_resumed_run_is_the_uninterrupted_one_to_the_last_bit(
    recipe: Recipe, tmp_path: Path, one_thread: None, kind: str, threads: int
) -> None:
    torch.set_num_threads(threads)
    check_resume(replace(recipe, optim=replace(recipe.optim, kind=kind)), tmp_path)  # type: ignore[arg-type]


def test_what_is_drawn_anew_each_epoch_and_what_is_averaged_survive_a_resume(
    recipe: Recipe, tmp_path: Path, one_thread: None
) -> None:
    tokenizer = TokenizerRecipe(kind="bpe", vocab_size=310, dropout=0.2)
    loop = replace(recipe.loop, ema=0.9)
    check_resume(replace(recipe, tokenizer=tokenizer, loop=loop, augment=0.4, rdrop=2.0), tmp_path)


def check_resume(recipe: Recipe, tmp_path: Path) -> None:
    device = torch.device("cpu")
    whole = Listener()
    train(recipe, tmp_path / "whole", device=device, reporter=whole)
    parts = [Listener(dies_at=2), Listener(dies_at=6), Listener()]
    for number, part in enumerate(parts):
        try:
            train(recipe, tmp_path / "cut", device=device, reporter=part, resume=number > 0)
        except Cut:
            torch.manual_seed(number)  # a new process would not have the old one's random state
    assert [[step for step, _ in part.losses] for part in parts] == [[1, 2], [3, 4, 5, 6], [7, 8]]
    assert [loss for part in parts for loss in part.losses] == whole.losses
    averaged = ("state/trained.safetensors",) if recipe.loop.ema else ()
    for name in ("model.safetensors", "state/optimizer.safetensors", *averaged):
        one, two = (read_weights(tmp_path / run / "checkpoints" / "step-000008" / name) for run in ("whole", "cut"))
        assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)
    snapshots = [find_snapshots(tmp_path / run) for run in ("whole", "cut")]
    assert [step for step, _ in snapshots[0]] == [step for step, _ in snapshots[1]] == [1, 2, 3, 4, 6]
    for (_, one), (_, two) in zip(*snapshots, strict=True):
        kept, again = read_model_weights(one), read_model_weights(two)
        assert all(torch.equal(kept[key], again[key]) for key in kept)


def test_the_test_could_fail(recipe: Recipe, tmp_path: Path, one_thread: None) -> None:
    """Another seed, which draws other dropout and another order, gives other losses."""
    listeners = [Listener(), Listener()]
    for seed, listener in enumerate(listeners):
        short = replace(recipe, seed=seed, loop=replace(recipe.loop, steps=2))
        train(short, tmp_path / str(seed), device=torch.device("cpu"), reporter=listener)
    assert listeners[0].losses != listeners[1].losses
