"""One process at a time in a run folder.

What it is: a lock that the kernel drops when its process ends, however it ends, so no lock file left behind ever locks
anybody out. Whoever takes it sweeps away what crashed saves left.
What is unusual: it is `flock`, so it is for POSIX systems, and child processes made by fork share it.
What it does not know: what the folder holds; readers need no lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError
from regard.hub.atomic import cannot_write, recover_folder, remove_folder, remove_path
from regard.processes import alive


@contextmanager
def lock_folder(run_dir: Path) -> Iterator[None]:
    """Hold the run folder (made if absent) for this process alone, and sweep away what crashed saves left in it.

    Raises:
        UserError: another process holds it; the message names its pid.
    """
    path = run_dir / ".lock"
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise cannot_write(run_dir, error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
            raise UserError(
                "another process is writing to this run folder",
                where=run_dir,
                got=f"a lock held by process {owner}",
                mend=f"wait for it, stop it (kill {owner}), or choose another --out",
            ) from None
        os.truncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        _sweep(run_dir)
        yield
    finally:
        os.close(handle)


def _sweep(run_dir: Path) -> None:
    """Remove what dead writers left. Our own pid counts as dead: a restarted container hands out the same numbers."""
    for path in [*run_dir.rglob(".tmp-*")]:
        pid = path.name.rpartition("-")[2]
        if pid.isdigit() and (int(pid) == os.getpid() or not alive(int(pid))):
            remove_path(path)
    for aside in [*run_dir.rglob(".old-*")]:
        recover_folder(aside.with_name(aside.name.removeprefix(".old-")))
        if aside.exists():
            remove_folder(aside)
