"""One item of the localiser's data, and which part of the data a value belongs to.

What is unusual: spaces. In a source they are plain, as people type them (CLDR writes "3:05 PM" with U+202F); a target
keeps CLDR's own, U+00A0 and U+202F, which French sets in numbers, and both sides are NFC. So an exact match is equality
of strings.
What it does not know: what the values are.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Part = Literal["train", "dev", "test"]
Span = tuple[int, int]

TARGETS = ("de", "fr", "zh")
"""The languages that items are translated into; all are from English."""
HELD_PERCENT = 5
"""Of the values of each kind, for `dev` and for `test`."""
SPACES = dict.fromkeys(map(ord, "\u00a0\u202f\u2009"), " ")


@dataclass(frozen=True)
class Item:
    """An English text and its translation.

    Attributes:
        to: the target language's code.
        kind: what sort of thing it is, one of `KINDS`.
        alignment: of each field (day, month, ...) that both texts hold, the characters [start, end) in the source and
            in the target; empty where nobody knows it.
    """

    source: str
    target: str
    to: str
    kind: str
    alignment: Mapping[str, tuple[Span, Span]] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """A value drawn at random, before it is written.

    Attributes:
        values: names of the values in it that may be held out; none: it is for training alone.
        write: the item in one target language.
    """

    values: Sequence[str]
    write: Callable[[str], Item]


def part_of(values: Sequence[str], seed: int) -> Part | None:
    """The part that all of the values belong to; None where they belong to several."""
    parts = {_part(value, seed) for value in values} or {"train"}
    return parts.pop() if len(parts) == 1 else None


def _part(value: str, seed: int) -> Part:
    percent = int.from_bytes(hashlib.blake2b(f"{seed} {value}".encode(), digest_size=8).digest()) % 100
    return "test" if percent < HELD_PERCENT else "dev" if percent < 2 * HELD_PERCENT else "train"


def plain(text: str) -> str:
    """A source as it would be typed: plain spaces, NFC."""
    return unicodedata.normalize("NFC", text).translate(SPACES)


def nfc(text: str) -> str:
    """A target with the spaces it was given."""
    return unicodedata.normalize("NFC", text)
