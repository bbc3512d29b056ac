"""Rows of equal length out of documents of any, for language models: nothing is cut off, and little is padding.

What it is: `PackedBatches`, a pure function from a step number to a batch; `windows`, a corpus in its own order, for
evaluation; `TokenBatch`, what both give.

A document "a b c" is four predictions, `<s>` -> a, a -> b, b -> c, c -> `</s>`. An epoch is a circle of all documents'
predictions, cut into rows of T from a random place:

    T = 4          row 0                    row 1                    row 2
    ids            <s>  a    b    c         <s>  d    <s>  e         f    g
    targets        a    b    c    </s>      d    </s> e    f         g    </s>     .    .
    documents      0    0    0    0         0    0    1    1         0    0        1    1
    pos            0    1    2    3         0    1    0    1         0    1        0    0
    real           1    1    1    1         1    1    1    1         1    1        0    0

With `documents` and `pos` given to `Transformer.decode` each document is as if alone (law 13). One that goes on in
another row begins there with its last token, without what came before. So each token, and each end, is predicted once
an epoch; only the last row of the circle may be short.

What is unusual: order has no state. Documents on the circle, and rows in the epoch, are permuted by a keyed bijection
that is computed place by place (a Feistel network over the next power of four, walked on until it comes back into
range), so batch n is found without those before it, on any number of ranks. What is kept is the number of predictions
before every 64th document of the epoch: 8 bytes for 64 documents, and at its start one pass over their lengths.
What it does not know: texts, models, processes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batching import deal
from regard.data.corpus import Corpus
from regard.errors import DataError

BLOCK = 64
"""Documents between two that are found at once."""
AT_ONCE = 2**20
"""Documents whose lengths are added up at once."""
ROUNDS = 6

Segment = tuple[int, int, int]
"""(document, its first prediction, how many) in a row."""
_Block = tuple[list[int], list[int]]
"""Documents, and how many predictions come before each and after the last."""


@dataclass(frozen=True)
class TokenBatch:
    """B rows of T predictions.

    Attributes:
        ids: (B, T) int64, what the decoder is given.
        targets: (B, T) int64, what it must say at each place.
        real: (B, T) bool, False at padding, which is on the right.
        documents: (B, T) int64, which document of its row a place is in; None: no row has two.
        pos: (B, T) int64, counted anew in each document; None: no row has two.
        count: how many predictions there are, sum(real).
    """

    ids: Tensor
    targets: Tensor
    real: Tensor
    documents: Tensor | None
    pos: Tensor | None
    count: int

    def to(self, device: torch.device | str) -> TokenBatch:
        """The same batch on another device."""
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in self._tensors().items()}
        return replace(self, **moved)

    def split(self, n: int) -> list[TokenBatch]:
        """At most `n` micro-batches of contiguous rows, together this batch; none is empty unless this one is."""
        n = max(1, min(n, len(self.ids)))
        tensors = self._tensors()
        parts = zip(*(tensor.tensor_split(n) for tensor in tensors.values()), strict=True)
        named: list[dict[str, Any]] = [dict(zip(tensors, part, strict=True)) for part in parts]
        return [replace(self, **part, count=int(part["real"].sum())) for part in named]

    def _tensors(self) -> dict[str, Tensor]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass(frozen=True)
class _Circle:
    """The predictions of an epoch in their order.

    Attributes:
        turn: where the first row begins.
        starts: how many predictions come before each block.
        blocks: those that the last batch came from.
    """

    epoch: int
    turn: int
    starts: np.ndarray
    blocks: dict[int, _Block]


class PackedBatches:
    """The batches of every step, by number; each prediction comes once in every `batches_per_epoch` steps.

    Args:
        corpus: the documents.
        length: T, the predictions in a row.
        rows: B, the rows in a batch, over all ranks; the last batch of an epoch may have fewer.
        seed: of the order.
        bos_id, eos_id, pad_id: what stands before and after each document, and what fills the last row.

    Attributes:
        rows_per_epoch, batches_per_epoch, predictions_per_epoch: the same in every epoch.

    Raises:
        DataError: there are no documents.
    """

    def __init__(
        self, corpus: Corpus, *, length: int, rows: int, seed: int, bos_id: int, eos_id: int, pad_id: int
    ) -> None:
        if not len(corpus):
            raise DataError("there are no documents to learn from", expected="at least one text that is not empty")
        self._corpus, self._length, self._rows, self._seed = corpus, length, rows, seed
        self._control = (bos_id, eos_id, pad_id)
        self.predictions_per_epoch = corpus.tokens + len(corpus)
        self.rows_per_epoch = -(-self.predictions_per_epoch // length)
        self.batches_per_epoch = -(-self.rows_per_epoch // rows)
        self._last = _Circle(-1, 0, np.zeros(0, dtype=np.int64), {})

    def batch(self, step: int, rank: int = 0, world: int = 1) -> TokenBatch:
        """This rank's part of the batch of a step: every `world`-th of its rows; none where there are fewer."""
        epoch, place = divmod(step, self.batches_per_epoch)
        places = np.arange(place * self._rows, min(self.rows_per_epoch, (place + 1) * self._rows))
        chosen = permuted(places, self.rows_per_epoch, (self._seed, epoch, 1)).tolist()
        rows = self._segments(epoch, np.array(deal(chosen, rank, world), dtype=np.int64))
        return _filled(self._corpus, rows, self._length, *self._control)

    def documents(self, step: int) -> list[int]:
        """The documents that have a part in the batch of a step, over all ranks."""
        epoch, place = divmod(step, self.batches_per_epoch)
        places = np.arange(place * self._rows, min(self.rows_per_epoch, (place + 1) * self._rows))
        rows = self._segments(epoch, permuted(places, self.rows_per_epoch, (self._seed, epoch, 1)))
        return sorted({document for row in rows for document, _, _ in row})

    def _segments(self, epoch: int, rows: np.ndarray) -> list[list[Segment]]:
        """What stands in each row: the predictions from its place on the circle on."""
        circle, total = self._circle(epoch), self.predictions_per_epoch
        places = (circle.turn + rows * self._length) % total
        firsts = np.searchsorted(circle.starts, places, side="right") - 1
        blocks = self._blocks(circle, np.unique(np.concatenate([firsts, (firsts + 1) % len(circle.starts)])))
        found = list[list[Segment]]()
        for row, at, block in zip(rows.tolist(), places.tolist(), firsts.tolist(), strict=True):
            segments, left = list[Segment](), min(self._length, total - row * self._length)
            while left:
                if block not in blocks:  # documents so short that a row holds many blocks
                    blocks |= self._blocks(circle, np.array([block]))
                documents, bounds = blocks[block]
                for i in range(bisect_right(bounds, at) - 1, len(documents)):
                    count = min(left, bounds[i + 1] - at)
                    segments.append((documents[i], at - bounds[i], count))
                    at, left = at + count, left - count
                    if not left:
                        break
                at, block = at % total, (block + 1) % len(circle.starts)
            found.append(segments)
        self._last = replace(circle, blocks=blocks)  # one assignment, so that threads never see half of it
        return found

    def _blocks(self, circle: _Circle, numbers: np.ndarray) -> dict[int, _Block]:
        """The blocks of these ascending numbers, computed at once where the last batch did not have them."""
        found = {number: circle.blocks[number] for number in numbers.tolist() if number in circle.blocks}
        new = np.array([number for number in numbers.tolist() if number not in found], dtype=np.int64)
        if not len(new):
            return found
        places = (new[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        documents, lengths = self._in_order(circle.epoch, places[places < len(self._corpus)])
        for i, number in enumerate(new.tolist()):
            block, start = slice(i * BLOCK, (i + 1) * BLOCK), int(circle.starts[number])
            found[number] = documents[block].tolist(), [start, *(start + np.cumsum(lengths[block])).tolist()]
        return found

    def _in_order(self, epoch: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The documents at these places of the circle, and how many predictions each has."""
        documents = permuted(places, len(self._corpus), (self._seed, epoch, 0))
        return documents, self._corpus.lengths(documents) + 1

    def _circle(self, epoch: int) -> _Circle:
        if self._last.epoch == epoch:
            return self._last
        turn = int(np.random.default_rng([self._seed, epoch, 2]).integers(self.predictions_per_epoch))
        sums = [np.zeros(1, dtype=np.int64)]
        for first in range(0, len(self._corpus), AT_ONCE):
            _, lengths = self._in_order(epoch, np.arange(first, min(len(self._corpus), first + AT_ONCE)))
            sums.append(np.add.reduceat(lengths, np.arange(0, len(lengths), BLOCK)))
        return _Circle(epoch, turn, np.cumsum(np.concatenate(sums))[:-1], {})


def windows(corpus: Corpus, *, length: int, rows: int, bos_id: int, eos_id: int, pad_id: int) -> Iterator[TokenBatch]:
    """Every prediction of the corpus once, in its own order, in batches of `rows` rows; for evaluation.

    Each document is cut into windows of `length` from its beginning, the last one short; a window sees itself alone, so
    a document's loss does not depend on what stands beside it. Short windows share a row while they fit whole.
    """
    waiting, row, left = list[list[Segment]](), list[Segment](), length
    for document in range(len(corpus)):
        predictions = len(corpus.document(document)) + 1
        for first in range(0, predictions, length):
            count = min(length, predictions - first)
            if count > left:
                waiting, row, left = [*waiting, row], [], length
                if len(waiting) == rows:
                    yield _filled(corpus, waiting, length, bos_id, eos_id, pad_id)
                    waiting = []
            row.append((document, first, count))
            left -= count
    waiting += [row] * bool(row)
    if waiting:
        yield _filled(corpus, waiting, length, bos_id, eos_id, pad_id)


def _filled(
    corpus: Corpus, rows: Sequence[Sequence[Segment]], length: int, bos_id: int, eos_id: int, pad_id: int
) -> TokenBatch:
    shape = len(rows), length
    ids, targets = np.full(shape, pad_id, dtype=np.int64), np.full(shape, pad_id, dtype=np.int64)
    real, documents, pos = np.zeros(shape, dtype=bool), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    end = np.array([eos_id])
    for r, segments in enumerate(rows):
        heads, pieces = list[int](), list[np.ndarray]()
        for document, first, count in segments:
            tokens = corpus.document(document)
            heads.append(tokens[first - 1] if first else bos_id)
            pieces += [tokens[first:], end] if first + count > len(tokens) else [tokens[first : first + count]]
        counts = np.array([count for _, _, count in segments])
        starts, n = np.cumsum(counts) - counts, int(counts.sum())
        targets[r, :n] = np.concatenate(pieces)
        ids[r, 1:n], ids[r, starts] = targets[r, : n - 1], heads  # the heads last: each stands where one ended before
        documents[r, :n], documents[r, n:] = np.repeat(np.arange(len(counts)), counts), len(counts)
        pos[r, :n] = np.arange(n) - np.repeat(starts, counts)
        real[r, :n] = True
    several = any(len(segments) > 1 for segments in rows)
    return TokenBatch(
        torch.from_numpy(ids), torch.from_numpy(targets), torch.from_numpy(real),
        torch.from_numpy(documents) if several else None, torch.from_numpy(pos) if several else None,
        count=int(real.sum()),
    )  # fmt: skip


def permuted(places: np.ndarray, size: int, key: Sequence[int]) -> np.ndarray:
    """What stands at each of these places in a permutation of 0 .. size - 1 that the key chooses; int64."""
    half = np.uint64((max(2, (size - 1).bit_length()) + 1) // 2)
    mask = (np.uint64(1) << half) - np.uint64(1)
    keys = np.random.SeedSequence(key).generate_state(ROUNDS, np.uint64)
    found = places.astype(np.uint64)
    walking = np.arange(len(found))
    while len(walking):
        left, right = found[walking] >> half, found[walking] & mask
        for one in keys:
            left, right = right, left ^ (_mixed(right + one) & mask)
        found[walking] = left << half | right
        walking = walking[found[walking] >= size]
    return found.astype(np.int64)


def _mixed(x: np.ndarray) -> np.ndarray:
    """Each bit of the result depends on all bits of x (Stafford's mix 13, the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
