"""Where the documents of a plain text begin and end: all of it, its lines, or what stands between some of them.

What it is: for each unit, how to find the first document of a part of a file, and the iterator of those that follow.
What is unusual: a part may begin anywhere. Whether a document begins at some byte depends only on bytes near it, so
each worker finds out by itself which documents are its own (`data.parts`).
What it does not know: what is done with them; empty ones are given too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from regard.data.files import Lines
from regard.data.parts import Part
from regard.data.tables import Skipped
from regard.errors import DataError

LONGEST = 16 * 2**20
"""Bytes of one document; a longer one is parted."""
SEAM = 2**16
"""Bytes within which the end of a line is looked for where an endless one is parted."""


# ---------------------------------------------------------------- a text as one document


def first_seam(part: Part) -> int:
    """Where the first document of the part begins in its file: at 0, or at a seam; `stop` if there is none."""
    if part.start == 0:
        return 0
    with part.source.path.open("rb") as file:
        for edge in range(max(1, (part.start - SEAM) // LONGEST) * LONGEST, part.stop, LONGEST):
            file.seek(edge - 1)
            place = edge - 1 + _seam(file.read(SEAM))
            if place >= part.start:
                return place
    return part.stop


def _seam(window: bytes | bytearray) -> int:
    """Where to part in bytes of which the first goes before: after a line, else a word, else between two characters.

    It depends on these bytes alone, so that whoever looks finds the same place.
    """
    for end in (b"\n", b" "):
        if (found := window.find(end)) >= 0:
            return found + 1
    return next((i for i in range(1, len(window)) if window[i] & 0xC0 != 0x80), len(window))


def whole(lines: Lines, part: Part, bad: Skipped) -> Iterator[tuple[int, str]]:
    """The text from where `lines` stands, parted at a seam after each `LONGEST` bytes, to the first beyond the part."""
    blocks, buffer, at, number = lines.blocks(), bytearray(), lines.offset, 1
    while True:
        before = (at // LONGEST + 1) * LONGEST - 1 - at  # bytes that are surely before the next seam
        while len(buffer) < before + SEAM and (block := next(blocks, b"")):
            buffer += block
        if len(buffer) <= before:
            break
        seam = before + _seam(buffer[before : before + SEAM])
        yield number, _decoded(bytes(buffer[:seam]), lines, number, bad)
        number += buffer.count(b"\n", 0, seam)
        del buffer[:seam]
        at += seam
        if part.source.divisible and at >= part.stop:
            return
    if buffer:
        yield number, _decoded(bytes(buffer), lines, number, bad)


def _decoded(raw: bytes, lines: Lines, number: int, bad: Skipped) -> str:
    """The lines from `number` on as one text, without those that are not UTF-8."""
    try:
        text = raw.decode("utf-8").replace("\r\n", "\n")
        return text.removeprefix("\ufeff") if number == 1 and lines.first == 0 else text
    except UnicodeDecodeError:
        good = list[str]()
        for lines.number, line in enumerate(raw.split(b"\n"), number):
            decoded = lines.decode(line + b"\n")
            if isinstance(decoded, DataError):
                bad.add(decoded)
            else:
                good.append(decoded)
        return "\n".join(good)


# ---------------------------------------------------------------- a text as many documents


def byte_before(part: Part) -> int:
    """The byte before the part: the line there, or its end, belongs to another."""
    return max(0, part.start - 1)


def line_before(part: Part) -> int:
    """Where the line of the byte before the part begins: what stands in it tells whether a document begins after it."""
    if part.start == 0:
        return 0
    place = part.start - 1
    with part.source.path.open("rb") as file:
        while place > 0:
            start = max(0, place - SEAM)
            file.seek(start)
            if (found := file.read(place - start).rfind(b"\n")) >= 0:
                return start + found + 1
            place = start
    return 0


def each(lines: Lines, part: Part, bad: Skipped) -> Iterator[tuple[int, str]]:
    """Every line."""
    if part.start:
        lines.pass_over()
    for line in lines:
        if isinstance(line, DataError):
            bad.add(line)
        else:
            yield lines.number, line


def between(lines: Lines, part: Part, mark: str, bad: Skipped) -> Iterator[tuple[int, str]]:
    """What stands between lines that read `mark`, white space aside; of each the first line is in the part."""
    stop = part.stop if part.source.divisible else math.inf
    text, number, first, after = list[str](), 0, 0, lines.offset
    begins, ours = after == 0, False
    for line in lines:
        before, after = after, lines.offset
        if isinstance(line, str) and line.strip() == mark:
            if text:
                yield number, "\n".join(text).strip("\n")
            text, begins, ours = [], True, False
        elif begins:
            begins, ours, first, number = False, part.start <= before < stop, before, lines.number
        if not ours:
            if after >= stop:
                return
            continue
        if isinstance(line, DataError):
            bad.add(line)
        else:
            text.append(line)
        if after - first >= LONGEST:
            yield number, "\n".join(text).strip("\n")
            text, first, number = [], after, lines.number + 1
    if text:
        yield number, "\n".join(text).strip("\n")
