"""Laws 23 and 25: a run that is killed goes on as if it had not been, and is a model at any moment.

What is unusual: the runs are real ones, in processes of their own that end by SIGKILL at a moment given by a number
(`sitting`).
What it does not know: how a checkpoint is written, and what a task is.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.config import to_toml, to_tree
from regard.errors import CheckpointError
from regard.hub.atomic import read_pointer
from regard.hub.folder import load_model
from regard.hub.weights import WEIGHTS, read_weights
from regard.laws.law import law
from regard.laws.lesson import relative
from regard.laws.trial import Broken, Undecided
from regard.training.recipe import Recipe

RANKS = 2
CLOSE = 1e-5
"""How near, relatively, losses are on another number of ranks, whose sums round otherwise."""
LATER = 0.003
"""Seconds after an operation on files in which a kill falls into what follows it, at most."""
SAVED = (WEIGHTS, "state/optimizer.safetensors", "state/trained.safetensors")
"""What of a checkpoint must be the same."""
SITTINGS = (sys.executable, "-m", "regard.laws.sitting")


@dataclass(frozen=True)
class Rerun:
    """A run to be killed and gone on with.

    Attributes:
        recipe: of some ten updates, its files at hand; it should accumulate and drop out.
        folder: where the runs are made, empty.
        kills: how often law 25 kills.
        threads: of each run.
        command: what starts the process that starts the sittings.
    """

    recipe: Recipe
    folder: Path
    kills: int = 5
    threads: int = 1
    command: tuple[str, ...] = SITTINGS
    seed: int = 0
    tolerance: ClassVar[float] = 0.0

    @classmethod
    @contextmanager
    def ready(cls, given: Rerun, seed: int) -> Iterator[Rerun]:
        """The run, its moments drawn by `seed`."""
        yield replace(given, seed=seed)

    def at(self, run: str) -> Path:
        """The folder of a run."""
        return self.folder / run

    def saved(self, run: str, step: int) -> Iterator[dict[str, torch.Tensor]]:
        """The tensors of a checkpoint, file by file."""
        files = (self.at(run) / "checkpoints" / f"step-{step:06d}" / name for name in SAVED)
        yield from (read_weights(file) for file in files if file.exists())


@dataclass
class Sitting:
    """What was told of one: by update the loss and which samples it was made of, of the first rank."""

    codes: list[int] = field(default_factory=list)
    losses: dict[int, str] = field(default_factory=dict)
    samples: dict[int, str] = field(default_factory=dict)
    epoch: int = 0
    """Updates that see every sample once."""
    operations: int = 0
    """On files of the run's folder, of a sitting that ended by itself."""

    def hear(self, report: dict[str, Any]) -> None:
        """Add one report."""
        self.codes = report.get("ended", self.codes)
        self.operations, self.epoch = report.get("operations", self.operations), report.get("epoch", self.epoch)
        for name, own in (("loss", self.losses), ("samples", self.samples)):
            if name in report and report["rank"] == 0:
                own[report["update"]] = report[name]


Sit = Callable[..., Sitting]


