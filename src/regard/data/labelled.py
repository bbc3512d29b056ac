"""Texts with labels from files: one text or two in a row, and a class, several classes, or a number.

What it is: `read_labelled`, which gives `Labelled`: texts, labels, and where each example came from.
What is unusual: a class is a name, also where it looks like a number: "1" and "01" are two classes, and none is more
than another. Which columns hold what is found out from the first row:

    text  label                         one text (also sentence, review, content, .. and class, category, ..)
    premise  hypothesis  label          two texts (also sentence1 sentence2, text1 text2, question1 question2)
    no such names                       the last of two or three columns is the label
    __label__good A fine film           fastText's lines, and TREC's (`NUM:dist How far is it`): the label comes first

A pair whose label is `-` has none that its annotators agreed on (SNLI, OCNLI); it is left out and counted.
What it does not know: whether the examples are any good (`data.label_checks`), tokens, and tags within a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from regard.data.files import MAX_BYTES, Lines, shorten
from regard.data.languages import bare
from regard.data.tables import Row, Skipped, rows
from regard.errors import DataError

LabelKind = Literal["one", "several", "number"]
"""What an example is labelled with: one class, any number of classes, a number."""
LabelValue = str | tuple[str, ...] | float
"""The same as values."""
TEXT = ("text", "sentence", "review", "content", "comment", "question", "document")
PAIR = (("premise", "hypothesis"), ("sentence1", "sentence2"), ("text1", "text2"), ("question1", "question2"),
        ("question", "sentence"))  # fmt: skip
LABEL = ("label", "labels", "gold_label", "class", "category", "sentiment", "intent", "score", "similarity", "rating")
UNDECIDED = "-"
LABEL_FIRST = re.compile(r"((?:__label__\S+ +)+|[A-Za-z]+:[A-Za-z]+ )(.*)", re.DOTALL)


@dataclass(frozen=True)
class Labelled:
    """N examples.

    Attributes:
        texts: N tuples, all of one text or all of two.
        labels: N labels of the kind.
        kind: what they are.
        places: N pairs, the number of the file and of the line in it, from 1.
        files: the files read.
        sha256: of each as it lies on disk, by its path.
        skipped: the bad lines left out.
        undecided: how many pairs were left out because nobody agreed on their label.
    """

    texts: list[tuple[str, ...]]
    labels: list[LabelValue]
    kind: LabelKind
    places: list[tuple[int, int]]
    files: tuple[Path, ...]
    sha256: Mapping[str, str]
    skipped: tuple[DataError, ...] = ()
    undecided: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def paired(self) -> bool:
        """Each example has two texts."""
        return bool(self.texts) and len(self.texts[0]) == 2

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes, in the order of their ids: whole numbers by size, all else by letters. None of numbers."""
        names = {name for label in self.labels for name in classes_of(label)}
        by_size = all(name.isdecimal() for name in names)
        return tuple(sorted(names, key=lambda name: (int(name) if by_size else 0, name)))

    def where(self, index: int) -> str:
        """`file:line` of one example."""
        file, line = self.places[index]
        return f"{self.files[file]}:{line}"

    def take(self, indices: Sequence[int]) -> Labelled:
        """The examples at `indices`, in that order."""
        texts, labels = [self.texts[i] for i in indices], [self.labels[i] for i in indices]
        return replace(self, texts=texts, labels=labels, places=[self.places[i] for i in indices])


def classes_of(label: LabelValue) -> tuple[str, ...]:
    """The classes that a label names; a number names none."""
    return (label,) if isinstance(label, str) else label if isinstance(label, tuple) else ()


def read_labelled(
    paths: Sequence[Path],
    *,
    kind: LabelKind = "one",
    columns: Sequence[str] | None = None,
    until: str | None = None,
    skip_bad: int = 0,
    max_bytes: int = MAX_BYTES,
) -> Labelled:
    """The examples of some tables (TSV, CSV, JSONL), or files of lines that begin with their label.

    Args:
        columns: of the text, or of both texts, and last of the label: names, or numbers from 1. None: found out.
        until: what of a class counts ends before this: ":" makes NUM of NUM:dist.
        skip_bad: how many bad lines to leave out before giving up; they are in `Labelled.skipped`.
        max_bytes: the most bytes of each file after decompression.

    Several classes are a list in JSON, and elsewhere parted by `|`; no class at all is an empty list or field.

    Raises:
        DataError: a file is missing, empty or broken; there are no such columns; a line is bad; one file has pairs and
            another has not.
    """
    texts, labels, places, sha256 = (
        list[tuple[str, ...]](),
        list[LabelValue](),
        list[tuple[int, int]](),
        dict[str, str](),
    )
    skipped, undecided = Skipped(skip_bad), 0
    for number, path in enumerate(paths):
        with Lines(path, max_bytes=max_bytes) as lines:
            for line, own, value in _examples(lines, columns, skipped):
                where = f"{path}:{line}"
                if len(own) == 2 and value == UNDECIDED:
                    undecided += 1
                    continue
                try:
                    label = read_label(value, kind, until)
                except ValueError as error:
                    skipped.add(DataError("the label cannot be read", where=where, expected=EXPECTED[kind],
                                          got=f"{shorten(str(value))}, {error}"))  # fmt: skip
                    continue
                if texts and len(own) != len(texts[0]):
                    raise DataError("texts and pairs of texts do not go together", where=where,
                                    expected=f"{len(texts[0])} texts, as in {paths[0]}", got=len(own))  # fmt: skip
                texts.append(own)
                labels.append(label)
                places.append((number, line))
            sha256[str(path)] = lines.sha256
    if not texts:
        raise DataError("there are no examples in it", where=" and ".join(map(str, paths)),
                        expected="a text and its label a line")  # fmt: skip
    return Labelled(texts, labels, kind, places, tuple(paths), sha256, tuple(skipped.errors), undecided)


