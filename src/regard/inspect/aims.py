"""What a head of attention may be looking at, as functions of tokens; and how far weights look there, beyond chance.

    aim        a matrix of 0 .. 1, (T, S): what a role would look at
    share      the mean over rows of sum_j alpha_ij aim_ij
    chance     the same after each row's weights were dealt anew among the keys that it may see

What is unusual: chance is not sampled. A sum of weights times an aim, the weights dealt at random, has a known mean and
variance (the combinatorial sum of Hoeffding 1951), so a baseline is exact and the same each time; rows that could not
tell, whose keys are all aims or none, are left out.

    mean      sum_j alpha_ij * mean_j aim_ij
    variance  sum_j (alpha_ij - mean alpha_i)^2 * sum_j (aim_ij - mean aim_i)^2 / (n - 1)

What it does not know: models; which role wins (`inspect.roles`).

Shapes: N heads, T queries, S keys; n keys that a query may see. Weights are (N, T, S), `visible` (T, S) bool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
LOCAL = 2
"""How far a local head looks to either side."""
BAND = 0.1
"""Half the width of the band about the diagonal, as a share of the keys; one key at least."""


def at_offset(T: int, offset: int) -> Array:
    """The key so many places after the query; -1 is the token before, 0 the token itself."""
    place = np.arange(T)
    return place[None] == place[:, None] + offset


def local(T: int) -> Array:
    """The token itself and two to either side."""
    return _distance(T) <= LOCAL


def far(T: int, visible: Array) -> Array:
    """The distance, as a share of the farthest that a query may see: a mean distance, not a set of keys."""
    distance = _distance(T) * visible
    return distance / np.maximum(1, distance.max(-1, keepdims=True))


def among(T: int, keys: Sequence[bool]) -> Array:
    """Some keys, whatever the query: control tokens and punctuation, the source's end, its rarest words."""
    return np.tile(np.array(keys, dtype=bool), (T, 1))


def equal(queries: Sequence[object], keys: Sequence[object]) -> Array:
    """The keys that are the same token as the query stands for; None is equal to nothing."""
    return np.array([[q is not None and q == k for k in keys] for q in queries], dtype=bool).reshape(len(queries), -1)


def duplicates(ids: Sequence[int]) -> Array:
    """Other places of the query's own token."""
    return equal(ids, ids) & ~np.eye(len(ids), dtype=bool)


def after_the_last(T: int, first: int, period: int) -> Array:
    """Of tokens that repeat after `period` from place `first` on: what followed the query's token the last time.

    period 3, first 1:   <s> A B C A B C    the second A looks at the first B (Elhage et al. 2021, Olsson et al. 2022).
    """
    aim = at_offset(T, 1 - period)
    aim[: first + period] = False
    return aim


def band(T: int, S: int) -> Array:
    """About the diagonal of a target and its source: the same share of the way through both."""
    rows, columns = np.linspace(0, S - 1, T)[:, None], np.arange(S)[None]
    return np.abs(rows - columns) <= max(1.0, BAND * S)


def _distance(T: int) -> Array:
    place = np.arange(T)
    return np.abs(place[None] - place[:, None])


@dataclass(frozen=True)
class Tally:
    """How far N heads look where an aim says, summed over rows; tallies of several sequences add up.

    Attributes:
        rows: how many could tell.
        share, chance, variance: (N,) sums over these rows, the last two under chance.
    """

    rows: int
    share: Array
    chance: Array
    variance: Array

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rows + other.rows, self.share + other.share, self.chance + other.chance, self.variance + other.variance
        )

    @property
    def score(self) -> Array:
        """The mean over rows, (N,)."""
        return self.share / max(1, self.rows)

    @property
    def baseline(self) -> Array:
        """What it would be by chance, (N,)."""
        return self.chance / max(1, self.rows)

    @property
    def sigma(self) -> Array:
        """By how much it varies by chance, (N,)."""
        return np.sqrt(self.variance) / max(1, self.rows)


def tally(weights: Array, visible: Array, aim: Array) -> Tally:
    """Weights of one sequence against an aim."""
    aim, n = aim * visible, visible.sum(-1)  # (T, S), (T,)
    centre = aim.sum(-1) / np.maximum(1, n)  # (T,)
    spread = ((aim - centre[:, None]) ** 2 * visible).sum(-1)
    tells = spread > 0
    if not tells.any():
        nothing = np.zeros(len(weights))
        return Tally(0, nothing, nothing, nothing)
    weights, aim, n = weights[:, tells].astype(np.float64), aim[tells], n[tells]
    whole = weights.sum(-1)  # (N, rows): 1, or 0 for a blind row
    uneven = (weights**2).sum(-1) - whole**2 / n
    variance = np.maximum(0, uneven) * spread[tells] / (n - 1)  # (N, rows)
    share, chance = (weights * aim).sum((-1, -2)), (whole * centre[tells]).sum(-1)
    return Tally(int(tells.sum()), share, chance, variance.sum(-1))


def evenness(weights: Array, visible: Array) -> tuple[Array, int]:
    """Entropy / log n of each row that sees more than one key, summed, (N,), and how many: 1 is as even as can be."""
    n = visible.sum(-1)
    weights = weights[:, n > 1].astype(np.float64)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)  # (N, rows)
    return (entropy / np.log(n[n > 1])).sum(-1), int((n > 1).sum())
