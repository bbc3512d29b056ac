"""`scripts/browser` prints a Chromium that is there, and else what to type: it installs as root alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "browser"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with what the script needs, and apt-get, which fails after it has noted how it was called."""
    for name in ("bash", "env", "cat"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    put(tmp_path / "apt-get", f'echo "$@" >> {tmp_path}/called; exit 100')
    put(tmp_path / "id", "echo 1000")
    return tmp_path


def put(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(tools: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(tools)}
    return subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=False)


def test_one_that_is_there_is_printed_and_nothing_installed(tools: Path) -> None:
    put(tools / "chromium", "exit 1")
    done = run(tools)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tools}/chromium\n", "")
    assert not (tools / "called").exists()


def test_who_may_not_install_is_told_what_to_type(tools: Path) -> None:
    done = run(tools)
    assert done.returncode == 1 and done.stdout == "" and not (tools / "called").exists()
    assert "sudo sh -c 'apt-get update && apt-get install" in done.stderr


def test_root_installs_and_a_failure_is_told(tools: Path) -> None:
    put(tools / "id", "echo 0")
    put(tools / "sh", "")
    done = run(tools)
    assert (tools / "called").read_text() == "update\n"
    assert done.returncode == 1 and done.stdout == "" and "to install it:" in done.stderr
