"""Fault 9, through the command: a malformed or huge tokenizer.json (kinds: tests/unit/text/test_tokenizer_files.py)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.hub.atomic import MANIFEST

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("content", ["[" * 10**6, "{}", " " * 40 * 2**20], ids=["deep", "nothing in it", "huge"])
def test_it_is_named_with_exit_code_4(command: Command, workplace: Path, tmp_path: Path, content: str) -> None:
    folder = shutil.copytree(workplace / "run" / "checkpoints" / "final", tmp_path / "model")
    (folder / "tokenizer.json").write_text(content)
    (folder / MANIFEST).unlink()
    before = time.process_time()
    code, out, err = command("translate", str(folder), "test.en")
    assert (code, out) == (4, "") and str(folder / "tokenizer.json") in err and "Traceback" not in err
    assert time.process_time() - before < 5
