"""Whoever holds a run folder finds no leftovers in it, and the kernel, not a file, keeps others out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.hub.atomic import commit_folder, verify_manifest
from regard.hub.lock import lock_folder


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_leftovers_of_dead_processes_are_swept_and_of_living_ones_kept(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    for name in ("step-1", ".old-step-2", "step-3", ".old-step-3"):
        commit_folder(checkpoints / name, lambda folder: (folder / "file").write_text("whole"))
    for place in (f".tmp-step-9-{dead_pid()}", f".tmp-step-9-{os.getpid()}", f".tmp-step-9-{os.getppid()}"):
        (checkpoints / place).mkdir()
        (checkpoints / place / "half").write_text("h")
    (tmp_path / f".tmp-latest-{dead_pid()}").write_text("h")
    (tmp_path / ".tmp-notes").write_text("a user's own file")
    with lock_folder(tmp_path):
        assert {path.name for path in checkpoints.iterdir()} == {
            "step-1",
            "step-2",
            "step-3",
            f".tmp-step-9-{os.getppid()}",
        }
        assert verify_manifest(checkpoints / "step-2")
        assert {path.name for path in tmp_path.iterdir()} == {".lock", ".tmp-notes", "checkpoints"}


def test_the_lock_is_free_again_after_its_block_and_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path / "run"):
        with pytest.raises(UserError, match=f"process {os.getpid()}"), lock_folder(tmp_path / "run"):
            pass
        raise ZeroDivisionError
    with lock_folder(tmp_path / "run"):
        pass


def test_a_stale_lock_file_keeps_nobody_out(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text(f"{os.getppid()} and more\n")
    with lock_folder(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
