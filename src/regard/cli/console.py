"""Writing for people and programs: data on stdout, everything else on stderr.

What it is: the two consoles, tables, JSON, progress and atomic output files.
What is unusual: off a terminal nothing is wrapped or drawn: a table is plain aligned text of any width, and progress is
one line every ten seconds.
What it does not know: what it writes. Colours are rich's, which honours NO_COLOR.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from regard.errors import ConfigError, UserError

_UNWRAPPED = 10_000  # columns of a "terminal" that is none
out_console = Console(highlight=False, width=None if sys.stdout.isatty() else _UNWRAPPED)
err_console = Console(highlight=False, width=None if sys.stderr.isatty() else _UNWRAPPED, stderr=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout, one line a row; the cells are text, never markup."""
    from rich.cells import cell_len
    from rich.text import Text

    if not out_console.is_terminal:
        lines = [list(columns)] * any(columns) + [list(row) for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
            print("  ".join(padded).rstrip())
        return
    grid = Table(*columns, box=None, pad_edge=False, show_header=any(columns), header_style="bold")
    for row in rows:
        grid.add_row(*map(Text, row))
    out_console.print(grid)


def print_json(obj: Any) -> None:
    """Print one JSON object on one line of stdout; dataclasses and paths are understood, NaN and infinity are null."""
    print(json.dumps(_jsonable(obj), ensure_ascii=False, allow_nan=False), flush=True)


def _jsonable(obj: Any) -> Any:
    if is_dataclass(obj):
        return {field.name: _jsonable(getattr(obj, field.name)) for field in fields(obj)}
    if isinstance(obj, Mapping):
        return {str(key): _jsonable(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_jsonable(value) for value in obj]
    if isinstance(obj, float) and not math.isfinite(obj):
        return None
    return str(obj) if isinstance(obj, Path) else obj


def size(count: float | None) -> str:
    """Bytes as people say them: 23.5 GiB."""
    if count is None:
        return "unknown"
    power = min(int(math.log2(max(count, 1))) // 10, 4)
    return f"{count / 1024**power:.{0 if power == 0 else 1}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


@contextmanager
def progress(
    what: str, total: int | None = None, *, quiet: bool = False, every_seconds: float = 10.0
) -> Iterator[Callable[[int, str], None]]:
    """Yield `advance(steps, note)`, which shows on stderr how far the work has come.

    A bar on a terminal, off it a plain line every `every_seconds`, nothing when quiet.
    """
    if quiet:
        yield lambda steps, note: None
    elif err_console.is_terminal:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        shown = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total}")]
        clocks = [TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False)]
        with Progress(*shown, *clocks, console=err_console) as bars:
            task = bars.add_task(what, total=total, note="")
            yield lambda steps, note: bars.update(task, advance=steps, note=note)
    else:
        yield _Lines(what, total, every_seconds).advance


class _Lines:
    """Progress as plain lines, for logs."""

    def __init__(self, what: str, total: int | None, every_seconds: float) -> None:
        self.what, self.of, self.every_seconds = what, f"/{total}" if total else "", every_seconds
        self.done, self.told = 0, time.monotonic()

    def advance(self, steps: int, note: str) -> None:
        self.done += steps
        if time.monotonic() - self.told >= self.every_seconds:
            self.told = time.monotonic()
            print(f"{self.what}: {self.done}{self.of} {note}".rstrip(), file=sys.stderr, flush=True)


@contextmanager
def open_output(path: Path | None, *read: Path) -> Iterator[TextIO]:
    """A UTF-8 text stream that becomes the file `path` at the end, whole or not at all; None or "-" is stdout.

    Raises ConfigError where it is one of the files that are read, UserError where it cannot be written. A pipe or
    device, such as /dev/null, is written directly.
    """
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    target = Path(os.path.realpath(path))  # a link stays a link
    if str(target) in map(os.path.realpath, read) and target.is_file():
        raise ConfigError("this file is read, and would be lost", where="--out", got=path, expected="another file",
                          mend="choose another name for what is written")  # fmt: skip
    regular = target.is_file() or not target.exists()
    draft = target.with_name(f".{target.name}.{os.getpid()}") if regular else target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stream = open(draft, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (closed below, before the rename)
    except OSError as error:
        mend = "choose a place that may be written"
        raise UserError(
            "cannot write the file", where=path, expected="a place to write", got=error.strerror, mend=mend
        ) from error
    try:
        with stream:
            yield stream
            if regular:
                stream.flush()
                os.fsync(stream.fileno())
        if regular:
            os.replace(draft, target)
    finally:
        if regular:
            draft.unlink(missing_ok=True)
