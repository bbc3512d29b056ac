"""Documents to learn a language from: plain text, JSONL, TSV, CSV and parquet files, whole folders of them.

What it is: `read_documents`, an iterator that also counts what it leaves out, and `Documents`, the same of some parts.
What is unusual: a plain text is one document, however many blank lines it has; a `unit` says otherwise:

    file         all of it (a novel, a source file)
    paragraph    what stands between blank lines
    line         each line (a poem or a sentence a line)
    <|mark|>     what stands between lines that read like this

A text of more than 16 MiB becomes several documents, parted at the end of a line, so that memory is bounded and several
workers can share one file. Line ends become \\n; a byte order mark goes; all else is as it was. What is empty, or only
white space, is no document.
What it does not know: tokens. Lines come from `data.files`, rows from `data.tables`, the units from `data.plain`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from regard.data import parquet, plain
from regard.data.files import MAX_BYTES, Lines, shorten
from regard.data.parts import Part, digest, find_sources, kind_of, share
from regard.data.tables import READERS, Row, Skipped
from regard.errors import ConfigError, DataError

UNITS = ("file", "paragraph", "line")


@dataclass(frozen=True)
class Document:
    """One text, and where it came from.

    Attributes:
        text: what there is to learn.
        path: the file; `-` is standard input.
        line: the number of its first line (of parquet: its row), from 1, counted from where reading began: the file's
            beginning, or a worker's part.
    """

    text: str
    path: Path
    line: int


class Documents(Iterator[Document]):
    """The documents of some parts, one after another.

    Args:
        parts: of `data.parts.share`.
        unit: what of a plain text is one document: file, paragraph, line, or the line that stands between two.
        field: the column or field of the text in JSONL, TSV, CSV and parquet; of TSV and CSV also a number from 1.
        skip_bad: how many bad lines to leave out before giving up. None: none, and the user has no say in it.
        max_bytes: the most bytes of a compressed file after decompression.

    Attributes:
        skipped: the bad lines left out so far.
        empty: how many documents were left out because they have no text.
        characters: of the texts so far.
        sha256: of each file that was read whole, as it lies on disk, by its path.

    Raises:
        ConfigError: (on construction) the unit is none.
        DataError: (while reading) a file is broken or has no such field, or a line is bad.
        MissingExtraError: a file is zstd or parquet and the library is absent.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        unit: str = "file",
        field: str = "text",
        skip_bad: int | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.empty, self.characters, self.sha256, self._bad = 0, 0, dict[str, str](), Skipped(skip_bad)
        self._parts, self._unit, self._field, self._max_bytes = parts, check_unit(unit), field, max_bytes
        self._before, self._lines = 0, cast("Lines | None", None)
        self._documents = self._read()

    def __next__(self) -> Document:
        return next(self._documents)

    @property
    def skipped(self) -> list[DataError]:
        """The bad lines left out so far."""
        return self._bad.errors

    @property
    def done(self) -> int:
        """How many bytes of the parts, as they lie on disk, were read so far."""
        return self._before + (self._lines.consumed if self._lines else 0)

    def _read(self) -> Iterator[Document]:
        for part in self._parts:
            for line, text in self._texts(part):
                if text.strip():
                    self.characters += len(text)
                    yield Document(text, part.source.path, line)
                else:
                    self.empty += 1
            self._before, self._lines = self._before + part.stop - part.start, None

    def _texts(self, part: Part) -> Iterator[tuple[int, str]]:
        """(line number, text) of each document of a part."""
        source = part.source
        if source.kind == "parquet":
            yield from parquet.texts(part, self._field, self._bad, max(self._max_bytes, source.size))
            if part.whole:
                self.sha256[str(source.path)] = digest(part)
            return
        unit = self._unit if source.kind in ("text", None) else "line"
        start = {"file": plain.first_seam, "line": plain.byte_before}.get(unit, plain.line_before)(part)
        if start >= part.stop > 0:
            return
        limit = max(self._max_bytes, source.size) if source.divisible else self._max_bytes
        stop = part.stop if source.divisible and unit == "line" else None
        with Lines(source.path, max_bytes=limit, start=start, stop=stop) as self._lines:
            yield from self._of_lines(self._lines, source.kind or kind_of(self._lines), part)
            if part.whole:
                self.sha256[str(source.path)] = self._lines.sha256

    def _of_lines(self, lines: Lines, kind: str, part: Part) -> Iterator[tuple[int, str]]:
        if kind != "text":
            yield from _from_table(lines, kind, part, self._field, self._bad)
        elif self._unit == "file":
            yield from plain.whole(lines, part, self._bad)
        elif self._unit == "line":
            yield from plain.each(lines, part, self._bad)
        else:
            yield from plain.between(lines, part, "" if self._unit == "paragraph" else self._unit, self._bad)


