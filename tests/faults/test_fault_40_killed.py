"""Fault 40, law 25: SIGKILL at any moment of a run leaves a model that loads and a run that goes on.

A moment is so long after so many reports of a sitting: before the first it is reading or resuming, after others an
update or, most often, a save with its flushes and renames. Sittings are forks of one process that has imported regard,
so that hundreds can be killed.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from regard.hub.atomic import read_pointer
from regard.hub.folder import load_model
from regard.hub.weights import WEIGHTS

INTERVAL = 2
"""Updates between two saves."""
SITTINGS = f"""
import os, sys, traceback
from pathlib import Path
import torch
from regard.training import Recipe, train
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, TokenizerRecipe
torch.set_num_threads(1)
def tell(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
class Listener:
    def begin(self, unit): pass
    def say(self, sentence): pass
    def show(self, findings): pass
    def event(self, event, progress, seconds, seconds_left): tell("reached", progress.step)
sizes = dict(d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, n_decoder_layers=1, dropout=0.3)
recipe = Recipe(data=DataRecipe(train=("pairs.en", "pairs.de")), tokenizer=TokenizerRecipe(vocab_size=300), model=sizes,
                batch=BatchRecipe(tokens=500), loop=LoopRecipe(steps=30, evaluate_every={INTERVAL}))
def sit(out):
    train(recipe, out, device=torch.device("cpu"), reporter=Listener(), resume=(out / "latest").exists())
for line in sys.stdin:
    pid = os.fork()
    if pid:
        tell("born", pid)
        tell("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        continue
    try:
        sit(Path(line.strip()))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
"""

Sit = Callable[..., tuple[int, int]]


@contextmanager
def sittings(folder: Path) -> Iterator[Sit]:
    """`sit(out, (reports, seconds))` trains in `out`, and is killed so long after so many reports; else at its end.

    It returns the last update that the run told of, and the exit code.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", SITTINGS], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    told, orders = process.stdout, process.stdin

    def sit(out: str, moment: tuple[int, float] | None = None) -> tuple[int, int]:
        print(out, file=orders, flush=True)
        reached, reports, pid = 0, 0, 0
        while words := told.readline().split():
            what, number = words[0], int(words[1])
            if what == "ended":
                return reached, number
            if what == "born":
                pid = number
            else:
                reached, reports = number, reports + 1
            if moment and pid and reports >= moment[0]:
                time.sleep(moment[1])
                moment = None
                with suppress(ProcessLookupError):  # it may have ended just now
                    os.kill(pid, signal.SIGKILL)
        raise AssertionError("the process that starts the sittings is gone")

    with process:
        yield sit
        orders.close()


def saved(run: Path) -> int:
    """The update of the last checkpoint, which loads; as does the model that users are given."""
    if (name := read_pointer(run / "latest")) is None:
        return 0
    load_model(run)
    return int(load_model(run / "checkpoints" / name).about["training"]["steps"])


def finished(folder: Path) -> None:
    """The run that was killed ended as the one that was not, and left nothing lying about."""
    one, two = (folder / run / "checkpoints" / "final" / WEIGHTS for run in ("whole", "killed"))
    assert one.read_bytes() == two.read_bytes()
    assert not [path for path in (folder / "killed").rglob(".*") if path.name.startswith((".tmp-", ".old-"))]


def check(data: Path, folder: Path, *, kills: int, seed: int) -> None:
    """Kill so many sittings at seeded moments; a run that reaches its end is compared and begun anew."""
    for language in ("en", "de"):
        with gzip.open(data / f"train.{language}.gz", "rt", encoding="utf-8") as file:
            (folder / f"pairs.{language}").write_text("".join(line for line, _ in zip(file, range(200), strict=False)))
    dice = random.Random(seed)
    with sittings(folder) as sit:
        began = time.monotonic()
        assert sit("whole")[1] == 0
        whole, killed = time.monotonic() - began, folder / "killed"
        while kills:
            reports = dice.randrange(8)
            reached, code = sit("killed", (reports, dice.uniform(0, whole / 20 if reports else whole / 4)))
            assert reached - saved(killed) <= INTERVAL, "more than an interval was lost"
            if code == 0:
                finished(folder)
                shutil.rmtree(killed)
            else:
                assert code == -signal.SIGKILL
                kills -= 1
        assert sit("killed")[1] == 0
        finished(folder)


@pytest.mark.whole
def test_killed_ten_times(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    check(data_dir("multi30k"), tmp_path, kills=10, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_killed_two_hundred_times(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    check(data_dir("multi30k"), tmp_path, kills=200, seed=2)
