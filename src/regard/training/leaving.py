"""Signals that ask a training to leave: what a scheduler sends before it takes the machine away, and Ctrl-C.

    SIGTERM, SIGUSR1    exit code 75
    SIGINT              exit code 130

What is unusual: a signal only leaves a note, which the loop reads between two updates, so that everything done is
saved and the run that goes on is the uninterrupted one. The next signal of that kind ends the process as ever.
What it does not know: what is saved, and where.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from regard.errors import LeftError

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1", "SIGINT") if hasattr(signal, name))
"""Windows has no SIGUSR1."""


@dataclass
class Note:
    """What came while somebody listened; None: nothing yet."""

    came: signal.Signals | None = None

    def asked(self) -> bool:
        """Whether to leave."""
        return self.came is not None

    def left(self, out: Path, step: int, *, saved: bool) -> BaseException:
        """What to raise once the loop has ended because of it: of a run in `out`, after so many updates in all."""
        assert self.came is not None
        if saved:
            return LeftError(out, step, self.came.name, 130 if self.came == signal.SIGINT else 75)
        return KeyboardInterrupt() if self.came == signal.SIGINT else SystemExit(128 + self.came)


@contextmanager
def listening() -> Iterator[Note]:
    """A note of what comes within; in a thread that no signal reaches it stays empty."""
    note = Note()
    if threading.current_thread() is not threading.main_thread():
        yield note
        return

    def take(number: int, frame: FrameType | None) -> None:
        note.came = signal.Signals(number)
        signal.signal(number, before[number])

    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in SIGNALS}
    for number in before:
        signal.signal(number, take)
    try:
        yield note
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