def read_documents(
    paths: Sequence[Path],
    *,
    unit: str = "file",
    field: str = "text",
    skip_bad: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Documents:
    """The documents of files and folders, in the order given, folders by name. Arguments: `Documents`.

    A name ending in .jsonl, .ndjson, .tsv, .csv or .parquet (.gz and .zst aside) says what the file is; any other is
    text, but .json, a name without an end, and standard input (`-`) are JSONL where the first line begins like an
    object.

    Raises:
        DataError: a file is missing or unreadable, or a folder has no text in it. While reading, as `Documents`.
        ConfigError: the unit is none.
    """
    parts = share(find_sources(paths), 0, 1)
    return Documents(parts, unit=unit, field=field, skip_bad=skip_bad, max_bytes=max_bytes)


def check_unit(unit: str) -> str:
    """The unit, if it is one of `UNITS` or a mark, which has more in it than letters; else ConfigError."""
    if unit in UNITS or (unit.strip() == unit != "" and not unit.isalpha()):
        return unit
    near = difflib.get_close_matches(unit, UNITS, n=1)
    raise ConfigError(
        "this is no unit of text", where="--unit", got=repr(unit),
        expected=f"{', '.join(UNITS)}, or the line between two documents, such as '<|endoftext|>'",
        mend=f"did you mean {near[0]}?" if near else None,
    )  # fmt: skip


@dataclass(frozen=True)
class _Column:
    """Where the text is in a row: a key; `width` is how many columns a TSV or CSV row must have."""

    key: Any
    header: bool = False
    width: int = 0

    def pick(self, row: Row) -> str | None:
        """The text; None where there is none."""
        if isinstance(row, dict):
            text = row.get(self.key)
            return text if isinstance(text, str) else None
        return row[self.key] if len(row) == self.width else None


def _from_table(lines: Lines, kind: str, part: Part, field: str, bad: Skipped) -> Iterator[tuple[int, str]]:
    column, head = (_Column(field), 0) if kind == "jsonl" else _first_column(lines, part, kind, field, bad.allowed)
    if part.start:
        lines.pass_over()
    for number, row in READERS[kind](lines, bad):
        if column is None:
            column = _find_column(row, field, f"{lines.path}:{number}")
            head = lines.offset if column.header else 0
        if lines.offset <= head:
            continue
        text = column.pick(row)
        if text is not None:
            yield number, text
        elif isinstance(row, dict):
            what = f"the field {field!r} is {'not a string' if field in row else 'missing'}"
            bad.add(lines.bad(what, got=shorten(str(row)), number=number))
        else:
            what = f"the row has {len(row)} column{'s' * (len(row) != 1)} and the first row {column.width}"
            bad.add(lines.bad(what, got=shorten(str(row)), number=number))


def _first_column(lines: Lines, part: Part, kind: str, field: str, allowed: int | None) -> tuple[_Column | None, int]:
    """The column as the file's first row has it, and where its header ends; None: the part has that row itself."""
    if not part.start:
        return None, 0
    with Lines(lines.path) as first:
        number, row = next(READERS[kind](first, Skipped(allowed)))
        column = _find_column(row, field, f"{lines.path}:{number}")
        return column, first.offset if column.header else 0


def _find_column(row: Row, field: str, where: str) -> _Column:
    """The column that the first row names `field`, else the one of that number, else the only one."""
    names = [str(name).strip() for name in row]
    if field in names:
        return _Column(names.index(field), header=True, width=len(names))
    if field.isdecimal() and 1 <= int(field) <= len(names):
        return _Column(int(field) - 1, width=len(names))
    if len(names) == 1:
        return _Column(0, width=1)
    near = difflib.get_close_matches(field, names, n=1)
    raise DataError(f"there is no column {field!r}", where=where, got=f"a first row with {shorten(', '.join(names))}",
                    mend=f"--field {near[0]}" if near else "--field with a name, or a number from 1")  # fmt: skip
