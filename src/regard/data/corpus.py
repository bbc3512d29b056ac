"""A corpus as token ids: documents by number, in memory or in memory-mapped files.

What it is: `Corpus`, one or several stretches of ids with an index of where each document begins and ends in them.
What is unusual: the ids hold texts alone. Control tokens are put around a document by whoever reads it
(`data.packing`), so one prepared corpus serves models that begin and end texts differently.

    tokens   | t h e   c a t | a   d o g | ...        uint16, or uint32 where a vocabulary is larger
    index    (0, 0)          (7, 7)      (12, 12)     uint64, before each document: tokens and UTF-8 bytes so far

What it does not know: how the ids came about (`data.encoding`), and which files they lie in (`data.shards`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stretch:
    """Documents that lie in one array of ids.

    Attributes:
        ids: the array, uint16 or uint32.
        begins, ends: (N, 2) uint64, for each document how many tokens and how many UTF-8 bytes of text come before it,
            and how many up to its end.
    """

    ids: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


class Corpus:
    """N documents as ids.

    Args:
        stretches: where they lie, in order.
        sha256: of what it was made of, by name, to be compared where a run goes on.

    Attributes:
        tokens: of all documents, control tokens not counted.
        bytes: of their texts in UTF-8.
    """

    def __init__(self, stretches: Sequence[Stretch], sha256: Mapping[str, str]) -> None:
        self.stretches, self.sha256 = stretches, sha256
        self._firsts = np.cumsum([0, *(len(stretch.ends) for stretch in stretches)]).tolist()
        sums = [_sum(stretch.ends) - _sum(stretch.begins) for stretch in stretches]
        self.tokens, self.bytes = (sum(int(of[column]) for of in sums) for column in (0, 1))

    def __len__(self) -> int:
        return self._firsts[-1]

    def document(self, number: int) -> np.ndarray:
        """The ids of one document, as a view."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        place = bisect_right(self._firsts, number) - 1
        stretch, row = self.stretches[place], number - self._firsts[place]
        return stretch.ids[int(stretch.begins[row, 0]) : int(stretch.ends[row, 0])]

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """How many tokens each of these documents has, int64."""
        found = np.empty(len(numbers), dtype=np.int64)
        places = np.searchsorted(self._firsts, numbers, side="right") - 1
        for place in np.unique(places):
            stretch, here = self.stretches[place], places == place
            rows = numbers[here] - self._firsts[place]
            found[here] = stretch.ends[rows, 0] - stretch.begins[rows, 0]
        return found

    def take(self, numbers: np.ndarray) -> Corpus:
        """The documents of these numbers, in the corpus' own order; the ids are not copied."""
        numbers = np.unique(numbers)
        parts = list[Stretch]()
        for place, stretch in enumerate(self.stretches):
            first, last = np.searchsorted(numbers, self._firsts[place : place + 2])
            rows = numbers[first:last] - self._firsts[place]
            parts.append(Stretch(stretch.ids, stretch.begins[rows], stretch.ends[rows]))
        return Corpus(parts, self.sha256)


def _sum(index: np.ndarray) -> np.ndarray:
    return index.sum(axis=0, dtype=np.int64)
