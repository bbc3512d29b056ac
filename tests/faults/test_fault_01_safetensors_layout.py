"""Fault 1: safetensors header length 2^63 or > 100 MB; truncated body; holes; overlap; shape overflow."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from regard.errors import CheckpointError
from regard.hub.weights import read_weights


def entry(shape: Any, begin: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def save(path: Path, header: Any, body: int) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(body))


def refused(path: Path) -> str:
    """The error's text, after checking that it took little memory and names the file."""
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError) as caught:
            read_weights(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert caught.value.exit_code == 4
    assert str(path) in str(caught.value)
    assert None not in (caught.value.expected or caught.value.got, caught.value.mend)
    return str(caught.value)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 100_000_001])
def test_a_header_beyond_all_bounds(tmp_path: Path, length: int) -> None:
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(length.to_bytes(8, "little") + b"{")
        file.truncate(200_000_000)  # a hole on the disk: the length fits in the file, and is refused all the same
    assert "the header is too long" in refused(tmp_path / "model.safetensors")


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(path, {"a": entry([2], 0, 8), "b": entry([3], 8, 20)}, body=20)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert "'b': its data is cut off" in refused(path)
    path.write_bytes(whole[:40])
    assert "truncated within its header" in refused(path)
    path.write_bytes(whole[:5])
    refused(path)
    path.write_bytes(b"")
    assert "an empty file" in refused(path)


@pytest.mark.parametrize(
    ("header", "body", "problem"),
    [
        ({"a": entry([2], 0, 8), "b": entry([2], 12, 20)}, 20, "'b': there is a hole"),
        ({"a": entry([2], 4, 12)}, 12, "'a': there is a hole"),
        ({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, 12, "'b': its data overlaps"),
        ({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}, 8, "'b': its data overlaps"),
        ({"a": entry([2], 0, 8)}, 9, "bytes that belong to no tensor"),
        ({"a": entry([2**62, 2**62], 0, 8)}, 8, "'a': its shape overflows"),
        ({"a": entry([2**62, 4, 0], 0, 0)}, 0, "'a': its shape overflows"),
        ({"a": entry([0, 2**63], 0, 0)}, 0, "'a': its shape overflows"),
        ({"a": entry([3], 0, 8)}, 8, "'a': its shape and its data disagree"),
        ({"a": entry([2], 8, 0)}, 8, "'a': its shape and its data disagree"),
        ({"a": entry([-2], 0, 8)}, 8, "'a': malformed"),
        ({"a": entry([2.0], 0, 8)}, 8, "'a': malformed"),
        ({"a": entry([True, 2], 0, 8)}, 8, "'a': malformed"),
        ({"a": entry(None, 0, 8)}, 8, "'a': malformed"),
        ({"a": entry([2], -8, 0)}, 8, "'a': malformed"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}, 8, "'a': malformed"),
        ({"a": entry([2], 0, 8, dtype="F33")}, 8, "'a': unknown dtype"),
        ({"a": entry([2], 0, 8, dtype=["F32"])}, 8, "'a': unknown dtype"),
        ({"a": 7}, 8, "'a': unknown dtype"),
        ({"__metadata__": {"step": 7}, "a": entry([2], 0, 8)}, 8, "malformed safetensors"),
    ],
)
def test_a_header_that_does_not_add_up(tmp_path: Path, header: Any, body: int, problem: str) -> None:
    save(tmp_path / "model.safetensors", header, body)
    assert problem in refused(tmp_path / "model.safetensors")
