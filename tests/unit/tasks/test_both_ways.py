"""The files of a translator both ways: nothing of the test was seen, and each direction says where it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data import read_pairs
from regard.tasks.both_ways import BothWays

TATOEBA = BothWays(table="tatoeba-cmn-eng/cmn.txt.gz", languages=("en", "zh"))


@pytest.fixture(scope="module")
def folder(data_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir("tatoeba-cmn-eng")
    made = tmp_path_factory.mktemp("made")
    TATOEBA.write(made / "tatoeba-zh-en")
    return made / "tatoeba-zh-en"


def test_no_held_out_text_was_seen_in_training(folder: Path) -> None:
    train, dev = (read_pairs([folder / f"{name}.tsv"]) for name in ("train", "dev"))
    seen, looked_at = ({*pairs.source, *pairs.target} for pairs in (train, dev))
    assert len(train) > 50_000 and len(dev) == 2_000 and not seen & looked_at
    for name, target in (("en-zh", "zh"), ("zh-en", "en")):
        test = read_pairs([folder / f"test.{name}.tsv"])
        assert len(test) == 1_000 and set(test.to or ()) == {target}
        assert not (seen | looked_at) & {*test.source, *test.target}


def test_both_directions_are_there_each_with_its_language(folder: Path) -> None:
    train = read_pairs([folder / "train.tsv"])
    assert train.to is not None
    rows = set(zip(train.source, train.target, train.to, strict=True))
    other = {"en": "zh", "zh": "en"}
    assert all((target, source, other[to]) in rows for source, target, to in rows)
    assert ("Run.", "你用跑的。", "zh") in rows


def test_the_same_table_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    TATOEBA.write(tmp_path)
    for file in folder.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()
