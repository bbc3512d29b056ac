"""Law 23 with what else a checkpoint holds: averages, what is drawn anew in each epoch, other optimizers, snapshots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.hub.snapshots import find_snapshots
from regard.hub.weights import read_model_weights
from regard.laws import LAWS, Rerun
from regard.training import Recipe
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.3}


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
