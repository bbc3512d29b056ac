"""Fault 13: two processes saving to one run folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.hub.lock import lock_folder

HOLD = """
import sys
from pathlib import Path
from regard.hub.lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_is_told_who_the_first_is_and_gets_the_lock_when_it_dies(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout and first.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=f"a lock held by process {first.pid}") as caught, lock_folder(tmp_path):
            pass
        assert str(tmp_path) in str(caught.value) and caught.value.exit_code == 1
        second = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        assert second.returncode != 0 and str(first.pid) in second.stderr.decode()
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        with lock_folder(tmp_path):
            pass
