"""Where a run keeps its model as it was on the way, for whoever wants to see it learn.

    DIR/snapshots/step-000001/ .. step-001000/     model folders, their weights in float16; DIR/checkpoints/ beside them

What is unusual: they are for looking, not for going on: nothing but a model is in them, in half the bytes.
What it does not know: when one is taken (training/snapshots.py), and what is looked at (inspect).
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch

from regard.hub.atomic import reading
from regard.model import Model

SNAPSHOTS = "snapshots"
"""The folder within a run's."""


def find_snapshots(path: Path) -> list[tuple[int, Path]]:
    """The snapshots of the run that `path` belongs to: (updates, model folder), earliest first; none: an empty list.

    Args:
        path: a run's folder, or one of the folders in its `checkpoints` or `snapshots`.

    Raises:
        CheckpointError: the folder cannot be read.
    """
    path = path.resolve()
    run = path.parent.parent if path.parent.name in ("checkpoints", SNAPSHOTS) else path
    with reading(run / SNAPSHOTS):
        names = [folder for folder in (run / SNAPSHOTS).glob("step-*") if folder.name.removeprefix("step-").isdigit()]
    return sorted((int(folder.name.removeprefix("step-")), folder) for folder in names)


@torch.no_grad()
def halved(model: Model) -> Model:
    """A copy in float16; a tensor that float16 cannot hold (beyond 65,504) stays as it is."""
    small = copy.deepcopy(model)
    for parameter in small.parameters():
        half = parameter.half()
        parameter.data = half if half.isfinite().all() else parameter.data
    return small
