"""The texts of a table for a model to classify, whatever stands beside them.

What it is: `read_rows`, which gives each row's texts as soon as it is read.
What is unusual: a header is told as training tells it (`data.label_columns`). Where the columns are neither named nor
known that takes the whole file, which then is read twice.
What it does not know: labels, which are left aside, and lines of plain text (`data.sources`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.files import Lines, shorten
from regard.data.label_columns import LABEL, PAIR, TEXT, Header, find_label_columns
from regard.data.tables import Row, Skipped, rows
from regard.errors import DataError


def read_rows(
    path: Path, wanted: Sequence[str] | None, parts: int | None, tell: Callable[[Header], None]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(number of its line, one text or the two of a pair) for each row of a table.

    Args:
        wanted: the columns of the texts, by name or by number from 1; None: known names, else the first ones.
        parts: how many texts the model reads; None: the table says.
        tell: is given a first row that was taken for names of columns although they are not known ones.

    Raises:
        DataError: the file is missing or broken, has no such columns, or a row is bad; the rows before it were given.
    """
    keys: Sequence[Any] | None = None
    with Lines(path) as lines:
        for number, row in rows(lines, Skipped(None)):
            where = f"{path}:{number}"
            if keys is None:
                keys, header, width = *_keys(row, wanted, parts, where), len(row)
                labelled = wanted is None and isinstance(row, list) and width == len(keys) + 1
                if header or (labelled and _names_columns(path, row, where, tell)):
                    continue
            if isinstance(row, list) and len(row) != width:
                raise DataError("the row has not as many columns as the first", where=where, expected=width,
                                got=len(row))  # fmt: skip
            if bad := [key for key in keys if isinstance(row, dict) and not isinstance(row.get(key), str)]:
                raise DataError(f"the field {bad[0]!r} is {'not a string' if bad[0] in row else 'missing'}",
                                where=where, got=shorten(str(row)))  # fmt: skip
            yield number, tuple(row[key] for key in keys)


def _keys(row: Row, wanted: Sequence[str] | None, parts: int | None, where: str) -> tuple[Sequence[Any], bool]:
    """What to index rows with for their texts, and whether the first row, which this is, is a header."""
    names = list(row) if isinstance(row, dict) else [name.strip() for name in row]
    own = {name.lower(): name for name in reversed(names)}
    known = [[own[name] for name in some] for some in (*PAIR, *((name,) for name in TEXT)) if own.keys() >= {*some}]
    header = bool(known or own.keys() & {*LABEL})
    chosen = wanted or (known[0] if known else [])
    if chosen and {*chosen} <= {*names} and parts in (None, len(chosen)):
        return (chosen, False) if isinstance(row, dict) else ([names.index(name) for name in chosen], True)
    places = [str(i + 1) for i in range(len(names))]
    count = parts or max(1, min(2, len(names) - 1))
    numbers = wanted or (places[:count] if not header and len(names) - count in (0, 1) else [])
    if isinstance(row, list) and numbers and {*numbers} <= {*places}:
        return [int(number) - 1 for number in numbers], header
    raise DataError("there are no such columns" if wanted else "cannot tell the columns of what the model reads",
                    where=where, expected=", ".join(wanted) if wanted else
                    {1: "a text", 2: "two texts", None: "a text or two"}[parts] + ", with or without a label",
                    got=f"a first row with {shorten(', '.join(names))}",
                    mend="choose them by --columns TEXT or FIRST,SECOND (names, or numbers from 1)")  # fmt: skip


def _names_columns(path: Path, first: Row, where: str, tell: Callable[[Header], None]) -> bool:
    """Whether the first row of labelled examples only names the columns, which training tells from the whole file.

    Raises DataError where the labels are in another column than the last, as training does.
    """
    columns = find_label_columns(first, None, where)
    try:
        with Lines(path) as lines:
            examples = [columns.pick(row) for _, row in rows(lines, Skipped(None))]
    except (ValueError, DataError):
        return False  # what is bad is told when it is reached
    texts, labels = [own for own, _ in examples], [str(label).strip() for _, label in examples]
    columns.refuse_swapped(texts, labels)
    if header := columns.taken_for_names(texts, labels):
        tell(header)
    return header is not None
