"""The order of training: which samples make up the batch of each step.

What it is: `TokenBatches`, a pure function from a step number to sample indices, and `deal`, which shares a batch out.
What is unusual: there is no iterator and so no state to save. A run that stopped at step n goes on with `batch(n)`, on
any number of ranks: a step's global batch is formed first and dealt out after.

How an epoch is laid out: samples are sorted by target length in stretches of two, and inside a stretch by source
length, forwards and backwards in turn (a snake), so that neighbours are alike in both:

    target 7-8     source  3  4  5  6  7  8 ->
    target 9-10    source 11 10  9  8  7  6 ->

Ties are shuffled; the stretches are 7-8, 9-10 in one epoch and 6-7, 8-9 in another; the line is cut into batches from a
random offset; the batches are shuffled. So each sample meets other neighbours in each epoch, and little is padding.

What it does not know: the samples themselves, tensors, and processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.errors import ConfigError


class TokenBatches:
    """The batches of every step, by number.

    A batch costs rows x max(widest source, widest target), and costs at most `tokens_per_batch`: the budget bounds the
    padded tokens of each side, so that memory is bounded too.

    Args:
        lengths: for each of N samples, the tokens of its source and of its target, control tokens included; (N, 2).
        tokens_per_batch: the budget.
        seed: of the order.
        multiple: widths are rounded up to it, as `collate` does; it should divide `max_len`.
        max_len: samples with a longer side are left out and listed in `too_long`.

    Attributes:
        batches_per_epoch: the same in every epoch.
        too_long: the indices of the samples left out.

    Raises:
        ConfigError: no sample is left, or a sample does not fit into the budget.
    """

    def __init__(
        self,
        lengths: Sequence[tuple[int, int]] | np.ndarray,
        *,
        tokens_per_batch: int,
        seed: int,
        multiple: int = 1,
        max_len: int,
    ) -> None:
        self._lengths = np.asarray(lengths, dtype=np.int64).reshape(-1, 2)
        self._padded = -(-self._lengths // multiple) * multiple
        self._multiple, self._budget, self._seed = multiple, tokens_per_batch, seed
        fits = self._lengths.max(axis=1) <= max_len
        self.too_long = np.flatnonzero(~fits)
        self._kept = np.flatnonzero(fits)
        self._check(max_len)
        # Cutting a line from an offset makes at most one batch more than cutting it from its start.
        most = 1 + max(len(self._cuts(self._line(shift), 0)) for shift in (0, 1))
        self.batches_per_epoch = min(most, len(self._kept))
        self._epoch: tuple[int, list[np.ndarray]] = (-1, [])

    def _check(self, max_len: int) -> None:
        if not len(self._kept):
            raise ConfigError("no sample is short enough", where="max_len", expected=f"<= {max_len} tokens a side",
                              mend="raise batch.max_len and model.max_len, or cut the texts")  # fmt: skip
        widest = int(self._padded[self._kept].max())
        if widest > self._budget:
            raise ConfigError(
                "a batch has no room for the longest sample",
                where="tokens_per_batch",
                expected=f">= {widest}",
                got=self._budget,
                mend="raise tokens_per_batch or lower max_len",
            )

    def batch(self, step: int) -> list[int]:
        """The sample indices of one step's global batch; each sample comes once in every `batches_per_epoch` steps."""
        epoch, place = divmod(step, self.batches_per_epoch)
        number, batches = self._epoch
        if number != epoch:
            batches = self._batches(epoch)
            self._epoch = (epoch, batches)  # one assignment, so that threads never see half of it
        return batches[place].tolist()

    @property
    def padding_share(self) -> float:
        """The share of padding in the first epoch, of all source and target places."""
        batches = self._batches(0)
        places = sum(len(rows) * int(self._padded[rows].max(axis=0).sum()) for rows in batches)
        return 1 - int(self._lengths[self._kept].sum()) / places

    def _batches(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng([self._seed, epoch])
        line = self._line(int(rng.integers(2)), rng)
        batches = np.split(line, self._cuts(line, int(rng.integers(self._budget)))[1:])
        while len(batches) < self.batches_per_epoch:
            largest = max(range(len(batches)), key=lambda i: len(batches[i]))
            batches[largest : largest + 1] = np.array_split(batches[largest], 2)
        return [batches[i] for i in rng.permutation(len(batches))]

    def _line(self, shift: int, rng: np.random.Generator | None = None) -> np.ndarray:
        """The kept samples in snake order. The costs along the line depend on `shift` alone, never on `rng`."""
        units = self._padded[self._kept] // self._multiple
        stretch = (units[:, 1] + shift) // 2
        snake = np.where(stretch % 2, units[:, 0], -units[:, 0])
        ties = np.zeros(len(units)) if rng is None else rng.random(len(units))
        return self._kept[np.lexsort((ties, units[:, 1], snake, stretch))]

    def _cuts(self, line: np.ndarray, used: int) -> list[int]:
        """Where each batch starts, filling each to the budget; of the first one's budget, `used` is gone already."""
        cost = self._padded[line].max(axis=1)
        starts, start, budget = list[int](), 0, max(self._budget - used, int(cost[0]))
        while start < len(line):
            starts.append(start)
            window = np.maximum.accumulate(cost[start : start + budget // cost[start]])
            start += int((window * np.arange(1, len(window) + 1) <= budget).sum())
            budget = self._budget
        return starts


def deal(indices: Sequence[int], rank: int, world: int) -> list[int]:
    """One rank's part of a global batch: over all ranks each index comes exactly once; parts differ by one at most."""
    return list(indices[rank::world])
