"""Which files a corpus is made of, how each is read, and which part of them a worker reads.

What it is: `find_sources` looks into folders and tells formats; `share` gives worker i of n its parts.
What is unusual: all sources stand in one line, byte after byte as they lie on disk, and a worker owns a stretch of it:

    sources      | books.txt          | news.jsonl   | wiki.parquet     |
    worker 0 of 3 [.................)
    worker 1 of 3                    [.................)
    worker 2 of 3                                      [................)

A document belongs to whoever owns its first byte, and is read whole by that one. So the workers' documents, one worker
after another, are those of a single worker, however many they are; and of a file that can be read from its middle each
reads its own part alone. What cannot (compressed files, CSV, whose quoted fields may hold line ends) belongs whole to
the owner of its first byte, a row group of a parquet file likewise.
What it does not know: how a text is found in a file (`data.documents`, `data.parquet`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import STDIN, Lines
from regard.data.languages import bare
from regard.errors import UNREADABLE, ConfigError, DataError

KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".csv": "csv", ".parquet": "parquet"}
"""What the end of a name says (with or without .gz or .zst); any other is plain text."""
UNTOLD = ("", ".json")
"""Ends of names that leave it open whether each line is JSON: the first line tells."""
RECORD = re.compile(rb'(\xef\xbb\xbf)?\s*\{ *"')
READ_BYTES = 2**20


@dataclass(frozen=True)
class Source:
    """One file.

    Attributes:
        path: where it is; `-` is standard input.
        name: its name without the folders above what was asked for, so that it is the same on every machine.
        kind: text, jsonl, tsv, csv or parquet; binary: none of these, and left out; None: it can be read only once
            (standard input, a pipe), and its first line will tell.
        size: bytes on disk.
        divisible: lines can be read from any place in it.
    """

    path: Path
    name: str
    kind: str | None
    size: int
    divisible: bool


@dataclass(frozen=True)
class Part:
    """The documents of a source whose first byte lies in [start, stop)."""

    source: Source
    start: int
    stop: int

    @property
    def whole(self) -> bool:
        """Nothing of the source is left to others."""
        return self.start == 0 and self.stop == self.source.size


def find_sources(paths: Sequence[Path], *, besides: Path | None = None) -> list[Source]:
    """The files at `paths`, those in folders sorted by name; hidden ones are passed over.

    A file in a folder with a NUL in its beginning is no text (as git tells it), and nobody reads it.

    Args:
        besides: a folder of which nothing counts, should it be in one of the others.

    Raises:
        DataError: a file is missing or unreadable, or a folder has no text in it.
    """
    sources = list[Source]()
    for path in paths:
        if path.is_dir():
            names = [(file, f"{path.resolve().name}/{name}") for file, name in _shown(path, besides)]
            found = [_look(file, name, may_be_binary=True) for file, name in names]
            if all(source.kind == "binary" for source in found):
                raise DataError("there is no text in this folder", where=path, got=f"{len(found):,} other files",
                                mend="name a folder of plain texts, .jsonl, .tsv or .parquet")  # fmt: skip
            sources += found
        else:
            sources.append(_look(path, path.name, may_be_binary=False))
    return sources


def _shown(folder: Path, besides: Path | None) -> Iterator[tuple[Path, str]]:
    """Each file that is not hidden, and its name from the folder on."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        apart = besides is None or besides.resolve() not in path.resolve().parents
        if apart and path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield path, name.as_posix()


def _look(path: Path, name: str, *, may_be_binary: bool) -> Source:
    if path == STDIN or (path.exists() and not path.is_file()):
        return Source(path, name, None, 0, divisible=False)
    with Lines(path) as lines:
        suffix = bare(path).suffix.lower()
        kind = KINDS.get(suffix) or ("text" if suffix not in UNTOLD else kind_of(lines))
        if may_be_binary and kind != "parquet" and b"\0" in lines.head():
            kind = "binary"
        divisible = kind in ("text", "jsonl", "tsv") and not lines.compressed
        return Source(path, name, kind, path.stat().st_size, divisible)


def kind_of(lines: Lines) -> str:
    """`jsonl` or `text`, by the first line still to be read."""
    return "jsonl" if RECORD.match(lines.head()) else "text"


def share(sources: Sequence[Source], index: int, count: int) -> list[Part]:
    """What worker `index` of `count` reads, in order; over all workers everything is read once.

    Raises:
        ConfigError: there is no such worker, or standard input would have to be shared.
    """
    if not 0 <= index < count:
        raise ConfigError("there is no such shard", where="--shard", expected="i/n, i from 0 to n - 1",
                          got=f"{index}/{count}")  # fmt: skip
    sources = [source for source in sources if source.kind != "binary"]
    if count == 1:
        return [Part(source, 0, source.size) for source in sources]
    if pipes := [str(source.path) for source in sources if source.kind is None]:
        raise ConfigError("what can be read only once cannot be shared out", where="--shard", got=", ".join(pipes),
                          mend="give a file")  # fmt: skip
    total, before = sum(source.size for source in sources), 0
    first, last = total * index // count, total * (index + 1) // count
    parts = list[Part]()
    for source in sources:
        start, stop = max(0, first - before), min(source.size, last - before)
        before += source.size
        if source.divisible or source.kind == "parquet":
            if start < stop:
                parts.append(Part(source, start, stop))
        elif start == 0 < stop:
            parts.append(Part(source, 0, source.size))
    return parts


def digest(part: Part) -> str:
    """The SHA-256 of the bytes of a part as they lie on disk; raises DataError if they cannot be read."""
    found, left = hashlib.sha256(), part.stop - part.start
    try:
        with part.source.path.open("rb") as file:
            file.seek(part.start)
            while left > 0 and (block := file.read(min(left, READ_BYTES))):
                found.update(block)
                left -= len(block)
    except OSError as error:
        raise DataError("the file cannot be read", where=part.source.path, got=error, mend=UNREADABLE) from None
    return found.hexdigest()


def describe(sources: Sequence[Source], unit: str, field: str) -> list[str]:
    """How the sources will be read, a sentence for each kind; `unit` and `field` as in `data.documents.Documents`."""
    one = {"file": "each is one document", "paragraph": "blank lines part documents", "line": "each line is a document"}
    text = one.get(unit, f"lines {unit} part documents")
    others = [f"--unit {name}" for name in one if name != unit]
    more = f"; {' or '.join(others)} has it otherwise"
    said = {
        "text": f"read as plain text: {text}{more}",
        "binary": "left out: no text",
        None: f"read by its first line, as JSONL or as plain text: {text}",
    }
    count = Counter(source.kind for source in sources)
    return [
        f"{number:,} file{'s' * (number > 1)} {said.get(kind) or f'read as {str(kind).upper()}: column {field!r}'}"
        for kind, number in count.items()
    ]
