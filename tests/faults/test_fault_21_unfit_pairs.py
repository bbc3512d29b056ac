"""Fault 21: parallel files of unequal length, train and dev that overlap, duplicates: counted before training."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data import check_pairs, read_pairs
from regard.errors import DataError


@pytest.mark.parametrize(("one", "two"), [(3, 2), (2, 3), (1, 0), (0, 1), (5_000, 4_999)])
def test_unequal_lengths_say_both_counts_and_both_files(tmp_path: Path, one: int, two: int) -> None:
    paths = [tmp_path / "a.en", tmp_path / "a.de"]
    for path, count in zip(paths, (one, two), strict=True):
        path.write_text("line\n" * count)
    with pytest.raises(DataError) as caught:
        read_pairs(paths)
    for part in (*map(str, paths), f"{one:,} and {two:,} lines"):
        assert part in str(caught.value)


def test_overlap_and_duplicates_are_counted(data_dir) -> None:
    folder = data_dir("multi30k")
    train = read_pairs([folder / "train.en.gz", folder / "train.de.gz"])
    dev = read_pairs([folder / "val.en.gz", folder / "val.de.gz"])
    found = {finding.name: finding for finding in check_pairs(train, train)}
    assert found["overlap"].count == 29_000 and found["overlap"].severity == "warn"
    found = {finding.name: finding for finding in check_pairs(train, dev)}
    known = set(train.source)
    assert found["overlap"].count == sum(source in known for source in dev.source) < 20
    repeated = len(train) - len(set(zip(train.source, train.target, strict=True)))
    assert found["duplicate"].count == repeated and f"{repeated} of 29,000" in found["duplicate"].sentence
