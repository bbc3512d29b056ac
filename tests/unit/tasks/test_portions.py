"""Parts of labelled sets for recipes: a fold apart, and few labels that are among more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data.labelled import read_labelled
from regard.errors import DataError
from regard.tasks.portions import FewLabels, FoldApart


@pytest.fixture(autouse=True)
def _data(data_dir: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(data_dir("sst2").parent))


def test_few_labels_are_among_more_and_each_class_has_its_share(tmp_path: Path) -> None:
    found = {}
    for count in (100, 1_000):
        FewLabels(table="sst2/train.tsv", count=count).write(tmp_path / str(count))
        found[count] = read_labelled([tmp_path / str(count) / "train.jsonl"])
        assert len(found[count]) == count
    hundred, thousand = ({*zip(own.texts, own.labels, strict=True)} for own in found.values())
    assert hundred < thousand
    shares = Counter(label for label in found[1_000].labels)
    assert shares["1"] / 1_000 == pytest.approx(3_610 / 6_920, abs=0.01)
    before = (tmp_path / "100" / "train.jsonl").read_bytes()
    FewLabels(table="sst2/train.tsv", count=100).write(tmp_path / "100")
    assert (tmp_path / "100" / "train.jsonl").read_bytes() == before
    with pytest.raises(DataError, match="smaller"):
        FewLabels(table="sst2/train.tsv", count=10_000).write(tmp_path / "more")


def test_one_fold_is_the_test_and_no_review_is_in_both(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    table = {"table": f"{data_dir('movie-reviews').name}/movie_reviews.tsv.gz", "column": "fold"}
    FoldApart(**table, held="0").write(tmp_path / "made")
    train, test = (read_labelled([tmp_path / "made" / f"{name}.tsv"]) for name in ("train", "test"))
    assert (len(train), len(test)) == (1_800, 200) and Counter(test.labels) == {"pos": 100, "neg": 100}
    assert {*train.texts}.isdisjoint(test.texts) or len({*train.texts} & {*test.texts}) < 3
    with pytest.raises(DataError, match="no such fold"):
        FoldApart(**table, held="17").write(tmp_path / "none")
