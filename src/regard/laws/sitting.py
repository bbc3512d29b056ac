"""Sittings of runs, for the laws that kill them: `python -m regard.laws.sitting`, orders on stdin, reports on stdout.

    {"recipe": "recipe.toml", "out": ["run"], "threads": 1, "meet": null, "moment": ["update", 5]}
    {"samples": "9f2c..", "update": 1, "epoch": 7, "rank": 0}  {"loss": "0x1.8p+1", ..}  ..  {"ended": [-9]}

What is unusual: each sitting is a fork of this one process that has imported regard, so that hundreds can be killed;
several folders in `out` are as many ranks of one group, each with a folder of its own. A sitting kills itself, by
SIGKILL, at the moment that was ordered: after an update, or so long after so many operations on files of its folder.
Where it dies is thus decided by a number and no clock.
What it does not know: which law asks, and what is made of its reports.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from regard.data import Finding
from regard.laws.trial import replaced
from regard.training import run
from regard.training.loop import Event, Loop, StepEvent
from regard.training.run import read_recipe, train
from regard.training.state import Progress
from regard.training.step import rank

CPU = torch.device("cpu")
LATE = ("torch._dynamo", "sacrebleu", "matplotlib.backends.backend_svg", "matplotlib.figure")
"""What a run imports late, with an optimizer, a score, a picture; here once for all sittings: together some seconds."""


def tell(**report: Any) -> None:
    """One report, in one write, so that those of several processes do not mix."""
    os.write(1, (json.dumps(report) + "\n").encode())


def die() -> None:
    """End at once, as if the power had gone."""
    os.kill(os.getpid(), signal.SIGKILL)


class Told:
    """A reporter that tells of every update and every checkpoint, and may die after an update."""

    def __init__(self, last: int | None) -> None:
        self.last = last

    def begin(self, unit: str) -> None:
        """Nothing to tell."""

    def say(self, sentence: str) -> None:
        """Nothing to tell."""

    def show(self, findings: Iterable[Finding]) -> None:
        """Nothing to tell."""

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        """The loss of an update, to the last bit."""
        if isinstance(event, StepEvent):
            tell(rank=rank(), update=event.step, loss=event.loss.hex())
            if event.step == self.last:
                die()


class Noted:
    """Training data that tells of which samples each batch is made."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Any:
        """The batch."""
        samples = hashlib.sha256(repr(self._data.examples(step)).encode()).hexdigest()
        tell(rank=rank, update=step + 1, samples=samples, epoch=self._data.batches_per_epoch)
        return self._data.batch(step, rank, world)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)


class Watched(Loop):
    """The loop on data that tells."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.data = Noted(self.data)


class Operations:
    """Counts what is done to files under a folder, and dies `seconds` after the operation of a number.

    Python's audit events come before what they tell of. Between two of them nothing of the folder changes but the
    bytes of the one file being written, into which a kill some milliseconds later may fall.
    """

    def __init__(self, folder: Path, number: int | None, seconds: float = 0.0) -> None:
        self.folder, self.number, self.seconds, self.count = str(folder), number, seconds, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook."""
        if not arguments or not isinstance(arguments[0], str | os.PathLike):
            return
        if str(arguments[0]).startswith(self.folder):
            if self.count == self.number:
                threading.Timer(self.seconds, die).start() if self.seconds else die()
            self.count += 1


def sit(order: dict[str, Any], own: int) -> NoReturn:
    """One rank's sitting, in a process of its own."""
    try:
        torch.set_num_threads(order["threads"])
        out = Path(order["out"][own]).absolute()
        kind, number, *seconds = order["moment"] or (None, None)
        operations = Operations(out, number if kind == "operation" else None, *seconds)
        sys.addaudithook(operations)
        if (world := len(order["out"])) > 1:
            dist.init_process_group("gloo", init_method=f"file://{order['meet']}", rank=own, world_size=world,
                                    timeout=timedelta(seconds=60))  # fmt: skip
        reporter = Told(number if kind == "update" else None)
        with replaced(run, "Loop", Watched):
            train(read_recipe(Path(order["recipe"])), out, device=CPU, reporter=reporter, began=time.monotonic(),
                  resume=(out / "latest").exists())  # fmt: skip
        tell(rank=own, operations=operations.count)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    """Carry out order after order, until there are no more."""
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        order, pids = json.loads(line), list[int]()
        for own in range(len(order["out"])):
            if not (pid := os.fork()):
                sit(order, own)
            pids.append(pid)
        tell(ended=[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])


if __name__ == "__main__":
    main()
