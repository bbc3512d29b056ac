"""Law 23 with what else a checkpoint holds: averages, what is drawn anew in each epoch, other optimizers, snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.data import Finding
from regard.hub.atomic import read_pointer
from regard.hub.snapshots import find_snapshots
from regard.hub.weights import WEIGHTS, read_model_weights
from regard.laws import LAWS, Rerun
from regard.training import Event, Progress, Recipe, run, train
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe

CPU = torch.device("cpu")
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.3}


class Quiet:
    """A reporter that tells nobody."""

    def begin(self, unit: str) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass

    def show(self, findings: Iterable[Finding]) -> None:
        pass

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        pass


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
        loop=LoopRecipe(steps=10),  # five updates are no whole number of epochs, which have 7 or 4
    )


@pytest.mark.whole
def test_a_resumed_run_is_the_uninterrupted_one_with_another_optimizer(recipe: Recipe, tmp_path: Path) -> None:
    check_resume(Rerun(replace(recipe, optim=replace(recipe.optim, kind="adamw")), tmp_path / "runs"))


@pytest.mark.slow  # two threads are slow where cores are busy
def test_a_resumed_run_is_the_uninterrupted_one_on_two_threads(recipe: Recipe, tmp_path: Path) -> None:
    check_resume(Rerun(recipe, tmp_path / "runs", threads=2))


@pytest.mark.whole
def test_what_is_drawn_anew_each_epoch_and_what_is_averaged_survive_a_resume(recipe: Recipe, tmp_path: Path) -> None:
    tokenizer = TokenizerRecipe(kind="bpe", vocab_size=310, dropout=0.2)
    loop = replace(recipe.loop, ema=0.9)
    check_resume(
        Rerun(replace(recipe, tokenizer=tokenizer, loop=loop, augment=0.4, rdrop=2.0), tmp_path / "runs")
    )  # fmt: skip


def check_resume(rerun: Rerun) -> None:
    """The law holds, and the snapshots on the way are the same, that of the update that was made twice too."""
    rerun.folder.mkdir()
    verdict = LAWS[23](rerun)
    assert verdict.outcome == "pass", verdict
    snapshots = [find_snapshots(rerun.at(run)) for run in ("whole", "cut")]
    assert [step for step, _ in snapshots[0]] == [step for step, _ in snapshots[1]]
    assert 6 in dict(snapshots[0])
    for (_, one), (_, two) in zip(*snapshots, strict=True):
        kept, again = read_model_weights(one), read_model_weights(two)
        assert all(torch.equal(kept[key], again[key]) for key in kept)


class Cut(Exception):
    """The process is gone."""


def test_a_kill_between_the_pointers_to_the_last_and_to_the_best_loses_no_best(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    """Both at the end, where nothing better follows, and at the first look, where there is no older best."""
    recipe = replace(recipe, loop=LoopRecipe(steps=4, evaluate_every=2))
    train(recipe, tmp_path / "whole", device=CPU, reporter=Quiet())
    whole = (tmp_path / "whole" / "checkpoints" / "final" / WEIGHTS).read_bytes()
    points = run.point
    for step in (2, 4):
        cut = tmp_path / f"cut-{step}"

        def dies(pointer: Path, name: str, last: str = f"step-00000{step}") -> None:
            if (pointer.name, name) == ("best", last):
                raise Cut
            points(pointer, name)

        monkeypatch.setattr(run, "point", dies)
        with pytest.raises(Cut):
            train(recipe, cut, device=CPU, reporter=Quiet())
        monkeypatch.setattr(run, "point", points)
        assert read_pointer(cut / "latest") == f"step-00000{step}" != read_pointer(cut / "best")
        train(recipe, cut, device=CPU, reporter=Quiet(), resume=True)
        assert (cut / "checkpoints" / "final" / WEIGHTS).read_bytes() == whole
