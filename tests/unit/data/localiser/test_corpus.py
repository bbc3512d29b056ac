"""The localiser's data: parts without a value in common, one translation a source, true alignments, files read back."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

import pytest
from babel.dates import get_month_names

from regard.data import read_pairs
from regard.data.localiser import KINDS, TARGETS, Item, corpus, make_items, same_date, write_items
from regard.data.localiser.item import SPACES
from regard.errors import MissingExtraError

TIMES = {"K": 10**3, "M": 10**6, "B": 10**9}


@pytest.fixture(scope="module")
def parts() -> dict[str, list[Item]]:
    """The real dev and test parts, and a tenth of the training part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "SIZES", corpus.SIZES | {"train": 6_000})
        return {"train": make_items("train", 1), "dev": make_items("dev", 1), "test": make_items("test", 1)}


def piece(item: Item, field: str, side: int) -> str:
    start, end = item.alignment[field][side]
    return (item.source, item.target)[side][start:end]


def month(text: str, locale: str) -> int:
    if text.isdecimal():
        return int(text)
    for width, place in product(("wide", "abbreviated"), (locale, "en_GB") if locale == "en" else (locale,)):
        for context in ("format", "stand-alone"):
            for number, name in get_month_names(width, context, place).items():
                if name == text:
                    return int(number)
    raise AssertionError(f"{text} is no month in {locale}")


def days(items: list[Item]) -> set[tuple[int, int, int]]:
    """The calendar days in the items, read from their English texts."""
    dated = [item for item in items if "day" in item.alignment]
    return {(int(piece(i, "year", 0)), month(piece(i, "month", 0), "en"), int(piece(i, "day", 0))) for i in dated}


def numbers(items: list[Item]) -> set[float]:
    """The numbers from a hundred on, and the fractions, that count something in the items' English texts."""
    found = set[float]()
    for item in items:
        if item.kind in ("money", "quantity", "duration"):
            for digits, power in re.findall(r"(\d[\d,]*(?:\.\d+)?)([MB]?)", item.source):
                value = round(float(digits.replace(",", "")) * TIMES.get(power, 1), 3)
                found |= set() if value < 100 and value.is_integer() else {value}
    return found - {100.0}  # liters per 100 kilometers


@pytest.mark.whole
def test_the_parts_share_no_day_and_no_number(parts: dict[str, list[Item]]) -> None:
    for read in (days, numbers):
        train, dev, test = (read(parts[part]) for part in ("train", "dev", "test"))
        assert len(train) > 500 and len(test) > 50
        assert not train & test and not train & dev and not dev & test
    held = {(item.source, item.to) for item in parts["test"]}
    assert not held & {(item.source, item.to) for item in parts["train"]}


@pytest.mark.whole
def test_every_source_has_one_translation(parts: dict[str, list[Item]]) -> None:
    targets = defaultdict(set)
    for item in [item for part in parts.values() for item in part]:
        targets[item.source, item.to].add(item.target)
    assert not [found for found in targets.items() if len(found[1]) > 1]


def test_the_test_part_is_500_items_even_over_kinds_and_languages(parts: dict[str, list[Item]]) -> None:
    counts = Counter((item.kind, item.to) for item in parts["test"])
    assert len(parts["test"]) == len({(item.source, item.to) for item in parts["test"]}) == 500
    assert counts.keys() == {(kind, to) for kind in KINDS for to in TARGETS}
    assert set(counts.values()) == {18, 19}


def test_fields_hold_what_the_alignment_says(parts: dict[str, list[Item]]) -> None:
    aligned = [item for item in parts["train"] if item.alignment]
    assert {item.kind for item in aligned} == {"date", "time", "date and time"}
    for item in aligned:
        for field in item.alignment.keys() & {"year", "day", "minute", "second"}:
            assert int(piece(item, field, 0)) == int(piece(item, field, 1))
        if "year" in item.alignment:
            assert len(piece(item, "year", 0)) == len(piece(item, "year", 1)) == 4
            assert month(piece(item, "month", 0), "en") == month(piece(item, "month", 1), item.to)
        if "hour" in item.alignment:
            hour, half = int(piece(item, "hour", 0)), item.source[-2:]
            assert int(piece(item, "hour", 1)) == {"AM": hour % 12, "PM": hour % 12 + 12}.get(half, hour)


def test_spaces_and_letters_are_of_one_form(parts: dict[str, list[Item]]) -> None:
    items = [item for part in parts.values() for item in part]
    assert all(text == unicodedata.normalize("NFC", text) for item in items for text in (item.source, item.target))
    assert not any(char in item.source for item in items for char in map(chr, SPACES))
    assert any("\u202f" in item.target for item in items if item.to == "fr")


def test_every_name_is_in_the_training_part_by_itself(parts: dict[str, list[Item]]) -> None:
    bare = {(item.source, item.to) for item in parts["train"]}
    listed = [item for item in parts["test"] if item.kind == "names" and "," not in item.source]
    for item in listed:
        both = re.split(r" (?:and|or) (?=[A-Z])", item.source)
        assert len(both) > 2 or all((name, item.to) in bare for name in both), item


def test_a_seed_is_the_data(parts: dict[str, list[Item]]) -> None:
    assert make_items("test", 1) == parts["test"] != make_items("test", 2)
    assert {item.to for item in same_date(1)} == set(TARGETS)
    assert days(same_date(1)) and not days(same_date(1)) & days(parts["train"])


def test_the_file_is_a_table_of_pairs(parts: dict[str, list[Item]], tmp_path: Path) -> None:
    write_items(parts["test"], tmp_path / "test.tsv")
    pairs = read_pairs([tmp_path / "test.tsv"])
    assert pairs.source == [item.source for item in parts["test"]]
    assert pairs.target == [item.target for item in parts["test"]]
    assert pairs.to == [item.to for item in parts["test"]]


@pytest.mark.parametrize(("module", "package"), [("babel", "Babel"), ("num2words", "num2words")])
def test_without_the_libraries_it_names_the_extra(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    monkeypatch.setattr(corpus, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(MissingExtraError, match=rf"{package}(?s:.*)regard\[demo\]"):
        make_items("test", 1)
