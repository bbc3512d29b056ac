"""Looking at labelled texts before training: what is odd, how often, and where; and holding a part of them out.

What is unusual: what is held out never shares its (first) text with the rest, and has each class in its share. A class
that only the held-out part has is an error with its line, since no training can teach it.
What it does not know: how findings are shown.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from regard.data.checks import CONTROL, EXAMPLES, Finding, Severity
from regard.data.labelled import Labelled, LabelValue, classes_of
from regard.errors import DataError

FEW_EXAMPLES = 200
SHOWN = 8
"""Classes whose counts are told."""
LIKE_NUMBERS = 20
"""So many classes, each of which is a number: they may be meant as numbers."""


def check_labelled(train: Labelled, dev: Labelled | None = None) -> list[Finding]:
    """Every check on the training examples, and on their overlap with `dev`; linear in the examples."""
    findings = [_size(train), _left_out(train), *_classes(train), *_texts(train)]
    if dev is not None:
        known = set(train.texts)
        hits = [i for i, texts in enumerate(dev.texts) if texts in known]
        findings.append(_finding("overlap", dev, hits, "warn", "held out have a text that is in the training too"))
    return findings


def clean_labelled(examples: Labelled) -> Labelled:
    """The examples without those that have an empty text; raises DataError where nothing is left."""
    kept = [i for i, texts in enumerate(examples.texts) if all(text.strip() for text in texts)]
    if not kept:
        where = " and ".join(map(str, examples.files))
        raise DataError("every example has an empty text", where=where, got=f"{len(examples):,} examples",
                        mend="name the columns: --columns TEXT,LABEL")  # fmt: skip
    return examples if len(kept) == len(examples) else examples.take(kept)


def refuse_few_classes(examples: Labelled) -> None:
    """Raise DataError where there is nothing to tell apart."""
    if examples.kind != "number" and len(examples.classes) < (2 if examples.kind == "one" else 1):
        got = ", ".join(map(repr, examples.classes)) or "none"
        raise DataError("there is nothing to tell apart", where=" and ".join(map(str, examples.files)),
                        expected="examples of at least two classes", got=got,
                        mend="name the column of the classes: --columns TEXT,LABEL")  # fmt: skip


def refuse_unseen(examples: Labelled, classes: Sequence[str]) -> None:
    """Raise DataError for the first example of a class that is not among those that a model knows."""
    known = set(classes)
    for i, label in enumerate(examples.labels):
        for name in classes_of(label):
            if name not in known:
                near = difflib.get_close_matches(name, classes[:10_000], n=1)
                shown = ", ".join(classes[:SHOWN]) + (f" or {len(classes) - SHOWN:,} more"
                                                      if len(classes) > SHOWN else "")  # fmt: skip
                raise DataError("a class that training does not have", where=examples.where(i), got=repr(name),
                                expected=shown, mend=f"did you mean {near[0]}?" if near else None)  # fmt: skip


def split_labelled(
    examples: Labelled, *, seed: int, fraction: float = 0.1, at_most: int = 2_000
) -> tuple[Labelled, Labelled]:
    """(train, dev): about `fraction` of each class held out, at most `at_most` in all; both keep the files' order.

    Examples with the same first text stay together; a class with one such group stays in the training whole.

    Raises:
        DataError: nothing can be held out.
    """
    numbers: dict[str, int] = {}
    group = np.array([numbers.setdefault(texts[0], len(numbers)) for texts in examples.texts])
    first: dict[int, int] = {}
    for i, number in enumerate(group.tolist()):
        first.setdefault(number, i)
    by_class: dict[LabelValue, list[int]] = {}
    for number, i in first.items():
        label = examples.labels[i]
        by_class.setdefault(0.0 if isinstance(label, float) else label, []).append(number)
    share = min(fraction, at_most / len(examples))
    rng, held, debt = np.random.default_rng(seed), list[int](), 0.0
    for name in sorted(by_class, key=str):
        members = by_class[name]
        debt += share * len(members)  # what small classes leave over goes to the next, so that the sum is right
        count = min(int(debt), len(members) - 1)
        debt = min(debt - count, 1.0)
        held += rng.permutation(members)[:count].tolist()
    if not held and len(first) > 1:
        largest = max(by_class.values(), key=len)
        held = [int(rng.choice(largest if len(largest) > 1 else list(first)))]
    if not held:
        raise DataError("no part can be held out: there is one text", where=" and ".join(map(str, examples.files)),
                        mend="give a development set with --dev")  # fmt: skip
    is_dev = np.isin(group, held)
    return examples.take(np.flatnonzero(~is_dev).tolist()), examples.take(np.flatnonzero(is_dev).tolist())


def _finding(name: str, examples: Labelled, hits: Sequence[int], severity: Severity, predicate: str) -> Finding:
    share = f" ({len(hits) / len(examples):.1%})" if hits else ""
    return Finding(name, len(hits), severity if hits else "ok",
                   f"{len(hits):,} of {len(examples):,} examples{share} {predicate}",
                   tuple(examples.where(i) for i in hits[:EXAMPLES]))  # fmt: skip


def _size(examples: Labelled) -> Finding:
    few = len(examples) < FEW_EXAMPLES
    more = f": under {FEW_EXAMPLES:,} is very little to learn from" if few else ""
    what = "pairs of texts" if examples.paired else "texts"
    return Finding("examples", len(examples), "warn" if few else "ok", f"{len(examples):,} labelled {what}{more}")


def _left_out(examples: Labelled) -> Finding:
    count = len(examples.skipped) + examples.undecided
    parts = [f"{len(examples.skipped):,} bad lines"] if examples.skipped or not examples.undecided else []
    parts += [f"{examples.undecided:,} pairs without an agreed label"] if examples.undecided else []
    where = tuple(str(error.where) for error in examples.skipped[:EXAMPLES])
    severity: Severity = "warn" if examples.skipped else "note" if count else "ok"
    return Finding("skipped", count, severity, " and ".join(parts) + " were left out", where)


def _classes(examples: Labelled) -> list[Finding]:
    """How often each class comes; classes met once; classes that look like numbers."""
    if examples.kind == "number":
        values = np.array([label for label in examples.labels if isinstance(label, float)])
        sentence = f"values from {values.min():g} to {values.max():g}, mean {values.mean():.3g}"
        return [Finding("values", len(np.unique(values)), "ok", sentence)]
    counts = Counter(name for label in examples.labels for name in classes_of(label))
    told = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(SHOWN))
    rest = f" and {len(counts) - SHOWN:,} more" if len(counts) > SHOWN else ""
    findings = [Finding("classes", len(counts), "ok", f"{len(counts):,} classes: {told}{rest}")]
    once = {name for name, count in counts.items() if count == 1}
    hits = [i for i, label in enumerate(examples.labels) if not once.isdisjoint(classes_of(label))]
    shown = ", ".join(repr(name) for name in sorted(once)[:SHOWN])
    findings.append(_finding("rare", examples, hits, "warn", f"are the only one of their class: {shown}"))
    if len(counts) >= LIKE_NUMBERS and all(map(_is_number, counts)):
        sentence = f"all {len(counts):,} classes are numbers; where more means more, train with --regression"
        findings.append(Finding("numbers", len(counts), "warn", sentence))
    return findings


def _texts(examples: Labelled) -> list[Finding]:
    """Empty texts, control characters, repeated texts, and those whose labels differ."""
    first: dict[tuple[str, ...], LabelValue] = {}
    repeated, differing, empty, control = list[int](), list[int](), list[int](), list[int]()
    for i, (texts, label) in enumerate(zip(examples.texts, examples.labels, strict=True)):
        if texts in first:
            (repeated if first[texts] == label else differing).append(i)
        first.setdefault(texts, label)
        if not all(text.strip() for text in texts):
            empty.append(i)
        if any(CONTROL.search(text) for text in texts):
            control.append(i)
    return [
        _finding("empty", examples, empty, "warn", "have an empty text and are left out"),
        _finding("duplicate", examples, repeated, "note", "repeat an earlier example"),
        _finding("contradiction", examples, differing, "warn", "repeat an earlier text with another label"),
        _finding("control", examples, control, "warn", "hold control characters, U+FFFD or lone surrogates"),
    ]


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
