"""Reading pairs of texts from files: two parallel text files, or one TSV, CSV, JSONL or TMX file.

What it is: `read_pairs`, which gives `Pairs`: the texts, where each pair came from, and the SHA-256 of each file.
What is unusual: the format and the columns are found out, from the name and the first row. Every error names file:line.
What it does not know: tokens, batches, and whether the pairs are any good (`data.checks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from regard.data.files import MAX_BYTES, Lines, shorten
from regard.data.languages import bare, is_language, language_of, spoken, suffix_language
from regard.data.tables import Columns, Skipped, find_columns, rows
from regard.data.tmx import units
from regard.errors import ConfigError, DataError


@dataclass(frozen=True)
class Pairs:
    """N texts and their translations, with where they came from.

    Attributes:
        source, target: N texts each; target[i] translates source[i].
        languages: the two language codes, where the file names or the header tell them.
        files: the one or two files read.
        lines: N line numbers, from 1.
        sha256: of each file as it lies on disk, by its path.
        skipped: the bad lines left out.
        to: N codes, the language of each target, where the file has a column or field `target_language`.
    """

    source: list[str]
    target: list[str]
    languages: tuple[str | None, str | None]
    files: tuple[Path, ...]
    lines: Sequence[int]
    sha256: Mapping[str, str]
    skipped: tuple[DataError, ...] = ()
    to: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.source)

    def where(self, index: int) -> str:
        """`file:line` of one pair; of both its sides where they lie in two files."""
        return " and ".join(f"{path}:{self.lines[index]}" for path in self.files)

    def take(self, indices: Sequence[int]) -> Pairs:
        """The pairs at `indices`, in that order."""
        source, target = [self.source[i] for i in indices], [self.target[i] for i in indices]
        to = None if self.to is None else [self.to[i] for i in indices]
        return replace(self, source=source, target=target, lines=[self.lines[i] for i in indices], to=to)


def read_pairs(
    paths: Sequence[Path],
    *,
    columns: tuple[str, str] | None = None,
    languages: tuple[str, str] | None = None,
    skip_bad: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Pairs:
    """Read pairs from two parallel text files, or from one table (`data.tables` says of what kinds).

    A first row that names `columns`, or `source` and `target`, or `src` and `tgt`, or two language codes, is a header;
    without one, the first two columns are source and target. JSONL fields have the same names, in the object itself or
    in its `translation` object. A column or field `target_language` says for each pair what it is translated into.

    In a TMX file (`data.tmx`) each unit gives a pair for each language besides its source's.

    Args:
        paths: one table, or the source and the target file; `-` is standard input.
        columns: the names, or the numbers from 1, of the source and the target column.
        languages: of a TMX file, the two to take (en takes en-US too); none: its source language into every other.
            Other files need none.
        skip_bad: how many bad lines to leave out before giving up; they are in `Pairs.skipped`. None: none, and the
            user has no say in it.
        max_bytes: the most bytes of each file after decompression.

    Raises:
        DataError: a file is missing, empty, broken or too large; a line is bad; two files differ in length.
        ConfigError: neither one nor two paths, or two and `columns`.
        MissingExtraError: a file is zstd or TMX and the library is absent.
    """
    if len(paths) != 1 and (len(paths) != 2 or columns is not None):
        raise ConfigError(
            "pairs come from one table, or from two parallel files without columns",
            got=f"{len(paths)} files" + (f" and columns {','.join(columns)}" if columns else ""),
            mend="leave --columns out" if len(paths) == 2 else "name one file, or two",
        )
    skipped = Skipped(skip_bad)
    with ExitStack() as stack:
        one, *two = (stack.enter_context(Lines(path, max_bytes=max_bytes)) for path in paths)
        if two:
            pairs = _read_parallel(one, two[0], skipped)
        elif bare(one.path).suffix.lower() == ".tmx":
            pairs = _read_tmx(one, languages, skipped)
        else:
            pairs = _read_table(one, columns, skipped)
    if not pairs:
        raise DataError("there are no pairs in it", where=" and ".join(map(str, paths)), expected="a pair a line")
    return pairs


def _read_parallel(one: Lines, two: Lines, skipped: Skipped) -> Pairs:
    source, target, numbers = list[str](), list[str](), list[int]()
    for left, right in zip_longest(one, two):
        bad = [side for side in (left, right) if isinstance(side, DataError)]
        if bad:
            skipped.add(bad[0])
        elif isinstance(left, str) and isinstance(right, str):  # None where one file has ended
            source.append(left)
            target.append(right)
            numbers.append(one.number)
    if one.number != two.number:
        raise DataError(
            "the two files have different numbers of lines",
            where=f"{one.path} and {two.path}",
            expected="line N of the second to translate line N of the first",
            got=f"{one.number:,} and {two.number:,} lines",
            mend="find where they part, or give one TSV file with both columns",
        )
    languages = suffix_language(one.path), suffix_language(two.path)
    digests = {str(lines.path): lines.sha256 for lines in (one, two)}
    return Pairs(source, target, languages, (one.path, two.path), numbers, digests, tuple(skipped.errors))


def _read_table(lines: Lines, wanted: tuple[str, str] | None, skipped: Skipped) -> Pairs:
    source, target, to, numbers = list[str](), list[str](), list[str](), list[int]()
    columns: Columns | None = None
    for number, row in rows(lines, skipped):
        if columns is None:
            columns = find_columns(row, wanted, f"{lines.path}:{number}")
            if columns.header:
                continue
        try:
            left, right, code = columns.pick(row)
        except ValueError as error:
            skipped.add(DataError(str(error), where=f"{lines.path}:{number}", got=shorten(str(row))))
            continue
        source.append(left)
        target.append(right)
        numbers.append(number)
        to += [] if code is None else [code]
    names = columns.names if columns else (None, None)
    one, two = (name if name and is_language(name) else None for name in names)
    digest = {str(lines.path): lines.sha256}
    return Pairs(source, target, (one, two), (lines.path,), numbers, digest, tuple(skipped.errors), to or None)


def _read_tmx(lines: Lines, wanted: tuple[str, str] | None, skipped: Skipped) -> Pairs:
    source, target, to, numbers, sources = list[str](), list[str](), list[str](), list[int](), set[str]()
    for unit in units(lines, skipped):
        first = spoken(wanted[0] if wanted else unit.source, unit.texts)
        if first is None and not wanted:
            mend = "say which two: --languages en,de"
            raise DataError("no source language is named here", where=f"{lines.path}:{unit.line}",
                            got=" ".join(unit.texts), mend=mend)  # fmt: skip
        others = [code for code in unit.texts if code != first] if not wanted else [spoken(wanted[1], unit.texts)]
        for second in others:
            if first is not None and second is not None:
                sources.add(first)
                source.append(unit.texts[first])
                target.append(unit.texts[second])
                to.append(second)
                numbers.append(unit.line)
    plain = {code.lower(): code for code in to}  # a memory that has de has de-DE as the same; pt-BR and pt-PT are two
    to = [plain.get(language_of(code), code) for code in to]
    one, two = (codes.pop() if len(codes) == 1 else None for codes in (sources, set(to)))
    several = to if two is None and not wanted else None
    digest = {str(lines.path): lines.sha256}
    return Pairs(source, target, wanted or (one, two), (lines.path,), numbers, digest, tuple(skipped.errors), several)
