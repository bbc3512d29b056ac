"""The texts in one column of a parquet file, a few hundred rows in memory at a time.

What is unusual: a part of a file is its row groups that begin there, so several workers can share one file.
What it does not know: what the texts are for. The library, pyarrow, is an extra.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from regard.data.files import shorten
from regard.data.parts import Part
from regard.data.tables import Skipped
from regard.errors import DataError, MissingExtraError

TOGETHER = 256
"""Rows read at once."""


def texts(part: Part, field: str, skipped: Skipped, max_bytes: int) -> Iterator[tuple[int, str]]:
    """(number of the row from 1, text) of each row of the part; one whose text is no string is a bad line.

    Raises:
        MissingExtraError: the library is absent.
        DataError: the file is not parquet, has no such column, or holds more than `max_bytes` of text.
    """
    path = part.source.path
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "data", f"reading {path}") from None
    read = 0
    try:
        file = pyarrow.parquet.ParquetFile(path)
        _check_column(file.schema_arrow.names, field, part)
        for group, row in _groups(file, part):
            for batch in file.iter_batches(TOGETHER, row_groups=[group], columns=[field]):
                if (read := read + batch.nbytes) > max_bytes:
                    raise DataError("the file is too large", where=path,
                                    expected=f"<= {max_bytes:,} bytes after decompression",
                                    mend="split it; regard prepare --max-bytes N reads more")  # fmt: skip
                for text in batch.column(0).to_pylist():
                    row += 1
                    if isinstance(text, str):
                        yield row, text
                    else:
                        what, got = f"the field {field!r} is not a string", shorten(repr(text))
                        skipped.add(DataError(what, where=f"{path}: row {row}", got=got))
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError("the file is not parquet, or broken", where=path, got=shorten(str(error), 200),
                        mend="copy or download it again") from None  # fmt: skip


def _check_column(names: list[str], field: str, part: Part) -> None:
    if field not in names:
        near = difflib.get_close_matches(field, names, n=1)
        raise DataError(f"there is no column {field!r}", where=part.source.path, got=shorten(", ".join(names)),
                        mend=f"--field {near[0] if near else 'NAME'}")  # fmt: skip


def _groups(file: Any, part: Part) -> Iterator[tuple[int, int]]:
    """(number, rows before it) of each row group whose first byte is in the part."""
    row = 0
    for group in range(file.metadata.num_row_groups):
        about = file.metadata.row_group(group)
        column = about.column(0)
        if part.start <= min(filter(None, (column.dictionary_page_offset, column.data_page_offset))) < part.stop:
            yield group, row
        row += about.num_rows