@contextmanager
def sittings(rerun: Rerun) -> Iterator[Sit]:
    """`sit(recipe, "run", moment=("update", 5))` trains in the run's folder, goes on there if it can, and may die.

    Broken where a sitting ends otherwise than was ordered.
    """
    home = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    errors = (rerun.folder / "errors.txt").open("w+", encoding="utf-8")
    process = subprocess.Popen(
        rerun.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip

    def sit(recipe: Recipe, *runs: str, moment: tuple[Any, ...] | None = None) -> Sitting:
        assert process.stdin and process.stdout
        file = rerun.folder / "recipe.toml"
        file.write_text(to_toml(to_tree(recipe)), encoding="utf-8")
        order = {"recipe": str(file), "out": [str(rerun.at(run)) for run in runs], "threads": rerun.threads,
                 "meet": str(rerun.at(f"meet-{runs[0]}")), "moment": moment}  # fmt: skip
        print(json.dumps(order), file=process.stdin, flush=True)
        told = Sitting()
        while not told.codes and (line := process.stdout.readline()):
            told.hear(json.loads(line))
        expected = {0} if moment is None else {0, -signal.SIGKILL}
        if not told.codes or not {*told.codes} <= expected:
            errors.seek(0)
            last = [line for line in errors.read().splitlines() if line[:1].strip()][-1:]  # what a traceback ends in
            raise Broken(f"a sitting in {' and '.join(runs)} stopped: {' '.join(last) or 'nothing was said'}")
        return told

    with errors, process:
        try:
            yield sit
        finally:
            assert process.stdin
            process.stdin.close()


@law(23, "a run that was killed and resumed is the run that was not", on=Rerun, exact=True)
def resumed(rerun: Rerun) -> Iterator[float]:
    """The same samples in the same updates, losses and weights bit-equal (accelerate #4071, OpenNMT-py #2517).

    A checkpoint in the middle, a kill after the next update, which must be made again. On another number of ranks,
    without dropout: the same samples, and losses to 1e-5.
    """
    half = max(2, rerun.recipe.loop.steps // 2)
    loop = replace(rerun.recipe.loop, steps=2 * half, evaluate_every=half, keep=9)
    recipe, moment = replace(rerun.recipe, loop=loop), ("update", half + 1)
    with sittings(rerun) as sit:
        whole, first, second = sit(recipe, "whole"), sit(recipe, "cut", moment=moment), sit(recipe, "cut")
        if half % whole.epoch == 0:
            raise Undecided("the run is cut between two epochs")
        if [*first.losses] != [*range(1, half + 2)] or [*second.losses] != [*range(half + 1, 2 * half + 1)]:
            raise Broken("the run does not go on where its last checkpoint is")
        for one in (first, second):
            yield sum(loss != whole.losses[update] for update, loss in one.losses.items())
            yield sum(samples != whole.samples.get(update) for update, samples in one.samples.items())
        for ours, theirs in zip(rerun.saved("cut", 2 * half), rerun.saved("whole", 2 * half), strict=True):
            yield sum(not torch.equal(ours[name], tensor) for name, tensor in theirs.items())
        yield from _on_more_ranks(rerun, sit, recipe, half)


def _on_more_ranks(rerun: Rerun, sit: Sit, recipe: Recipe, half: int) -> Iterator[float]:
    still = replace(recipe, model={**recipe.model, "dropout": 0.0, "attn_dropout": 0.0}, rdrop=0.0)
    runs = [f"rank-{own}" for own in range(RANKS)]
    alone, _ = sit(still, "alone"), sit(still, runs[0], moment=("update", half + 1))
    for run in runs[1:]:
        shutil.copytree(rerun.at(runs[0]), rerun.at(run))
    several = sit(still, *runs)
    if [*several.losses] != [*range(half + 1, 2 * half + 1)]:
        raise Broken("the run does not go on where its last checkpoint is")
    for update, loss in several.losses.items():
        yield several.samples.get(update) != alone.samples.get(update)
        yield relative(float.fromhex(loss), float.fromhex(alone.losses[update])) > CLOSE


@law(25, "killed at any moment, a run is a model that loads and goes on to the same end", on=Rerun, exact=True)
def killed(rerun: Rerun) -> Iterator[float]:
    """At the operations on files that a seed draws, or a little after them (transformers #35580, lightning #688)."""
    dice, left, run = random.Random(rerun.seed), rerun.kills, rerun.at("killed")
    with sittings(rerun) as sit:
        whole = sit(rerun.recipe, "whole")
        while left:
            moment = ("operation", dice.randrange(whole.operations), dice.choice((0.0, dice.uniform(0, LATER))))
            sitting = sit(rerun.recipe, "killed", moment=moment)
            if sitting.codes == [0]:
                yield _other_end(rerun)
                shutil.rmtree(run)
                continue
            left -= 1
            lost = max(sitting.losses, default=0) - _kept(run, moment)
            if lost > rerun.recipe.loop.evaluate_every:
                raise Broken(f"killed at {moment}, a run lost {lost} updates")
        sit(rerun.recipe, "killed")
        yield _other_end(rerun)


def _kept(run: Path, moment: tuple[Any, ...]) -> int:
    """The update of the last checkpoint, which loads; as does the model that users are given."""
    try:
        if (name := read_pointer(run / "latest")) is None:
            return 0
        load_model(run)
        return int(load_model(run / "checkpoints" / name).about["training"]["steps"])
    except CheckpointError as error:
        raise Broken(f"killed at {moment}, a run is no model: {error.what} ({error.where})") from None


def _other_end(rerun: Rerun) -> float:
    """Whether the run that was killed ended otherwise than the one that was not, or left something lying about."""
    one, two = (rerun.at(run) / "checkpoints" / "final" / WEIGHTS for run in ("whole", "killed"))
    left = [path.name for path in rerun.at("killed").rglob(".*") if path.name.startswith((".tmp-", ".old-"))]
    if left:
        raise Broken(f"a run that was killed left {left[0]} lying about")
    return float(one.read_bytes() != two.read_bytes())
