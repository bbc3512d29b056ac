"""Fault 8: the tokenizer is another model's. (Other sizes in config.json: tests/unit/hub/test_folder.py.)

Without a manifest a vocabulary that is no larger than the model's cannot be told from the right one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import regard
from regard.errors import CheckpointError
from regard.hub.atomic import MANIFEST
from regard.text import Tokenizer

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(workplace: Path, tmp_path: Path) -> Path:
    """A model folder with a tokenizer of some 1,000 characters."""
    copy = shutil.copytree(workplace / "run" / "checkpoints" / "final", tmp_path / "model")
    Tokenizer.train(["".join(map(chr, range(0x4E00, 0x5200)))], kind="chars", vocab_size=1_100).save(copy)
    return copy


def test_the_manifest_tells(folder: Path, command: Command) -> None:
    code, out, err = command("translate", str(folder), "test.en")
    assert (code, out) == (4, "") and str(folder / "tokenizer.json") in err and "Traceback" not in err


def test_ids_that_the_model_has_no_vector_for_tell(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="no vector for") as caught:
        regard.load(folder)
    assert "600" in str(caught.value.expected) and caught.value.exit_code == 4