EXPECTED: dict[LabelKind, str] = {
    "one": "the name of a class", "several": "class names parted by |, or a list of them", "number": "a number",
}  # fmt: skip


def read_label(value: object, kind: LabelKind, until: str | None = None) -> LabelValue:
    """A label as it stands in a file, read; ValueError says what is wrong with it."""
    if kind == "number":
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("which is no number")
        try:
            number = float(value)
        except ValueError:
            raise ValueError("which is no number") from None
        if not math.isfinite(number):
            raise ValueError("which is not finite")
        return number
    if kind == "several":
        parts = value.split("|") if isinstance(value, str) and value.strip() else value or []
        if not isinstance(parts, list):
            raise ValueError("which is one value")
        return tuple(sorted({_name(part, until) for part in parts}))
    return _name(value, until)


def _name(value: object, until: str | None) -> str:
    """A class's name; true, 1 and 1.5 of JSON are names too."""
    if isinstance(value, list | dict) or value is None:
        raise ValueError("which is not one class (several: --multi-label)")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = (text.partition(until)[0] if until else text).strip()
    if not text:
        raise ValueError("which is empty")
    return text


@dataclass(frozen=True)
class _Columns:
    texts: tuple[Any, ...]
    label: Any
    header: bool
    width: int

    def pick(self, row: Row) -> tuple[tuple[str, ...], object]:
        """The texts and the label of a row; ValueError says what is wrong with it."""
        if isinstance(row, list) and len(row) != self.width:
            raise ValueError(f"the row has {len(row)} columns and the first row {self.width}")
        for key in (*self.texts, self.label) if isinstance(row, dict) else ():
            if key not in row:
                raise ValueError(f"the field {key!r} is missing")
        for key in self.texts if isinstance(row, dict) else ():
            if not isinstance(row[key], str):
                raise ValueError(f"the field {key!r} is not a string")
        return tuple(str(row[key]) for key in self.texts), row[self.label]


def _examples(
    lines: Lines, wanted: Sequence[str] | None, skipped: Skipped
) -> Iterator[tuple[int, tuple[str, ...], object]]:
    """(line, texts, label as it stands there)."""
    head = lines.head().removeprefix(b"\xef\xbb\xbf").split(b"\n")[0].decode("utf-8", "replace")
    if bare(lines.path).suffix.lower() not in (".tsv", ".csv", ".jsonl", ".json") and LABEL_FIRST.match(head):
        yield from _label_first(lines, skipped)
        return
    columns: _Columns | None = None
    for number, row in rows(lines, skipped):
        if columns is None:
            columns = _find_columns(row, wanted, f"{lines.path}:{number}")
            if columns.header:
                continue
        try:
            texts, label = columns.pick(row)
        except ValueError as error:
            skipped.add(DataError(str(error), where=f"{lines.path}:{number}", got=shorten(str(row))))
            continue
        yield number, texts, label


def _label_first(lines: Lines, skipped: Skipped) -> Iterator[tuple[int, tuple[str, ...], object]]:
    for line in lines:
        if isinstance(line, DataError):
            skipped.add(line)
        elif found := LABEL_FIRST.match(line):
            names = found[1].replace("__label__", " ").split()
            yield lines.number, (found[2],), names if len(names) > 1 else names[0]
        elif line.strip():
            skipped.add(lines.bad("the line does not begin with a label", got=shorten(line)))


def _find_columns(row: Row, wanted: Sequence[str] | None, where: str) -> _Columns:
    """Where texts and label are, from the first row; raises DataError naming the columns that are there."""
    names = list(row) if isinstance(row, dict) else [name.strip() for name in row]
    chosen = list(wanted) if wanted else _known(names)
    if chosen and set(chosen) <= set(names):
        keys: list[Any] = chosen if isinstance(row, dict) else [names.index(name) for name in chosen]
        return _Columns(tuple(keys[:-1]), keys[-1], header=isinstance(row, list), width=len(row))
    numbers = chosen or [str(i + 1) for i in range(len(row))]
    unlabelled = not wanted and _known([*names, LABEL[0]]) is not None  # a header all the same
    if isinstance(row, list) and not unlabelled and 2 <= len(numbers) <= 3 and _are_numbers(numbers, len(row)):
        keys = [int(number) - 1 for number in numbers]
        return _Columns(tuple(keys[:-1]), keys[-1], header=False, width=len(row))
    raise DataError(
        f"there are no columns {', '.join(wanted)}" if wanted else "cannot tell the columns of texts and label",
        where=where, expected=None if wanted else "text and label, or premise, hypothesis and label, in the first row",
        got=f"a first row with {shorten(', '.join(names))}",
        mend="choose them by --columns TEXT,LABEL or FIRST,SECOND,LABEL (names, or numbers from 1)",
    )  # fmt: skip


def _are_numbers(names: Sequence[str], most: int) -> bool:
    return all(name.isdecimal() and 1 <= int(name) <= most for name in names)


def _known(names: Sequence[str]) -> list[str] | None:
    """The names of the texts and the label, if they are among those that usually are."""
    own = {name.lower(): name for name in reversed(names)}
    label = next((own[name] for name in LABEL if name in own), None)
    texts = next(([own[a], own[b]] for a, b in PAIR if a in own and b in own), None)
    texts = texts or next(([own[name]] for name in TEXT if name in own), None)
    return [*texts, label] if texts and label else None
