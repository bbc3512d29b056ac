"""Other processes of this machine. What it does not know: what they do."""

from __future__ import annotations

import os


def alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it lives, and belongs to somebody else
        return True
    return True
