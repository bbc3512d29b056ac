from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.data import Pairs, check_pairs, clean, read_pairs, split_dev
from regard.errors import DataError
from regard.text import Tokenizer


def _pairs(*rows: tuple[str, str]) -> Pairs:
    source, target = [row[0] for row in rows], [row[1] for row in rows]
    return Pairs(source, target, (None, None), (Path("a.tsv"),), range(1, len(rows) + 1), {})


GOOD = [(f"source {i}", f"target {i}") for i in range(1_000)]


def _found(pairs: Pairs, dev: Pairs | None = None, tokenizer: Tokenizer | None = None) -> dict[str, tuple]:
    findings = check_pairs(pairs, dev, tokenizer=tokenizer)
    assert all((finding.severity == "ok") == (finding.count == 0) for finding in findings if finding.name != "pairs")
    return {finding.name: (finding.count, finding.examples) for finding in findings if finding.severity != "ok"}


def test_nothing_to_report() -> None:
    assert _found(_pairs(*GOOD), _pairs(("new", "neu"))) == {}


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("empty", ("", "b")),
        ("empty", ("a", " \u3000")),
        ("duplicate", GOOD[0]),
        ("same", ("unchanged", "unchanged")),
        ("ratio", ("ab", "x " * 30)),
        ("long", ("x " * 600, "y " * 600)),
        ("control", ("NUL \0", "b")),
        ("control", ("a", "lone \ud800")),
        ("control", ("a", "lost \ufffd")),
        ("control", ("a\u0085", "b")),
    ],
)
def test_each_oddity_is_found_alone(name: str, row: tuple[str, str]) -> None:
    assert _found(_pairs(*GOOD, row)) == {name: (1, ("a.tsv:1001",))}


@pytest.mark.parametrize(
    "row", [("No.", "Auf gar keinen Fall, niemals."), ("a\tb", "c"), ("\u202bשלום", "e\u0301 \u200d👩")]
)
def test_what_is_not_odd(row: tuple[str, str]) -> None:
    assert _found(_pairs(*GOOD, row)) == {}


def test_overlap_characters_and_few() -> None:
    tokenizer = Tokenizer.train([text for pair in GOOD for text in pair], kind="chars", vocab_size=100)
    found = _found(_pairs(*GOOD[:50], ("漢", "x")), _pairs(("new", "neu"), GOOD[3], ("source 4", "other")), tokenizer)
    assert found["overlap"] == (2, ("a.tsv:2", "a.tsv:3"))
    assert found["unwritable"][0] == 1 and "pairs" in found


def test_clean_drops_empty_sides_only() -> None:
    pairs = clean(_pairs(("a", "A"), ("", "B"), ("c", "  "), ("d", "D"), ("d", "D")))
    assert (pairs.source, pairs.target) == (["a", "d", "d"], ["A", "D", "D"])
    assert pairs.where(1) == "a.tsv:4"
    with pytest.raises(DataError, match="2 pairs"):
        clean(_pairs(("", "B"), (" ", "")))


def test_split_is_a_seeded_partition() -> None:
    rng = np.random.default_rng(0)
    pairs = _pairs(*((f"s{rng.integers(300)}" * int(rng.integers(1, 9)), f"t{rng.integers(900)}") for _ in range(600)))
    train, dev = split_dev(pairs, seed=3)
    assert sorted([*train.lines, *dev.lines]) == list(range(1, 601))
    assert 0 < len(dev) <= 60
    assert set(train.source).isdisjoint(dev.source) and set(train.target).isdisjoint(dev.target)
    assert split_dev(pairs, seed=3)[1].lines == dev.lines != split_dev(pairs, seed=4)[1].lines


def test_split_keeps_the_lengths(data_dir) -> None:
    pairs = read_pairs([data_dir("tatoeba-deu-eng") / "deu.txt.gz"])  # sorted by length, sources repeat
    train, dev = split_dev(pairs, seed=0)
    assert len(dev) == 2_000 and len(train) + len(dev) == len(pairs)
    assert set(train.source).isdisjoint(dev.source) and set(train.target).isdisjoint(dev.target)
    shares = np.linspace(0, 1, 11)
    whole, held = (np.quantile([len(text) for text in part.source], shares[1:-1]) for part in (pairs, dev))
    assert np.abs(whole - held).max() <= 1


def test_split_needs_two_groups() -> None:
    train, dev = split_dev(_pairs(("a", "A"), ("b", "B")), seed=0)
    assert len(train) == len(dev) == 1
    for rows in ([("a", "A")], [("a", "A"), ("a", "B"), ("c", "B")]):
        with pytest.raises(DataError, match="--dev"):
            split_dev(_pairs(*rows), seed=0)
