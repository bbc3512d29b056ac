"""Documents parted into files to train on, to look at and to be scored on, for recipes whose data is not parted yet.

    train  dev  test          one part in twenty for each of the last two, or as much as is said

What is unusual: a hash of the document's name or text decides its part, so that copies stay together, and the same
data gives the same files. The Python standard library is data that every machine has.
What it does not know: tokens, models.
"""

from __future__ import annotations

import hashlib
import json
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.data.files import read_lines
from regard.data.places import find_data
from regard.hub.atomic import write_text_atomic

LEFT_OUT = {"site-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__", "encodings", "pydoc_data"}
"""Folders of the standard library that are not it, or say little: what was installed, tests, old parsers, and what a
program wrote: tables of characters that differ in a few lines, and a book of help in one string."""


@dataclass(frozen=True, kw_only=True)
class PartedTable:
    """The lines of a table, each a document; a tenth of them for the test.

    Attributes:
        table: its name, for `find_data`; plain or gzip, without a header.
        column: of the text, from 1: lines that agree in it stay together.
    """

    kind: ClassVar[str] = "parted-table"
    table: str
    column: int

    def write(self, folder: Path) -> None:
        """Put train.tsv, dev.tsv and test.tsv into `folder`, which is made; raises DataError without the table."""
        lines = [line for line in read_lines(find_data(self.table)) if line.strip()]
        _write(folder, "tsv", ((line.split("\t")[self.column - 1], line) for line in lines), dev=0.01, test=0.1)


@dataclass(frozen=True, kw_only=True)
class PythonSources:
    """The standard library of the Python that runs this: each module a document."""

    kind: ClassVar[str] = "python-sources"

    def write(self, folder: Path) -> None:
        """Put train.jsonl, dev.jsonl and test.jsonl into `folder`, which is made."""
        root = Path(sysconfig.get_path("stdlib"))
        found = (path for path in sorted(root.rglob("*.py")) if not LEFT_OUT & {*path.relative_to(root).parts})
        named = ((str(path.relative_to(root)), path.read_text(encoding="utf-8", errors="replace")) for path in found)
        rows = ((name, json.dumps({"path": name, "text": text})) for name, text in named if text.strip())
        _write(folder, "jsonl", rows, dev=0.05, test=0.05)


def _write(folder: Path, suffix: str, rows: Iterable[tuple[str, str]], *, dev: float, test: float) -> None:
    """Each line into the file that the hash of its key chooses."""
    parts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for key, line in rows:
        place = int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8]) / 2**64
        parts["test" if place < test else "dev" if place < test + dev else "train"].append(line + "\n")
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        write_text_atomic(folder / f"{name}.{suffix}", "".join(lines))
