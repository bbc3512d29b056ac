"""Where data is looked for, and what is said when it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.places import find_data
from regard.errors import DataError


def test_data_beside_the_checkout_is_found_from_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    there, here = tmp_path / "shared" / "data" / "corpus", tmp_path / "checkout" / "deep"
    there.mkdir(parents=True)
    here.mkdir(parents=True)
    (there / "a.en").touch()
    monkeypatch.chdir(here)
    assert find_data("corpus") == there and find_data("corpus/a.en") == there / "a.en"


def test_the_variable_wins_and_a_path_that_exists_comes_after_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen, here = tmp_path / "chosen", tmp_path / "here"
    for folder in (chosen, here, here / "shared" / "data"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("REGARD_DATA", str(chosen))
    monkeypatch.chdir(here)
    (here / "a.en").touch()
    (here / "shared" / "data" / "a.en").touch()
    assert find_data("a.en") == Path("a.en")
    (chosen / "a.en").touch()
    assert find_data("a.en") == chosen / "a.en"


@pytest.mark.parametrize(
    ("name", "origin", "into"),
    [
        ("multi30k/train.en.gz", "github.com/multi30k/dataset", "FOLDER/multi30k"),
        ("multi30k/bpe-en-de/train.en.gz", "LividWo/Revisit-MMT", "FOLDER/multi30k/bpe-en-de"),
        ("tatoeba-cmn-eng/cmn.txt.gz", "manythings.org", "FOLDER/tatoeba-cmn-eng"),
    ],
)
def test_absent_data_says_where_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, origin: str, into: str
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(DataError) as error:
        find_data(name)
    said = str(error.value)
    assert str(tmp_path / name) in said and origin in said and f"{into}, and set REGARD_DATA=FOLDER" in said
