"""What this process may use of its machine, cores and memory by its affinity and control group, and who else is there.

What is unusual: the whole machine is not asked where a control group is narrower, as in a container.
What it does not know: devices, and how fast anything is (`machine.py`). Off Linux some facts are None, that is unknown.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

LOOKS = 4
"""At who is running, 5 ms apart: one alone may fall between two runs of a busy neighbour."""


def usable_cores() -> int:
    """Cores this process may use: its affinity, or less under a control group's quota (rounded up)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _control_groups("cpu"):
        names = ("cpu.max",) if (folder / "cpu.max").exists() else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        match [number for name in names for number in _integers(folder / name)]:
            case [quota, period] if quota > 0:
                cores = min(cores, math.ceil(quota / period))
    return cores


def others_at_work() -> bool:
    """Whether anything but this thread wants a core just now; False where the system does not say."""
    file = Path("/proc/loadavg")
    if not file.exists():
        return False
    for _ in range(LOOKS):
        if int(file.read_text().split()[3].partition("/")[0]) > 1:  # tasks that run just now, and we are one
            return True
        time.sleep(0.005)
    return False


def memory() -> tuple[int | None, int | None]:
    """(all, available now) bytes of memory for this process, within its control group; None where unknown."""
    kibibytes = _named_integers(Path("/proc/meminfo"))
    if not kibibytes:
        unix = hasattr(os, "sysconf")
        return (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if unix else None), None
    total, available = kibibytes["MemTotal:"] * 1024, kibibytes["MemAvailable:"] * 1024
    for folder in _control_groups("memory"):
        limit = _integers(folder / "memory.max") or _integers(folder / "memory.limit_in_bytes")
        used = _integers(folder / "memory.current") or _integers(folder / "memory.usage_in_bytes")
        if limit and used:
            stat = _named_integers(folder / "memory.stat")  # file pages count as used, but are given back when needed
            files = stat.get("total_inactive_file", stat.get("inactive_file", 0))
            total, available = min(total, limit[0]), min(available, limit[0] - used[0] + files)
    return total, available


def _control_groups(controller: str) -> list[Path]:
    """Folders of this process's control group and its ancestors, in version 1 and 2; none off Linux.

    A limit may sit on any of them. In a container the path of /proc/self/cgroup may lie outside: then the root counts.
    """
    file = Path("/proc/self/cgroup")
    folders = []
    for line in file.read_text().splitlines() if file.exists() else []:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):
            root = Path("/sys/fs/cgroup") / (controller if controllers else "")
            inner = root / path.lstrip("/")
            folders += [place for place in (inner, *inner.parents) if place.is_relative_to(root)]
    return folders


def _integers(file: Path) -> list[int]:
    """The integers in a one-line file; none when it is absent or says "max" (no limit)."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []


def _named_integers(file: Path) -> dict[str, int]:
    """The lines `name integer ...` of a file under /proc or /sys; empty when it is absent."""
    if not file.exists():
        return {}
    return {row[0]: int(row[1]) for row in map(str.split, file.read_text().splitlines())}
