"""Law 22: a deep model with its norms after the residuals learns to copy, with what a recipe does by default.

Post-LN stacks are known to stay where they began when the rate rises too quickly (pytorch #55270; Xiong et al. 2020).
Twelve layers are six on each side here. With twelve on each side the same 400 updates end at a loss of 1.9: deeper
models need pre-norm, or lower rates than the default ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

import regard
from regard.data import Finding
from regard.training import Event, Progress, Recipe, train
from regard.training.recipe import DataRecipe, LoopRecipe, TokenizerRecipe

LETTERS = "abcdefghijklmnop"
SIZES = {
    "d_model": 64, "n_heads": 2, "d_ff": 128, "n_encoder_layers": 6, "n_decoder_layers": 6, "norm_order": "post",
    "embed_scale": 8.0,
}  # fmt: skip


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


def texts(dice: random.Random, count: int) -> list[str]:
    """Letters in no order, no text twice."""
    return list(dict.fromkeys(" ".join(dice.choices(LETTERS, k=dice.randrange(5, 10))) for _ in range(count)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_six_and_six_layers_learn_to_copy(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    drawn = texts(dice, 6_000)
    known, unseen = drawn[:-100], drawn[-100:]
    (tmp_path / "copies.tsv").write_text("".join(f"{text}\t{text}\n" for text in known))
    recipe = Recipe(
        seed=seed,
        data=DataRecipe(train=(str(tmp_path / "copies.tsv"),)),
        tokenizer=TokenizerRecipe(kind="words", vocab_size=40),
        model=SIZES,
        loop=LoopRecipe(steps=400, evaluate_every=200),
    )
    train(recipe, tmp_path / "run", device=torch.device("cpu"), reporter=Quiet())
    said = regard.load(tmp_path / "run").translate(unseen, beam=1)
    right = sum(one.text == text for one, text in zip(said, unseen, strict=True))
    assert right >= 0.95 * len(unseen), f"{right} of {len(unseen)} are copies"
