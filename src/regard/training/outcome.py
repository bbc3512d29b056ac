"""What a run's folder says of it before anything is read or trained: that it holds a run, or that the run has ended.

What it does not know: how a run is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.errors import ConfigError, DataError
from regard.hub.atomic import read_pointer
from regard.hub.folder import read_config
from regard.training.recipe import Recipe

ADAPT = "adapt"
"""The folder within of a run that comes first (`training.adaptation`)."""


@dataclass(frozen=True)
class Result:
    """A finished run."""

    folder: Path
    recipe: Recipe
    """With the steps that were really made: running it again is the same run."""
    reason: str
    scores: dict[str, float]
    tokens_per_second: float | None
    """None: no update was made in this sitting."""


def refuse_mixing(out: Path, *, resume: bool) -> None:
    """Raise ConfigError where a new run would overwrite another, or there is none to go on with."""
    begun = any((folder / "latest").exists() for folder in (out, out / ADAPT))
    if begun and not resume:
        raise ConfigError("this folder already holds a run", where=out,
                          mend="go on with --resume, or choose another --out")  # fmt: skip
    if resume and not begun:
        raise ConfigError("there is no run to go on with", where=out, expected="a checkpoint",
                          mend="begin anew: give the whole command of the run, without --resume")  # fmt: skip


def refuse_changed(out: Path, checkpoint: Path, hashes: Mapping[str, str]) -> str | None:
    """What to say where a run goes on under another version of torch; None: nothing has changed.

    Args:
        checkpoint: what it goes on from.
        hashes: file -> SHA-256 of what was read now; the same files may lie elsewhere.

    Raises:
        DataError: the data is not what the run began with.
    """
    training = read_config(checkpoint)["training"]
    before: dict[str, str] = training["data"]
    if sorted(before.values()) != sorted(hashes.values()):
        changed = [name for name, digest in hashes.items() if before.get(name) != digest] or [*before]
        raise DataError(
            "the data is not what this run began with", where=", ".join(changed),
            expected=f"the files of which {out} has the sums", got="other contents",
            mend=f"put them back as they were; or train its model on as another run: --from {out} --out OTHER",
        )  # fmt: skip
    version = training["versions"]["torch"]
    if version == torch.__version__:
        return None
    return (f"the run began with torch {version} and goes on with {torch.__version__}: its numbers may differ in their "
            "last bits from what one sitting would have given")  # fmt: skip


def outcome(recipe: Recipe, out: Path) -> Result | None:
    """What the run in `out` came to, where it has made all updates of the recipe and was scored."""
    if read_pointer(out / "best") != "final":
        return None
    training = read_config(out / "checkpoints" / "final")["training"]
    wanted = recipe.loop.steps if recipe.loop.stop is None else min(recipe.loop.steps, recipe.loop.stop)
    if training["steps"] < wanted:
        return None
    return Result(out, recipe, f"this run ended at update {training['steps']:,}", training["scores"], None)
