"""The checkpoints of a run: their names, which of them are kept, and the weights that a run ends with.

    checkpoints/step-000500/    of a look at the development examples: a model folder with state/ in it
    checkpoints/left-000520/    of a signal between two looks; gone once there is a later one

What is unusual: what a signal left is not one of those that are averaged, so a run that goes on from it ends as the
uninterrupted one does.
What it does not know: what a checkpoint consists of (training/run.py, training/state.py).
"""

from __future__ import annotations

from pathlib import Path

import torch

from regard.hub.atomic import read_pointer, remove_folder
from regard.hub.weights import load_strict, read_model_weights
from regard.model import Model
from regard.tasks.base import TrainingData, cost


def step_name(step: int) -> str:
    """The folder of a look's checkpoint."""
    return f"step-{step:06d}"


def left_name(step: int) -> str:
    """The folder of a checkpoint that a signal asked for."""
    return f"left-{step:06d}"


def prune(out: Path, keep: int) -> None:
    """Remove old checkpoints of the run in `out`; never the latest, the best, nor the last `keep` of looks."""
    folder = out / "checkpoints"
    old = sorted(folder.glob("step-*"))[:-keep] + sorted(folder.glob("left-*"))
    needed = {read_pointer(out / "best"), read_pointer(out / "latest")}
    for checkpoint in old:
        if checkpoint.name not in needed:
            remove_folder(checkpoint)


def best_weights(model: Model, data: TrainingData, out: Path, average: int) -> dict[str, float]:
    """Leave in the model what does better on the development part: the best checkpoint, or the mean of the last ones.

    Args:
        average: how many make the mean; under 2: none.

    Returns:
        The scores of what it is left with.
    """
    folder = out / "checkpoints"
    best = folder / str(read_pointer(out / "best"))
    load_strict(model, read_model_weights(best), best)
    scores = data.evaluate(model)
    steps = sorted(folder.glob("step-*"))[-average:]
    if average < 2 or len(steps) < 2:
        return scores
    every = [read_model_weights(step) for step in steps]
    load_strict(model, {n: torch.stack([w[n] for w in every]).mean(0) for n in every[0]}, steps[-1])
    averaged = data.evaluate(model)
    if cost(averaged) < cost(scores):
        return averaged
    load_strict(model, read_model_weights(best), best)
    return scores
