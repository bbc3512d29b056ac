"""Fault 40, law 25: SIGKILL at any moment of a run leaves a model that loads and a run that goes on."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.hub.folder import load_model
from regard.hub.weights import WEIGHTS

# Saves at every second update, so that most moments are within a save or shortly after.
TRAIN = """
import sys
from pathlib import Path
import torch
from regard.training import Recipe, train
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, TokenizerRecipe
torch.set_num_threads(1)
class Listener:
    def say(self, sentence): pass
    def show(self, findings): pass
    def event(self, event, progress, seconds, seconds_left): print(progress.step, flush=True)
sizes = dict(d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, n_decoder_layers=1, dropout=0.3)
recipe = Recipe(data=DataRecipe(train=("pairs.tsv",)), tokenizer=TokenizerRecipe(kind="chars", vocab_size=40),
                model=sizes, batch=BatchRecipe(tokens=300), loop=LoopRecipe(steps=30, evaluate_every=2))
out = Path(sys.argv[1])
train(recipe, out, device=torch.device("cpu"), reporter=Listener(), resume=(out / "latest").exists())
"""


def start(folder: Path, out: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", TRAIN, out], cwd=folder, stdout=subprocess.PIPE, text=True)


def check(folder: Path, kills: int, seed: int) -> None:
    (folder / "pairs.tsv").write_text("".join(f"{i} {i * 7}\t{i * 7} {i}\n" for i in range(200)))
    with start(folder, "whole") as process:
        assert process.wait(timeout=120) == 0
    dice = random.Random(seed)
    for _ in range(kills):
        with start(folder, "killed") as process:
            assert process.stdout
            first = int(process.stdout.readline())
            for _ in range(dice.randrange(2, 8)):
                process.stdout.readline()
            time.sleep(dice.random() / 20)
            process.kill()
        assert process.wait() in (-9, 0)
        if (folder / "killed" / "latest").exists():
            steps = int(load_model(folder / "killed").about["training"]["steps"])
            assert steps >= first - 1, "more than an interval was lost"
    with start(folder, "killed") as process:
        assert process.wait(timeout=120) == 0
    one, two = (folder / run / "checkpoints" / "final" / WEIGHTS for run in ("whole", "killed"))
    assert one.read_bytes() == two.read_bytes()
    assert not [path for path in (folder / "killed").rglob(".*") if path.name.startswith((".tmp-", ".old-"))]


def test_killed_once(tmp_path: Path) -> None:
    check(tmp_path, kills=1, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    check(tmp_path, kills=5, seed=seed)
