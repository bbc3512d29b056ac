"""Snapshots: a run's model as it was after 1, 2, 3, 4, 6, 10, 16 .. updates, small, for the page's slider.

What is unusual: whether one is due is a function of the step alone, five to a decade, so a resumed run takes the very
snapshots that an uninterrupted one takes; learning is quickest at first, and a logarithm looks there most often.
What it does not know: checkpoints, which are what a run goes on from.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.hub.atomic import commit_folder, remove_folder
from regard.hub.snapshots import SNAPSHOTS, find_snapshots

MOST = 24
"""Kept; of a run longer than some 40,000 updates the earliest go."""
MOST_BYTES = 5 * 10**8
"""Of disk for all of them; of a larger model none is taken."""
DUE = frozenset(round(10 ** (k / 5)) for k in range(61))
"""Updates, counted from 1, after which one is taken: 1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100, 158 .. 10^12."""


class Snapshots:
    """The snapshots of one run folder."""

    def __init__(self, run: Path, n_parameters: int) -> None:
        self.run = run
        self.bytes = MOST * 2 * n_parameters  # float16
        self.fit = self.bytes <= MOST_BYTES

    @property
    def left_out(self) -> str | None:
        """Why there will be none, for people; None where there will be some."""
        if self.fit:
            return None
        return f"no snapshots for `regard look`: {MOST} of this model would take {self.bytes / 1e9:.1f} GB of disk"

    def begin(self) -> None:
        """Remove what an earlier run left in the folder that never came to a checkpoint."""
        for _, folder in find_snapshots(self.run):
            remove_folder(folder)

    def keep(self, step: int, write: Callable[[Path], None]) -> None:
        """Take one after this update, if it is due: `write` fills its folder."""
        if not self.fit or step not in DUE:
            return
        commit_folder(self.run / SNAPSHOTS / f"step-{step:06d}", write)
        for _, folder in find_snapshots(self.run)[:-MOST]:
            remove_folder(folder)
