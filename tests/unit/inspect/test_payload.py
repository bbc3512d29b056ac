"""What goes over the wire: numbers in half the bytes, rows, and what tells one model from another."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from regard.errors import ConfigError, DataError
from regard.inspect.payload import as_dtype, error_json, fingerprint, name_of, packed, rows_of, write_npz


def test_what_half_cannot_hold_is_its_nearest_number() -> None:
    tensor = np.array([0.1, 70_000, -1.7e38, np.float32(1e-9)], dtype=np.float32)
    half = as_dtype(tensor, "float16")
    assert half.tolist() == [np.float16(0.1), 65504, -65504, 0]
    assert as_dtype(tensor, "float32").tobytes() == tensor.tobytes()
    assert as_dtype(np.array([[1, 0]], dtype=np.uint8), "float16").tolist() == [[1, 0]]
    with pytest.raises(ConfigError, match="float16 or float32"):
        as_dtype(tensor, "float64")


def test_bytes_are_little_endian_and_in_c_order() -> None:
    tensor = np.arange(6, dtype=">f4").reshape(2, 3).T  # neither
    body, (where,) = packed([("x", as_dtype(tensor, "float32"))])
    assert where == {"name": "x", "shape": [3, 2], "dtype": "float32", "offset": 0}
    assert np.frombuffer(body, "<f4").tolist() == [0, 3, 1, 4, 2, 5]


def test_each_tensor_begins_where_it_is_said_to() -> None:
    tensors = {name: as_dtype(np.full(n, n), "float16") for name, n in (("a", 3), ("b", 1), ("c", 0), ("d", 2))}
    body, index = packed(tensors.items())
    for where in index:
        start, (size,) = where["offset"], where["shape"]
        assert start % 4 == 0 and np.array_equal(np.frombuffer(body, "<f2", size, start), tensors[where["name"]])


def test_rows_are_those_of_queries() -> None:
    tensor = np.arange(24).reshape(2, 3, 4)
    assert np.array_equal(rows_of(tensor, "1:3"), tensor[:, 1:3]) and rows_of(tensor, None) is tensor
    assert np.array_equal(rows_of(tensor[0], "0:1"), tensor[0, :1])
    for wrong in ("", "1", "1:", "2:2", "2:4", "-1:2", "a:b", "1:2:3", "٠:١", "1e0:2"):
        with pytest.raises(ConfigError, match="no such rows"):
            rows_of(tensor, wrong)


def test_a_fingerprint_changes_with_the_model_and_with_nothing_else(tmp_path: Path) -> None:
    for name in ("MANIFEST.sha256", "model.safetensors"):
        (tmp_path / name).write_text("1")
    first = fingerprint(tmp_path)
    (tmp_path / "note.txt").write_text("of a reader")
    assert fingerprint(tmp_path) == first
    (tmp_path / "MANIFEST.sha256").write_text("2")
    assert fingerprint(tmp_path) != first
    (tmp_path / "MANIFEST.sha256").unlink()
    second = fingerprint(tmp_path)
    os.utime(tmp_path / "model.safetensors", (1, 1))
    assert fingerprint(tmp_path) != second
    with pytest.raises(OSError):
        fingerprint(tmp_path / "none")


@pytest.mark.parametrize(("folder", "name"), [("runs/en-de/checkpoints/final", "en-de"), ("models/gpt2", "gpt2")])
def test_a_checkpoint_is_called_as_its_run(tmp_path: Path, folder: str, name: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert name_of(tmp_path / folder) == name


def test_an_error_keeps_its_parts() -> None:
    told = error_json(DataError("no text", where=Path("a.txt"), got=3))
    assert told == {"error": {"what": "no text", "where": "a.txt", "expected": None, "got": "3", "mend": None}}


def test_arrays_are_written_by_their_names() -> None:
    stream, tensors = io.BytesIO(), {"decoder.layers.0.self_attn.q": np.eye(3, dtype=np.float32), "x": np.zeros(2)}
    write_npz(stream, tensors)
    stream.seek(0)
    with np.load(stream) as arrays:
        assert set(arrays) == set(tensors) and all(np.array_equal(arrays[name], tensors[name]) for name in tensors)
