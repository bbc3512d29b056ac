"""Which columns of a table hold the text, or both, and the label; and whether its first row is an example.

What is unusual: names that usually are those of a text and a label make a header, also where the columns are chosen by
numbers. Of other names the whole file tells: a row of single words whose label no other row has, while the others come
again and again, names the columns (`tweet  target`); whoever reads is told so, and may say otherwise by numbers. A last
column of which every value is another one is no label where another column has few values: that is an error.
What it does not know: how a label is read, and files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from regard.data.files import shorten
from regard.data.tables import Row
from regard.errors import DataError

LabelKind = Literal["one", "several", "number"]
"""What an example is labelled with: one class, any number of classes, a number."""
LabelValue = str | tuple[str, ...] | float
"""The same as values."""
TEXT = ("text", "sentence", "review", "content", "comment", "question", "document")
PAIR = (("premise", "hypothesis"), ("sentence1", "sentence2"), ("text1", "text2"), ("question1", "question2"),
        ("question", "sentence"))  # fmt: skip
LABEL = ("label", "labels", "gold_label", "class", "category", "sentiment", "intent", "score", "similarity", "rating")
KNOWN = frozenset((*TEXT, *(name for pair in PAIR for name in pair), *LABEL))
NAME = re.compile(r"[^\W\d][\w.-]{0,29}")
"""What a column may be called: one word."""
RECUR = 2
"""A column of few values has each so many times, in the mean."""
ALONE = 0.9
"""A column in which this share of the values are met once holds no labels."""


class Header(NamedTuple):
    """A first row that was taken for the names of the columns, although they are not known ones."""

    where: str
    names: str
    numbers: str | None
    """What --columns says where it is an example after all; None where it did, but one of the names is a known one."""

    def __str__(self) -> str:
        mend = f"; if it is an example, say so by --columns {self.numbers}" if self.numbers else ""
        return f"the first row ({shorten(self.names)}) was taken for names of columns: no other has its label{mend}"


@dataclass(frozen=True)
class LabelColumns:
    """Where an example is in each row.

    Attributes:
        texts, label: what to index a row with.
        header: the first row names them.
        first: the first row, as it stands.
        where: `file:line` of it.
        chosen: somebody named or numbered them; if not, they were told by their names or by their places.
    """

    texts: tuple[Any, ...]
    label: Any
    header: bool
    first: Row
    where: str
    chosen: bool

    def pick(self, row: Row) -> tuple[tuple[str, ...], object]:
        """The texts and the label of a row; ValueError says what is wrong with it."""
        width = len(self.first)
        if isinstance(row, list) and len(row) != width:
            raise ValueError(f"the row has {len(row)} column{'s' * (len(row) != 1)} and the first row {width}")
        for key in (*self.texts, self.label) if isinstance(row, dict) else ():
            if key not in row:
                raise ValueError(f"the field {key!r} is missing")
        for key in self.texts if isinstance(row, dict) else ():
            if not isinstance(row[key], str):
                raise ValueError(f"the field {key!r} is not a string")
        return tuple(str(row[key]) for key in self.texts), row[self.label]

    def taken_for_names(self, texts: Sequence[tuple[str, ...]], labels: Sequence[LabelValue]) -> Header | None:
        """The first row as a header that is told by the whole file, whose examples these are, itself among them."""
        cells = [str(cell).strip() for cell in self.first] if isinstance(self.first, list) else []
        if self.header or not cells or not _names_columns(texts, labels):
            return None
        keys = (*self.texts, self.label)
        if self.chosen and KNOWN.isdisjoint(cells[key].lower() for key in keys):
            return None  # a number says that there is no header
        numbers = None if self.chosen else ",".join(str(key + 1) for key in keys)
        return Header(self.where, ", ".join(cells), numbers)

    def mend(self, where: str) -> str | None:
        """How to say that the row there names the columns; None where it cannot, or was not taken for an example."""
        cells = [str(self.first[key]).strip() for key in (*self.texts, self.label)]
        names = where == self.where and isinstance(self.first, list) and all(map(NAME.fullmatch, cells))
        return f"if this row names the columns, say so by --columns {','.join(cells)}" if names else None

    def refuse_swapped(self, texts: Sequence[tuple[str, ...]], labels: Sequence[LabelValue]) -> None:
        """Raise DataError where the last column was taken for the label, and it is another one that has few values."""
        if self.header or self.chosen or isinstance(self.first, dict):
            return
        alone = sum(count == 1 for count in Counter(labels).values())
        values = [len({row[place] for row in texts}) for place in range(len(self.texts))]
        place = values.index(min(values))
        if alone < ALONE * len(labels) or RECUR * values[place] > len(labels):
            return
        order = [*(key for i, key in enumerate(self.texts) if i != place), self.label, self.texts[place]]
        columns = ",".join(str(key + 1) for key in order)
        rest = [(*row[:place], *row[place + 1 :], *classes_of(own)) for row, own in zip(texts, labels, strict=True)]
        if _names_columns(rest, [row[place] for row in texts]):
            columns = ",".join(str(self.first[key]).strip() for key in order)
        raise DataError("the last column holds no classes: nearly every row has another", where=self.where,
                        expected="a label that other rows have too",
                        got=f"{alone:,} of {len(labels):,} alone in their class, and {values[place]:,} "
                            f"value{'s' * (values[place] != 1)} in column {self.texts[place] + 1}",
                        mend=f"say which column is the label, as the last: --columns {columns}")  # fmt: skip


def _names_columns(texts: Sequence[tuple[str, ...]], labels: Sequence[LabelValue]) -> bool:
    """Whether the first of a file's rows names the columns: its label is met nowhere else, the others again and again.

    Its cells are single words; or its label is a word and all others are numbers.
    """
    own, others = classes_of(labels[0]), Counter(name for label in labels[1:] for name in classes_of(label))
    if len(own) != 1 or own[0] in others or len(others) < 2 or RECUR * len(others) > len(labels) - 1:
        return False
    if all(NAME.fullmatch(cell.strip()) for cell in (*texts[0], own[0])):
        return True
    return all(map(is_number, others)) and not is_number(own[0])


def classes_of(label: LabelValue) -> tuple[str, ...]:
    """The classes that a label names; a number names none."""
    return (label,) if isinstance(label, str) else label if isinstance(label, tuple) else ()


def is_number(name: str) -> bool:
    """Whether a class could be meant as a number."""
    try:
        float(name)
    except ValueError:
        return False
    return True


def find_label_columns(row: Row, wanted: Sequence[str] | None, where: str) -> LabelColumns:
    """Where texts and label are, from the first row; raises DataError naming the columns that are there."""
    names = list(row) if isinstance(row, dict) else [name.strip() for name in row]
    known = known_columns(names)
    chosen = list(wanted) if wanted else known
    if chosen and set(chosen) <= set(names):
        keys: list[Any] = chosen if isinstance(row, dict) else [names.index(name) for name in chosen]
        return LabelColumns(tuple(keys[:-1]), keys[-1], isinstance(row, list), row, where, chosen=True)
    numbers = chosen or [str(i + 1) for i in range(len(row))]
    unlabelled = not wanted and known_columns([*names, LABEL[0]]) is not None  # a header all the same
    if isinstance(row, list) and not unlabelled and 2 <= len(numbers) <= 3 and _are_numbers(numbers, len(row)):
        keys = [int(number) - 1 for number in numbers]
        return LabelColumns(tuple(keys[:-1]), keys[-1], known is not None, row, where, chosen=bool(wanted))
    raise DataError(
        f"there are no columns {', '.join(wanted)}" if wanted else "cannot tell the columns of texts and label",
        where=where, expected=None if wanted else "text and label, or premise, hypothesis and label, in the first row",
        got=f"a first row with {shorten(', '.join(names))}",
        mend="choose them by --columns TEXT,LABEL or FIRST,SECOND,LABEL (names, or numbers from 1)",
    )  # fmt: skip


def _are_numbers(names: Sequence[str], most: int) -> bool:
    return all(name.isdecimal() and 1 <= int(name) <= most for name in names)


def known_columns(names: Sequence[str]) -> list[str] | None:
    """The names of the texts and the label, if they are among those that usually are."""
    own = {name.lower(): name for name in reversed(names)}
    label = next((own[name] for name in LABEL if name in own), None)
    texts = next(([own[a], own[b]] for a, b in PAIR if a in own and b in own), None)
    texts = texts or next(([own[name]] for name in TEXT if name in own), None)
    return [*texts, label] if texts and label else None
