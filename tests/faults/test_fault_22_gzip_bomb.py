"""Fault 22: a small compressed file that unpacks to an enormous one; and compressed files that are broken."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from regard.data import read_lines, read_pairs
from regard.errors import DataError


def test_a_bomb_stops_at_max_bytes_in_small_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_bytes(gzip.compress(b"a\n" * 1_000_000, 9))
    assert path.stat().st_size < 5_000
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.en: the file is too large"):
            for _ in read_lines(path, max_bytes=50_000):
                pass
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(DataError, match="to mend it: split it"):
        read_pairs([path, path], max_bytes=50_000)


def test_a_file_of_exactly_max_bytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_bytes(gzip.compress(b"ab\ncd\n"))
    assert list(read_lines(path, max_bytes=6)) == ["ab", "cd"]
    with pytest.raises(DataError, match="too large"):
        list(read_lines(path, max_bytes=5))


@pytest.mark.parametrize("damage", ["cut", "flip", "header"])
def test_a_broken_file_is_named(tmp_path: Path, damage: str) -> None:
    data = bytearray(gzip.compress("\n".join(f"line {i * 7919}" for i in range(5_000)).encode()))
    if damage == "cut":
        del data[-20:]
    elif damage == "flip":
        data[len(data) // 2] ^= 255
    else:
        data[2:] = b"not gzip at all"
    path = tmp_path / "a.en"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.en: the file is broken"):
        list(read_lines(path))
