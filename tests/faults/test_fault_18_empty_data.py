"""Fault 18, for reading: empty string, only spaces, empty list, empty file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.data import clean, collate, read_lines, read_pairs
from regard.errors import DataError


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
@pytest.mark.parametrize("names", [["a.tsv"], ["a.csv"], ["a.jsonl"], ["a"], ["a.en", "a.de"]])
def test_an_empty_file_is_a_data_error_that_names_it(tmp_path: Path, names: list[str], content: bytes) -> None:
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_pairs(paths)
    assert all(str(path) in str(caught.value) for path in paths)
    assert list(read_lines(paths[0])) == []


@pytest.mark.parametrize("text", ["source\ttarget\n", "\n\n\n"])
def test_a_table_without_rows(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match="no pairs"):
        read_pairs([path])


def test_only_spaces_are_no_text_to_train_on(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("  \n\n \n")
    pairs = read_pairs([tmp_path / "a.en", tmp_path / "a.de"])
    assert len(pairs) == 3
    with pytest.raises(DataError, match="empty side"):
        clean(pairs)


def test_no_rows_make_an_empty_batch() -> None:
    batch = collate([], [], pad_id=0, bos_id=1, eos_id=2)
    assert batch.src.shape[0] == batch.tgt_in.shape[0] == batch.count == 0
    assert [part.count for part in batch.split(2)] == [0]
