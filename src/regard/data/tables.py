"""Rows of TSV, CSV and JSONL files, and which of their columns hold the pair.

What it is: `rows`, one iterator for all three formats, and `find_columns`, which reads the first row.
What is unusual: a row is a list (TSV, CSV) or a dict (JSONL) and a column is its key, an int or a str, so that nothing
after this module asks for the format. TSV has no quoting; CSV has, and a quoted field may hold a line end.
What it does not know: what the texts are for.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.files import Lines, shorten
from regard.data.languages import bare, is_language, is_tag
from regard.errors import DataError

Row = list[str] | dict[str, Any]
NAMES = [("source", "target"), ("src", "tgt")]
TARGET_LANGUAGE = "target_language"


class Skipped:
    """The bad lines so far; one more than `allowed` is raised. None: the first is, and the user has no say in it."""

    def __init__(self, allowed: int | None) -> None:
        self.allowed, self.errors = allowed, list[DataError]()

    def add(self, error: DataError) -> None:
        """Count one bad line."""
        self.errors.append(error)
        if len(self.errors) > (self.allowed or 0):
            what = error.what + (f" (bad line {len(self.errors)})" if self.allowed else "")
            mend = error.mend or "correct the line"
            mend += "" if self.allowed is None else "; or leave bad lines out with --skip-bad N"
            raise DataError(what, where=error.where, expected=error.expected, got=error.got, mend=mend)


def rows(lines: Lines, skipped: Skipped) -> Iterator[tuple[int, Row]]:
    """(line number, row) of each record; the number is that of the record's first line. Empty lines are passed over.

    The format is told by the name (.tsv, .csv, .jsonl, with or without .gz or .zst), else by the first line.

    Raises:
        DataError: the format cannot be told, or a line is bad and `skipped` is full.
    """
    return READERS[_format(lines)](lines, skipped)


def _format(lines: Lines) -> str:
    suffix = bare(lines.path).suffix.lower().removeprefix(".")
    if suffix in READERS:
        return suffix
    first = lines.head().removeprefix(b"\xef\xbb\xbf").split(b"\n")[0]
    if first.lstrip().startswith(b"{"):
        return "jsonl"
    if b"\t" in first or not lines.head():
        return "tsv"
    raise DataError(
        "cannot tell the format of this table",
        where=lines.path,
        expected="a name ending in .tsv, .csv or .jsonl, or a tab or a { in the first line",
        got=shorten(first.decode("utf-8", "replace")),
        mend="rename it; for plain text, give two files, the source and the target",
    )


def _good(lines: Lines, skipped: Skipped) -> Iterator[str]:
    for line in lines:
        if isinstance(line, DataError):
            skipped.add(line)
        else:
            yield line


def _tsv_rows(lines: Lines, skipped: Skipped) -> Iterator[tuple[int, Row]]:
    for text in _good(lines, skipped):
        if text:
            yield lines.number, text.split("\t")


def _csv_rows(lines: Lines, skipped: Skipped) -> Iterator[tuple[int, Row]]:
    reader = csv.reader((text + "\n" for text in _good(lines, skipped)), strict=True)
    while True:
        number = lines.number + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            where, mend = f"{lines.path}:{number}", "close each quote, and double a quote inside a field"
            skipped.add(DataError("the record is not CSV", where=where, got=error, mend=mend))
            continue
        if row:
            yield number, row


def _jsonl_rows(lines: Lines, skipped: Skipped) -> Iterator[tuple[int, Row]]:
    for text in _good(lines, skipped):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            skipped.add(lines.bad("the line is not JSON", got=f"{shorten(text)} ({error})"))
            continue
        if not isinstance(record, dict):
            skipped.add(lines.bad("the line is not a JSON object", got=shorten(text)))
            continue
        inner = record.get("translation")
        yield lines.number, {**record, **inner} if isinstance(inner, dict) else record


READERS = {"tsv": _tsv_rows, "csv": _csv_rows, "jsonl": _jsonl_rows}


@dataclass(frozen=True)
class Columns:
    """Where the pair is in each row.

    Attributes:
        keys: of the source and of the target, to index a row with.
        names: of the same, where a header or JSONL gives them.
        header: whether the first row is one.
        width: how many columns a TSV or CSV row must have.
        to: of the target's language, where there is a column or field `target_language`.
    """

    keys: tuple[Any, Any]
    names: tuple[str | None, str | None]
    header: bool
    width: int
    to: Any = None

    def pick(self, row: Row) -> tuple[str, str, str | None]:
        """The two texts of a row and the target's language; ValueError says what is wrong with it."""
        keys = [key for key in (*self.keys, self.to) if key is not None]
        if isinstance(row, list):
            if len(row) != self.width:
                raise ValueError(f"the row has {len(row)} column{'s' * (len(row) != 1)} and the first row {self.width}")
        elif self.to is None and TARGET_LANGUAGE in row:
            raise ValueError(f"the field {TARGET_LANGUAGE!r} is here, but not in the first record")
        else:
            for key in keys:
                if not isinstance(row.get(key), str):
                    raise ValueError(f"the field {key!r} is {'not a string' if key in row else 'missing'}")
        source, target, *to = (row[key] for key in keys)
        if to and not is_tag(to[0]):
            raise ValueError(f"the {TARGET_LANGUAGE} is no language code like de or zh-Hans")
        return source, target, to[0] if to else None


def find_columns(row: Row, wanted: tuple[str, str] | None, where: str) -> Columns:
    """The columns from the first row: by the names or numbers `wanted`, by known names, or else the first two.

    Raises:
        DataError: they are not there; says which columns are.
    """
    names = list(row) if isinstance(row, dict) else [name.strip() for name in row]
    pair = named_pair(names, wanted)
    lower = [name.lower() for name in names]
    to = names[lower.index(TARGET_LANGUAGE)] if TARGET_LANGUAGE in lower else None
    if pair is not None and isinstance(row, dict):
        return Columns(pair, pair, header=False, width=len(row), to=to)
    if pair is not None:
        keys, where_to = (names.index(pair[0]), names.index(pair[1])), None if to is None else names.index(to)
        return Columns(keys, pair, header=True, width=len(row), to=where_to)
    numbers = wanted or ("1", "2")
    if isinstance(row, list) and all(text.isdecimal() and 1 <= int(text) <= len(row) for text in numbers):
        return Columns((int(numbers[0]) - 1, int(numbers[1]) - 1), (None, None), header=False, width=len(row))
    near = [
        match for name in wanted or () if name not in names for match in difflib.get_close_matches(name, names, n=1)
    ]
    raise DataError(
        f"there are no columns {' and '.join(wanted or NAMES[0])}",
        where=where,
        got=f"a first row with {shorten(', '.join(names))}",
        mend=f"did you mean {' or '.join(near)}?" if near else "choose two by --columns A,B (names, or numbers from 1)",
    )


def named_pair(names: Sequence[str], wanted: tuple[str, str] | None) -> tuple[str, str] | None:
    """The two of the names that are the source and the target, if they are there."""
    if wanted is not None:
        return wanted if set(wanted) <= set(names) else None
    lower = [name.lower() for name in names]
    for one, two in NAMES:
        if one in lower and two in lower:
            return names[lower.index(one)], names[lower.index(two)]
    codes = [name for name in names if is_language(name)]
    if len(codes) == 3 and "id" in codes:  # a number for each record, not Indonesian
        codes.remove("id")
    return (codes[0], codes[1]) if len(set(codes)) == 2 == len(codes) else None
