"""Sentences with a tag for each word, from CoNLL's columns: a word a line, its tag in the last column.

    EU       NNP  B-ORG
    rejects  VBZ  O
    German   JJ   B-MISC
                              an empty line ends a sentence

What is unusual: whatever scheme the tags are in (IOB1, IOB2, IOBES, BILOU), they are read as spans and given back as
IOB2: B- begins a span, I- goes on in it, O is outside. The rule is that of the CoNLL shared tasks: a span also begins
at an I- that nothing of its kind comes before.
What it does not know: tokens, and whether the sentences are any good (`tasks.tagged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.data.files import MAX_BYTES, Lines, shorten
from regard.data.tables import Skipped
from regard.errors import DataError

OUTSIDE = "O"
BEGINS, GOES_ON, ENDS = "BSU", "IEML", "ESUL"
"""What the prefixes of all schemes do; E and S end a span of IOBES, L and U one of BILOU, M goes on in BMES."""
DOCUMENT = "-DOCSTART-"

Span = tuple[int, int, str]
"""(first word, word after the last, what it is)."""


def spans_of(tags: Sequence[str]) -> list[Span]:
    """The spans that the tags of a sentence mark, whatever their scheme; ValueError for what is no tag."""
    spans, start, kind = list[Span](), None, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, name = parted(tag)
        if start is not None and (prefix not in GOES_ON or prefix == "" or name != kind):
            spans.append((start, place, kind))
            start = None
        if prefix and start is None:
            start, kind = place, name
        if start is not None and prefix and prefix in ENDS:
            spans.append((start, place + 1, kind))
            start = None
    return spans


def parted(tag: str) -> tuple[str, str]:
    """("B", "ORG") of B-ORG; two empty strings for O."""
    if tag == OUTSIDE:
        return "", ""
    prefix, dash, name = tag.partition("-")
    if not dash or not name or len(prefix) != 1 or prefix not in BEGINS + GOES_ON:
        raise ValueError(f"{tag!r} is neither O nor like B-NAME")
    return prefix, name


def prefix_at_end(columns: Sequence[str]) -> str | None:
    """The prefix of the tag that a line's columns end in, empty for O; None where it is no word with a tag."""
    try:
        return None if len(columns) < 2 else parted(columns[-1].strip())[0]
    except ValueError:
        return None


def tags_of(spans: Sequence[Span], n_words: int) -> list[str]:
    """The same spans as IOB2."""
    tags = [OUTSIDE] * n_words
    for start, stop, name in spans:
        tags[start:stop] = [f"B-{name}", *[f"I-{name}"] * (stop - start - 1)]
    return tags


@dataclass(frozen=True)
class Tagged:
    """N sentences.

    Attributes:
        words: of each its words.
        tags: of each the tag of each word, in IOB2.
        places: N pairs, the number of the file and of the line of the first word, from 1.
        files: the files read.
        sha256: of each as it lies on disk, by its path.
        skipped: the bad lines; the sentences that they are in were left out.
    """

    words: list[list[str]]
    tags: list[list[str]]
    places: list[tuple[int, int]]
    files: tuple[Path, ...]
    sha256: Mapping[str, str]
    skipped: tuple[DataError, ...] = ()

    def __len__(self) -> int:
        return len(self.words)

    @property
    def names(self) -> tuple[str, ...]:
        """What spans are, sorted."""
        return tuple(sorted({name for tags in self.tags for _, name in map(parted, tags) if name}))

    def where(self, index: int) -> str:
        """`file:line` of the first word of a sentence."""
        file, line = self.places[index]
        return f"{self.files[file]}:{line}"

    def take(self, indices: Sequence[int]) -> Tagged:
        """The sentences at `indices`, in that order."""
        words, tags = [self.words[i] for i in indices], [self.tags[i] for i in indices]
        return replace(self, words=words, tags=tags, places=[self.places[i] for i in indices])


def read_tagged(paths: Sequence[Path], *, skip_bad: int | None = None, max_bytes: int = MAX_BYTES) -> Tagged:
    """The sentences of some files. Columns are parted by tabs where the first line has one, else by spaces.

    Args:
        skip_bad: how many bad lines to leave out, with their sentences, before giving up. None: none, and the user has
            no say in it.
        max_bytes: the most bytes of each file after decompression.

    Raises:
        DataError: a file is missing, broken or holds no sentence; a line has no tag, or its tag is none.
    """
    words, tags, places, sha256 = list[list[str]](), list[list[str]](), list[tuple[int, int]](), dict[str, str]()
    skipped = Skipped(skip_bad)
    for number, path in enumerate(paths):
        with Lines(path, max_bytes=max_bytes) as lines:
            for line, rows in _sentences(lines, skipped):
                words.append([word for word, _ in rows])
                tags.append(tags_of(spans_of([tag for _, tag in rows]), len(rows)))
                places.append((number, line))
            sha256[str(path)] = lines.sha256
    if not words:
        raise DataError("there are no sentences in it", where=" and ".join(map(str, paths)),
                        expected="a word and its tag a line, an empty line after each sentence")  # fmt: skip
    return Tagged(words, tags, places, tuple(paths), sha256, tuple(skipped.errors))


def _sentences(lines: Lines, skipped: Skipped) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """(line of the first word, (word, tag) of each) of the sentences without a bad line."""
    separator = "\t" if b"\t" in lines.head().split(b"\n")[0] else None
    rows, first, bad = list[tuple[str, str]](), 0, False
    for line in lines:
        if isinstance(line, str) and not line.strip():
            if rows and not bad:
                yield first, rows
            rows, bad = [], False
            continue
        first = first if rows or bad else lines.number
        if isinstance(line, DataError):
            skipped.add(line)
            bad = True
            continue
        columns = line.strip().split(separator) if separator is None else line.split(separator)
        if columns[0] == DOCUMENT:
            continue
        if error := _wrong(columns):
            skipped.add(lines.bad(error, expected="a word, .., its tag", got=shorten(line)))
            bad = True
            continue
        rows.append((columns[0].strip(), columns[-1].strip()))
    if rows and not bad:
        yield first, rows


def _wrong(columns: Sequence[str]) -> str | None:
    if len(columns) < 2 or not columns[0].strip():
        return "the line does not hold a word and its tag"
    try:
        parted(columns[-1].strip())
    except ValueError as error:
        return f"the tag {error}"
    return None
