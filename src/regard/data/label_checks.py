"""Looking at labelled texts before training: what is odd, how often, and where; and holding a part of them out.

What is unusual: what is held out never shares its (first) text with the rest, has each class in its share, and never
takes the last example of a class along. A class that only a given development set has is an error with its line, since
no training can teach it.
What it does not know: how findings are shown.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from regard.data.checks import CONTROL, EXAMPLES, Finding, Severity
from regard.data.label_columns import is_number
from regard.data.labelled import Labelled, LabelValue, classes_of
from regard.errors import DataError

FEW_EXAMPLES = 200
SHOWN = 8
"""Classes whose counts are told."""
LIKE_NUMBERS = 20
"""So many classes, each of which is a number: they may be meant as numbers."""


def check_labelled(train: Labelled, dev: Labelled | None = None) -> list[Finding]:
    """Every check on the training examples, and on their overlap with `dev`; linear in the examples."""
    findings = [_size(train), *_headers(train), _left_out(train), *_classes(train), *_texts(train)]
    if dev is not None:
        findings += _headers(dev)
        known = set(train.texts)
        hits = [i for i, texts in enumerate(dev.texts) if texts in known]
        findings.append(_finding("overlap", dev, hits, "warn", "held out have a text that is in the training too"))
    return findings


def clean_labelled(examples: Labelled) -> Labelled:
    """The examples without those that have an empty text; raises DataError where nothing is left."""
    kept = [i for i, texts in enumerate(examples.texts) if all(text.strip() for text in texts)]
    if not kept:
        raise DataError("every example has an empty text", where=" and ".join(map(str, examples.files)),
                        got=f"{len(examples):,} example{'s' * (len(examples) != 1)}",
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

    Examples with the same first text stay together. Where such a group has the last that is left of any class, it stays
    in the training.

    Raises:
        DataError: nothing can be held out.
    """
    numbers: dict[str, int] = {}
    group = np.array([numbers.setdefault(texts[0], len(numbers)) for texts in examples.texts])
    first, own = dict[int, int](), [Counter[str]() for _ in numbers]
    for i, number in enumerate(group.tolist()):
        first.setdefault(number, i)
        own[number].update(classes_of(examples.labels[i]))
    by_class: dict[LabelValue, list[int]] = {}
    for number, i in first.items():
        label = examples.labels[i]
        by_class.setdefault(0.0 if isinstance(label, float) else label, []).append(number)
    share = min(fraction, at_most / len(examples))
    rng, taking, debt = np.random.default_rng(seed), _Taking(own), 0.0
    for name in sorted(by_class, key=str):
        debt += share * len(by_class[name])  # what small classes leave over goes to the next, so that the sum is right
        debt = min(debt - taking.some(rng.permutation(by_class[name]).tolist(), int(debt)), 1.0)
    if not taking.held:  # so few that no class has a share: one group, of the largest class where that is possible
        taking.some([*rng.permutation(max(by_class.values(), key=len)).tolist(), *first], 1)
    if not taking.held:
        got = "one text" if len(first) == 1 else f"{len(first):,} texts, each with the last example of a class"
        raise DataError("no part can be held out", where=" and ".join(map(str, examples.files)), got=got,
                        mend="give a development set with --dev")  # fmt: skip
    is_dev = np.isin(group, list(taking.held))
    return examples.take(np.flatnonzero(~is_dev).tolist()), examples.take(np.flatnonzero(is_dev).tolist())


class _Taking:
    """Groups that are held out, `own` of which says how many examples of each class; some group and each class stay."""

    def __init__(self, own: Sequence[Counter[str]]) -> None:
        self.own, self.held, self.left = own, set[int](), Counter[str]()
        for counts in own:
            self.left.update(counts)

    def some(self, groups: Sequence[int], wanted: int) -> int:
        """Hold out the first `wanted` of these that can be; gives how many those are."""
        before = len(self.held)
        for number in groups:
            if len(self.held) - before >= wanted or len(self.held) + 1 >= len(self.own):
                break
            if all(self.left[name] > count for name, count in self.own[number].items()):
                self.held.add(number)
                self.left.subtract(self.own[number])
        return len(self.held) - before


def _finding(name: str, examples: Labelled, hits: Sequence[int], severity: Severity, predicate: str) -> Finding:
    share = f" ({len(hits) / len(examples):.1%})" if hits else ""
    of = f"{len(examples):,} example{'s' * (len(examples) != 1)}"
    return Finding(name, len(hits), severity if hits else "ok", f"{len(hits):,} of {of}{share} {predicate}",
                   tuple(examples.where(i) for i in hits[:EXAMPLES]))  # fmt: skip


def _size(examples: Labelled) -> Finding:
    few = len(examples) < FEW_EXAMPLES
    more = f": under {FEW_EXAMPLES:,} is very little to learn from" if few else ""
    many = "s" * (len(examples) != 1)
    what = f"pair{many} of texts" if examples.paired else f"text{many}"
    return Finding("examples", len(examples), "warn" if few else "ok", f"{len(examples):,} labelled {what}{more}")


def _headers(examples: Labelled) -> list[Finding]:
    """First rows that may be examples after all."""
    told = examples.headers
    return [Finding("header", len(told), "note", str(told[0]), tuple(h.where for h in told[:EXAMPLES]))] if told else []


def _left_out(examples: Labelled) -> Finding:
    bad, undecided = len(examples.skipped), examples.undecided
    parts = [f"{bad:,} bad line{'s' * (bad != 1)}"] if bad or not undecided else []
    parts += [f"{undecided:,} pair{'s' * (undecided != 1)} without an agreed label"] if undecided else []
    where = tuple(str(error.where) for error in examples.skipped[:EXAMPLES])
    severity: Severity = "warn" if bad else "note" if undecided else "ok"
    said = " and ".join(parts) + (" was left out" if bad + undecided == 1 else " were left out")
    return Finding("skipped", bad + undecided, severity, said, where)


def _classes(examples: Labelled) -> list[Finding]:
    """How often each class comes; classes met once; classes that look like numbers."""
    if examples.kind == "number":
        values = np.array([label for label in examples.labels if isinstance(label, float)])
        sentence = f"values from {values.min():g} to {values.max():g}, mean {values.mean():.3g}"
        return [Finding("values", len(np.unique(values)), "ok", sentence)]
    counts = Counter(name for label in examples.labels for name in classes_of(label))
    told = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(SHOWN))
    rest = f" and {len(counts) - SHOWN:,} more" if len(counts) > SHOWN else ""
    sentence = f"{len(counts):,} class{'es' * (len(counts) != 1)}: {told}{rest}"
    findings = [Finding("classes", len(counts), "ok", sentence)]
    once = {name for name, count in counts.items() if count == 1}
    hits = [i for i, label in enumerate(examples.labels) if not once.isdisjoint(classes_of(label))]
    shown = ", ".join(repr(name) for name in sorted(once)[:SHOWN])
    findings.append(_finding("rare", examples, hits, "warn", f"are the only one of their class: {shown}"))
    if len(counts) >= LIKE_NUMBERS and all(map(is_number, counts)):
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
