"""Texts with labels from files: one text or two in a row, and a class, several classes, or a number.

What it is: `read_labelled`, which gives `Labelled`: texts, labels, and where each example came from.
What is unusual: a class is a name, also where it looks like a number: "1" and "01" are two classes, and none is more
than another. Which columns hold what is found out from the first row:

    text  label                         one text (also sentence, review, content, .. and class, category, ..)
    premise  hypothesis  label          two texts (also sentence1 sentence2, text1 text2, question1 question2)
    no such names                       the last of two or three columns is the label (`data.label_columns`)
    __label__good A fine film           fastText's lines, and TREC's (`NUM:dist How far is it`): the label comes first

A pair whose label is `-` has none that its annotators agreed on (SNLI, OCNLI); it is left out and counted.
What it does not know: whether the examples are any good (`data.label_checks`), tokens, and tags within a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from regard.data.files import MAX_BYTES, Lines, shorten
from regard.data.label_columns import (
    LABEL,
    PAIR,
    TEXT,
    Header,
    LabelColumns,
    LabelKind,
    LabelValue,
    classes_of,
    find_label_columns,
)
from regard.data.languages import bare
from regard.data.tables import Row, Skipped, rows
from regard.errors import DataError

__all__ = ["LABEL", "PAIR", "TEXT", "LabelKind", "LabelValue", "Labelled", "begins_with_label", "classes_of",
           "read_label", "read_labelled"]  # fmt: skip
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
        headers: the first rows that were taken for names of columns though they have no known ones.
    """

    texts: list[tuple[str, ...]]
    labels: list[LabelValue]
    kind: LabelKind
    places: list[tuple[int, int]]
    files: tuple[Path, ...]
    sha256: Mapping[str, str]
    skipped: tuple[DataError, ...] = ()
    undecided: int = 0
    headers: tuple[Header, ...] = ()

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


def read_labelled(
    paths: Sequence[Path],
    *,
    kind: LabelKind = "one",
    columns: Sequence[str] | None = None,
    until: str | None = None,
    skip_bad: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Labelled:
    """The examples of some tables (TSV, CSV, JSONL), or files of lines that begin with their label.

    Args:
        columns: of the text, or of both texts, and last of the label: names, or numbers from 1. None: found out.
        until: what of a class counts ends before this: ":" makes NUM of NUM:dist.
        skip_bad: how many bad lines to leave out before giving up; they are in `Labelled.skipped`. None: none, and
            the user has no say in it.
        max_bytes: the most bytes of each file after decompression.

    Several classes are a list in JSON, and elsewhere parted by `|`; no class at all is an empty list or field.

    Raises:
        DataError: a file is missing, empty or broken; there are no such columns, or those that were not named hold no
            classes; a line is bad; one file has pairs and another has not.
    """
    read, sha256, skipped = list[_File](), dict[str, str](), Skipped(skip_bad)
    for path in paths:
        with Lines(path, max_bytes=max_bytes) as lines:
            read.append(_read(lines, columns, kind, until, skipped))
            sha256[str(path)] = lines.sha256
    first = next((file for file in read if file.texts), None)
    if first is None:
        raise DataError("there are no examples in it", where=" and ".join(map(str, paths)),
                        expected="a text and its label a line")  # fmt: skip
    parts = len(first.texts[0])
    for file in read:
        if file.texts and len(file.texts[0]) != parts:
            raise DataError("texts and pairs of texts do not go together", where=f"{file.path}:{file.lines[0]}",
                            expected=f"{parts} text{'s' * (parts > 1)}, as in {first.path}",
                            got=len(file.texts[0]),
                            mend="train on one kind at a time, or choose --columns")  # fmt: skip
    return Labelled(
        [texts for file in read for texts in file.texts], [label for file in read for label in file.labels], kind,
        [(number, line) for number, file in enumerate(read) for line in file.lines], tuple(paths), sha256,
        tuple(skipped.errors), sum(file.undecided for file in read), tuple(file.header for file in read if file.header),
    )  # fmt: skip


@dataclass
class _File:
    """The examples of one file."""

    path: Path
    texts: list[tuple[str, ...]] = field(default_factory=list)
    labels: list[LabelValue] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    undecided: int = 0
    header: Header | None = None


def _read(lines: Lines, wanted: Sequence[str] | None, kind: LabelKind, until: str | None, skipped: Skipped) -> _File:
    """The examples of one file; where its columns have no known names, all of it says whether its first row is one."""
    file = _File(lines.path)
    columns, examples = _examples(lines, wanted, skipped)
    for line, texts, value in examples:
        if len(texts) == 2 and value == UNDECIDED:
            file.undecided += 1
            continue
        try:
            label = read_label(value, kind, until)
        except ValueError as error:
            where = f"{lines.path}:{line}"
            skipped.add(DataError("the label cannot be read", where=where, expected=EXPECTED[kind],
                                  got=f"{shorten(str(value))}, {error}",
                                  mend=columns.mend(where) if columns else None))  # fmt: skip
            continue
        file.texts.append(texts)
        file.labels.append(label)
        file.lines.append(line)
    if columns is not None and file.texts and kind != "number":
        columns.refuse_swapped(file.texts, file.labels)
        if columns.where == f"{lines.path}:{file.lines[0]}":
            file.header = columns.taken_for_names(file.texts, file.labels)
    if file.header:
        del file.texts[0], file.labels[0], file.lines[0]
    return file


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


def begins_with_label(lines: Lines) -> bool:
    """Whether these are lines like `__label__good A fine film`; reads none."""
    head = lines.head().removeprefix(b"\xef\xbb\xbf").split(b"\n")[0].decode("utf-8", "replace")
    table = bare(lines.path).suffix.lower() in (".tsv", ".csv", ".jsonl", ".json")
    return not table and LABEL_FIRST.match(head) is not None


def _examples(
    lines: Lines, wanted: Sequence[str] | None, skipped: Skipped
) -> tuple[LabelColumns | None, Iterator[tuple[int, tuple[str, ...], object]]]:
    """The columns, if it is a table with a row, and (line, texts, label as it stands there) of each example."""
    if begins_with_label(lines):
        return None, _label_first(lines, skipped)
    table = rows(lines, skipped)
    first = next(table, None)
    if first is None:
        return None, iter(())
    columns = find_label_columns(first[1], wanted, f"{lines.path}:{first[0]}")
    return columns, _picked(columns, table if columns.header else chain([first], table), lines, skipped)


def _picked(
    columns: LabelColumns, table: Iterable[tuple[int, Row]], lines: Lines, skipped: Skipped
) -> Iterator[tuple[int, tuple[str, ...], object]]:
    for number, row in table:
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
