"""What files hold, told by their first lines: pairs, questions, texts with labels, or sentences with tags.

What is unusual: names of columns say it where they are known ones. Without any, a column is one of labels where few
short values come again and again in it, and a file is one of tags where nearly every line ends in a tag.
What it does not know: how any of these is read whole, and whether it is any good.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from regard.data.conll import DOCUMENT, prefix_at_end
from regard.data.files import Lines
from regard.data.label_columns import LABEL, known_columns
from regard.data.labelled import begins_with_label
from regard.data.languages import bare
from regard.data.squad import COLUMNS
from regard.data.tables import READERS, Row, Skipped, named_pair, rows

Kind = Literal["pairs", "questions", "tags", "one", "several"]
"""Two texts that say the same; questions on texts; CoNLL's columns; texts with one class each, with several."""
LOOKED_AT = 1_000
"""Lines."""
MOST_BAD = 0.1
"""For each line with a tag, so many without one."""
AGAIN = 4
"""A column of labels has each value so many times, in the mean, and .."""
FEWEST = 8
""".. so many rows, or it may be chance; .."""
LONGEST = 60
""".. and none of its values is as many characters long."""


def kind_of(paths: Sequence[Path], columns: Sequence[str] | None = None) -> Kind:
    """What the first of some files holds; `columns` are those that were chosen, of labelled texts the label last.

    Raises:
        DataError: the file is missing, empty or broken, or no table and none of these.
    """
    first, suffix = paths[0], bare(paths[0]).suffix.lower()
    if first == Path("-") or suffix == ".tmx":
        return "pairs"  # standard input is read once
    if columns is None and suffix not in (".json", ".jsonl", ".csv") and _are_tags(first):
        return "tags"
    with Lines(first) as lines:
        if begins_with_label(lines):
            several = any(isinstance(line, str) and line.count("__label__") > 1 for line in islice(lines, LOOKED_AT))
            return "several" if several else "one"
    if suffix == ".json" and not _is_jsonl(first):
        return "questions"
    if len(paths) > 1 and not _is_table(first):
        return "pairs"
    with Lines(first) as lines:
        table = [row for _, row in islice(rows(lines, Skipped(LOOKED_AT)), LOOKED_AT)]
    return _kind_of_table(table, columns) if table else "pairs"


def _are_tags(path: Path) -> bool:
    """Nearly every line ends in a tag, after a word, and not all are outside; a reader names the others."""
    prefixes = list[str | None]()
    with Lines(path) as lines:
        separator = "\t" if b"\t" in lines.head().split(b"\n")[0] else None
        for line in islice(lines, LOOKED_AT):
            cells = line.rstrip().split(separator) if isinstance(line, str) else ["", ""]
            if cells in ([], [""]) or cells[0] == DOCUMENT:
                continue
            prefixes.append(prefix_at_end(cells))
    bad = prefixes.count(None)
    return any(prefixes) and bad <= MOST_BAD * (len(prefixes) - bad)


def _is_jsonl(path: Path) -> bool:
    """Its first line is an object with a text and a label."""
    with Lines(path) as lines:
        line = next(lines, "")
    try:
        record = json.loads(line) if isinstance(line, str) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and known_columns(list(record)) is not None


def _is_table(path: Path) -> bool:
    with Lines(path) as lines:
        first = lines.head().removeprefix(b"\xef\xbb\xbf").split(b"\n")[0]
    return bare(path).suffix.lower().removeprefix(".") in READERS or b"\t" in first or first.lstrip().startswith(b"{")


def _kind_of_table(table: Sequence[Row], columns: Sequence[str] | None) -> Kind:
    """By the names of its columns, if the first row has known ones, else by what stands in them."""
    first = table[0]
    names = list(first) if isinstance(first, dict) else [name.strip() for name in first]
    known = columns or known_columns(names)
    if columns is None and {name.lower() for name in names} >= {*COLUMNS[:2]}:
        return "questions"
    if columns is None and named_pair(names, None) is not None:
        return "pairs"
    if known is None and (isinstance(first, dict) or not 2 <= len(names) <= 3):
        return "pairs"
    name, values = _column(table, names, known[-1] if known else str(len(names)))
    if name.lower() not in LABEL and not _are_labels(values) and len(columns or ()) != 3:
        swapped = columns is None and _are_labels(_column(table, names, "1")[1])
        return "one" if swapped else "pairs"  # whoever reads it so will say how to name the columns
    return "several" if any(isinstance(value, list) or "|" in str(value) for value in values) else "one"


def _column(table: Sequence[Row], names: Sequence[str], wanted: str) -> tuple[str, list[Any]]:
    """(what stands above, what stands in) the column of that name, or of that number from 1, where there is one."""
    if isinstance(table[0], dict):
        return wanted, [row[wanted] for row in table if isinstance(row, dict) and wanted in row]
    numbered = wanted.isdecimal() and 1 <= int(wanted) <= len(names)
    place = names.index(wanted) if wanted in names else int(wanted) - 1 if numbered else len(names)
    values = [row[place] for row in table if isinstance(row, list) and place < len(row)]
    return names[place] if place < len(names) else wanted, values


def _are_labels(values: Sequence[object]) -> bool:
    seen = {str(value) for value in values}
    few = len(seen) > 1 and len(values) >= max(FEWEST, AGAIN * len(seen))
    return few and max(map(len, seen)) < LONGEST
