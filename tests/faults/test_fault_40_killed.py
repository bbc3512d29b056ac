"""Fault 40: SIGKILL at any moment of a run on real data leaves a model that loads and a run that goes on (law 25)."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.laws import LAWS, Rerun
from regard.training import Recipe
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, TokenizerRecipe

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.3}


def check(data: Path, folder: Path, *, kills: int, seed: int) -> None:
    """The law, with so many kills, on 200 pairs; a save after every other of 30 updates."""
    files = [folder / f"pairs.{language}" for language in ("en", "de")]
    for file in files:
        with gzip.open(data / f"train{file.suffix}.gz", "rt", encoding="utf-8") as lines:
            file.write_text("".join(line for line, _ in zip(lines, range(200), strict=False)))
    recipe = Recipe(
        data=DataRecipe(train=tuple(map(str, files))), tokenizer=TokenizerRecipe(vocab_size=300), model=SIZES,
        batch=BatchRecipe(tokens=500), loop=LoopRecipe(steps=30, evaluate_every=2),
    )  # fmt: skip
    (folder / "runs").mkdir()
    verdict = LAWS[25](Rerun(recipe, folder / "runs", kills=kills), seed=seed)
    assert verdict.outcome == "pass", verdict


@pytest.mark.whole
def test_killed_ten_times(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    check(data_dir("multi30k"), tmp_path, kills=10, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_killed_two_hundred_times(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    check(data_dir("multi30k"), tmp_path, kills=200, seed=2)
