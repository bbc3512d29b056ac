"""What is odd in labelled texts, and what is held out of them."""

from __future__ import annotations

import re
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
from regard.data.label_columns import Header
from regard.data.labelled import LabelKind, Labelled, LabelValue, classes_of
from regard.errors import DataError
from regard.tasks.classification import Labels


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
    halves = held_out(whole, seed, at_most)
    if halves is None:
        return
    train, dev = halves
    assert {*train.texts}.isdisjoint(dev.texts) and len(train) > 0 and len(dev) > 0
    assert sorted(train.places + dev.places) == whole.places and train.classes == whole.classes
    again, _ = split_labelled(whole, seed=seed, at_most=at_most)
    assert again.places == train.places


def held_out(whole: Labelled, seed: int, at_most: int = 2_000) -> tuple[Labelled, Labelled] | None:
    """The two parts; None where it is refused, and every group does have all there is of some class."""
    try:
        return split_labelled(whole, seed=seed, at_most=at_most)
    except DataError:
        groups: dict[str, Counter[str]] = {}
        for texts, label in zip(whole.texts, whole.labels, strict=True):
            groups.setdefault(texts[0], Counter()).update(classes_of(label))
        total = sum(groups.values(), Counter[str]())
        assert len(groups) == 1 or all(any(own[k] == total[k] for k in own) for own in groups.values())
        return None


LABELS: dict[LabelKind, st.SearchStrategy[LabelValue]] = {
    "one": st.sampled_from(["common"] * 6 + ["seldom"] * 2 + list("uvwxyz")),
    "several": st.lists(st.sampled_from("uvwxyz"), max_size=3, unique=True).map(lambda names: tuple(sorted(names))),
    "number": st.floats(0, 5),
}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(["one", "several", "number"]), st.booleans(), st.integers(0, 1_000))
def test_the_training_has_every_class_however_texts_are_shared(
    data: st.DataObject, kind: LabelKind, paired: bool, seed: int
) -> None:
    """Of premises that pairs share, of repeated texts, of classes met once: no class is in the held-out part alone."""
    rows = data.draw(st.lists(st.tuples(st.integers(0, 12), LABELS[kind]), min_size=2, max_size=60))
    texts = [(f"text {n}", f"second {i}") if paired else (f"text {n}",) for i, (n, _) in enumerate(rows)]
    whole = replace(examples([("", label) for _, label in rows], kind), texts=texts)
    halves = held_out(whole, seed)
    if halves is not None:
        assert halves[0].classes == whole.classes
        assert {texts[0] for texts in halves[0].texts}.isdisjoint(texts[0] for texts in halves[1].texts)
        Labels.of(halves[0].labels, kind, halves[0].classes).targets(halves[1].labels)


def test_numbers_that_are_all_but_the_same_have_units_of_one() -> None:
    """Else a held-out number of another size is infinite in theirs."""
    assert Labels.of([3e-47, 0.0], "number", ()).targets([1.0, 0.0]).tolist() == [1.0, 0.0]
    assert Labels.of([3e-12, 0.0], "number", ()).targets([3e-12]).tolist() == pytest.approx([1.0])


@pytest.mark.parametrize("kind", ["one", "several"])
def test_a_rare_class_among_shared_premises_stays(kind: LabelKind) -> None:
    """60 pairs that share 20 premises, and a pair of a rare class that has one of them."""
    for place in range(20):
        rows: list[tuple[str, LabelValue]] = [(f"premise {i % 20}", "yes" if i % 3 else "no") for i in range(60)]
        rows.insert(3 * place + 1, (f"premise {place}", "rare"))
        rows = rows if kind == "one" else [(text, (str(label),)) for text, label in rows]
        for seed in range(20):
            train, dev = split_labelled(examples(rows, kind), seed=seed)
            assert {*train.classes} == {"yes", "no", "rare"} and len(dev) >= 3


def test_labels_that_are_combinations_have_their_share() -> None:
    """300 texts of nearly as many different combinations of 12 classes: a tenth is held out all the same."""
    rng = np.random.default_rng(0)
    names = np.array([f"class {i}" for i in range(12)])
    rows: list[tuple[str, LabelValue]] = [
        (f"text {i}", tuple(names[rng.random(12) < 0.5].tolist())) for i in range(300)
    ]
    assert len({label for _, label in rows}) > 250
    assert len(split_labelled(examples(rows, "several"), seed=0)[1]) == pytest.approx(30, abs=2)


def test_where_nothing_can_be_held_out() -> None:
    for rows in ([("a", "x"), ("a", "y")], [("a", "x"), ("b", "y")], [("a", "x"), ("b", "y"), ("a", "z")]):
        with pytest.raises(DataError, match="no part can be held out") as caught:
            split_labelled(examples(rows), seed=0)
        assert "--dev" in str(caught.value)


def test_what_is_held_out_of_single_texts_stays_what_it_was() -> None:
    """Recorded runs without a development set can be made again."""
    rows: list[tuple[str, LabelValue]] = [(f"text {i}", "abcd"[i * i % 7 % 4]) for i in range(150)]
    _, dev = split_labelled(examples(rows), seed=5)
    assert [line for _, line in dev.places] == [18, 27, 63, 64, 70, 76, 80, 101, 109, 112, 131, 137, 139, 140, 144]


def test_one_is_one() -> None:
    """Nothing is said of 1 examples, 1 classes, 1 bad lines."""
    one = replace(examples([("a\x00", ("x",))], "several"), skipped=(DataError("bad", where="a.tsv:2"),))
    for whole in (one, replace(one, undecided=1, skipped=()), replace(one, texts=[("a", "b")])):
        said = " ".join(finding.sentence for finding in check_labelled(whole))
        assert not re.search(r"(?<!\d)1 (labelled )?(examples|classes|bad lines|pairs|texts)|\b1 [\w ]+ were\b", said)


def test_a_first_row_taken_for_names_is_told() -> None:
    header = Header("a.tsv:1", "tweet, target", "1,2")
    rows: list[tuple[str, LabelValue]] = [(f"text {i}", "xy"[i % 2]) for i in range(300)]
    whole = replace(examples(rows), headers=(header,))
    told = [finding for finding in check_labelled(whole, whole) if finding.name == "header"]
    assert len(told) == 2 and told[0].examples == ("a.tsv:1",)
    assert "tweet, target" in told[0].sentence and "--columns 1,2" in told[0].sentence


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
