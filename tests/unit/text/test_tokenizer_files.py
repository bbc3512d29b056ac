"""Fault 9: a malformed or huge tokenizer.json is a CheckpointError that names it, in under 5 seconds, no panic."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from regard.errors import CheckpointError
from regard.text import Tokenizer
from regard.text.backend import LARGEST_FILE

BROKEN = {
    "empty": "",
    "not JSON": "<html>not found</html>",
    "a Git-LFS pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "nothing in it": "{}",
    "deep": "[" * 1_000_000,
}
EDITS = {
    "no model": ("model", None),
    "a panic in the normalizer": ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    "a panic in use": ("pre_tokenizer", {"type": "FixedLength", "length": 0}),
    "a regular expression": ("normalizer", {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}),
    "an unknown kind": ("decoder", {"type": "Nobody"}),
    "no vocabulary": ("model", {"type": "WordLevel", "vocab": {}, "unk_token": "<unk>"}),
    "negative ids": ("model", {"type": "WordLevel", "vocab": {"<unk>": -1}, "unk_token": "<unk>"}),
    "merges of unknown pieces": ("model", {"type": "BPE", "vocab": {"a": 0}, "merges": [["x", "y"]]}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Tokenizer.train(["a man"] * 3, vocab_size=300).save(tmp_path)
    return tmp_path


def _refused(folder: Path, name: str) -> str:
    start = time.perf_counter()
    with pytest.raises(CheckpointError) as caught:
        Tokenizer.load(folder)
    assert time.perf_counter() - start < 5
    assert str(caught.value).startswith(str(folder / name)) and len(str(caught.value)) < 2_000
    return str(caught.value)


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_broken_file(folder: Path, text: str, name: str) -> None:
    (folder / name).write_text(text)
    if (name, text) == ("tokenizer_config.json", "{}"):  # a vocabulary may lack every control token
        assert Tokenizer.load(folder).roles == {}
    else:
        _refused(folder, name)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_malformed_tokenizer(folder: Path, edit: tuple[str, object]) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), edit[0]: edit[1]}))
    _refused(folder, "tokenizer.json")


def test_random_bytes_and_cut_files(folder: Path) -> None:
    path = folder / "tokenizer.json"
    whole = path.read_bytes()
    for part in (whole[: len(whole) // 2], whole[:-2], b"\xff\xfe" + whole, base64.b64decode(b"AAECAw==") * 99):
        path.write_bytes(part)
        _refused(folder, "tokenizer.json")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_huge_or_missing_file(folder: Path, name: str) -> None:
    with (folder / name).open("r+b") as file:
        file.truncate(LARGEST_FILE + 1)
    assert "too large" in _refused(folder, name)
    (folder / name).unlink()
    assert "cannot be read" in _refused(folder, name)
