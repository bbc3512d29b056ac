"""What is odd in labelled texts, and what is held out of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.label_checks import (
    check_labelled,
    clean_labelled,
    refuse_few_classes,
    refuse_unseen,
    split_labelled,
)
from regard.data.labelled import LabelKind, Labelled, LabelValue
from regard.errors import DataError


def examples(rows: list[tuple[str, LabelValue]], kind: LabelKind = "one") -> Labelled:
    texts, labels = [(text,) for text, _ in rows], [label for _, label in rows]
    return Labelled(texts, labels, kind, [(0, i + 1) for i in range(len(rows))], (Path("a.tsv"),), {})


def found(train: Labelled, dev: Labelled | None = None) -> dict[str, tuple[int, str]]:
    return {finding.name: (finding.count, finding.severity) for finding in check_labelled(train, dev)}


def test_each_fault_is_counted() -> None:
    rows = [("a", "x"), ("b", "y"), ("a", "x"), ("a", "y"), (" ", "x"), ("c\x00", "y"), ("d", "once"), ("e", "x")]
    seen = found(examples(rows), examples([("a", "x"), ("new", "y")]))
    expected = {"duplicate": 1, "contradiction": 1, "empty": 1, "control": 1, "rare": 1, "overlap": 1}
    assert {name: count for name, (count, severity) in seen.items() if severity != "ok" and count} == {
        **expected, "examples": len(rows),
    }  # fmt: skip
    many = found(examples([(f"text {i}", f"class {i % 2}") for i in range(300)]))
    assert {severity for _, severity in many.values()} == {"ok"}, "nothing is said of what is well"


def test_classes_that_are_numbers() -> None:
    assert found(examples([(str(i), str(i / 10)) for i in range(30)]))["numbers"] == (30, "warn")
    assert "numbers" not in found(examples([(str(i), str(i % 5)) for i in range(30)]))


def test_nothing_to_tell_apart() -> None:
    for kind, rows in (("one", [("a", "x"), ("b", "x")]), ("several", [("a", ()), ("b", ())])):
        with pytest.raises(DataError, match="nothing to tell apart"):
            refuse_few_classes(examples(rows, kind))
    refuse_few_classes(examples([("a", 1.0), ("b", 1.0)], "number"))
    with pytest.raises(DataError, match="empty text"):
        clean_labelled(examples([("", "x"), (" ", "y")]))


def test_an_unseen_class_is_named_with_its_line() -> None:
    with pytest.raises(DataError) as caught:
        refuse_unseen(examples([("a", "good"), ("b", "god")]), ["bad", "good"])
    assert "a.tsv:2" in str(caught.value) and "did you mean good" in str(caught.value)
    with pytest.raises(DataError, match="9,992 more"):
        refuse_unseen(examples([("a", ("c1", "new"))], "several"), [f"c{i}" for i in range(10_000)])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("xyz")), min_size=12, max_size=120),
    st.integers(0, 5),
    st.integers(1, 20),
)
def test_what_is_held_out_shares_no_text(rows: list[tuple[int, str]], seed: int, at_most: int) -> None:
    whole = examples([(str(number), label) for number, label in rows])
    if len({number for number, _ in rows}) < 2:
        return
    train, dev = split_labelled(whole, seed=seed, at_most=at_most)
    assert {*train.texts}.isdisjoint(dev.texts) and len(train) > 0 and len(dev) > 0
    assert sorted(train.places + dev.places) == whole.places
    again, _ = split_labelled(whole, seed=seed, at_most=at_most)
    assert again.places == train.places


def test_each_class_has_its_share_and_the_rarest_stays() -> None:
    names = ["common"] * 800 + ["seldom"] * 190 + ["rare"] * 9 + ["once"]
    shuffled = np.random.default_rng(0).permutation(names).tolist()
    train, dev = split_labelled(examples([(f"text {i}", name) for i, name in enumerate(shuffled)]), seed=3)
    held = Counter(dev.labels)
    assert (held["common"], held["seldom"]) == (80, 19) and held["rare"] <= 1 and held["once"] == 0
    assert {*train.labels} == {*names}, "whatever is asked of the model, training has an example of it"
    numbers = replace(examples([(f"text {i}", float(i)) for i in range(100)]), kind="number")
    assert len(split_labelled(numbers, seed=0)[1]) == 10


def test_ten_thousand_classes_take_no_time() -> None:
    whole = examples([(f"text {i}", f"class {i % 10_000}") for i in range(30_000)])
    train, dev = split_labelled(whole, seed=0)
    assert len(dev) == 2_000 and len(train.classes) == 10_000
    assert "9,992 more" in next(f.sentence for f in check_labelled(train) if f.name == "classes")
