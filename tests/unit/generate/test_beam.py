"""Beam search against one written with lists and no haste, and against every output there is, on a toy.

The toy says of each prefix over V symbols whatever a random table says: nothing but the search is on trial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.generate import Hypothesis, beam_search
from regard.generate.beam import RUN, _Search, greatest

EOS = 0
Ids = tuple[int, ...]


class Toy:
    """A language model over 4 symbols, and its own state: logits are a function of source and prefix."""

    def __init__(self, seed: int, sources: int = 1, vocabulary: int = 4, longest: int = 6, size: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        prefixes = sum(vocabulary**n for n in range(longest + 1))
        self.table = torch.randn(sources, prefixes, vocabulary, generator=generator, dtype=torch.float64) * size
        self.source, self.vocabulary = torch.arange(sources), vocabulary
        self.prefix: Tensor | None = None
        self.transformer = SimpleNamespace(decode=self.decode)

    def decode(self, ids: Tensor, state: Toy) -> Tensor:
        """Numbers prefixes as the digits of their symbols: () 0, (a) a + 1, (a, b) V (a + 1) + b + 1."""
        assert state is self
        if self.prefix is None:
            self.prefix = torch.zeros(len(ids), dtype=torch.long)
        else:
            self.prefix = self.prefix * self.vocabulary + ids[:, 0] + 1
        sources = self.source.repeat_interleave(len(ids) // len(self.source))
        return torch.stack([sources, self.prefix], -1)[:, None]

    def logits(self, hidden: Tensor) -> Tensor:
        return self.table[hidden[:, 0], hidden[:, 1]]

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        assert self.prefix is not None
        self.prefix = self.prefix[rows]
        self.source = self.source if sources is None else self.source[sources]

    branch = reorder

    def log_p(self, source: int, ids: Ids) -> list[float]:
        prefix = 0
        for token in ids:
            prefix = prefix * self.vocabulary + token + 1
        return self.table[source, prefix].log_softmax(-1).tolist()


def search(toy: Toy, limits: Sequence[int], **options) -> list[list[Hypothesis]]:
    first = torch.zeros(len(limits), 1, dtype=torch.long)
    return beam_search(toy, toy, first, ends=[EOS], limits=torch.tensor(limits), **options)


def plainly(
    toy: Toy, source: int, limit: int, beam: int, alpha: float, banned: Ids = ()
) -> list[tuple[float, Ids, bool]]:
    """The same search as the definition has it: (score, ids, finished), best first; it never ends early."""
    living: list[tuple[float, Ids]] = [(0.0, ())]
    done: list[tuple[float, Ids, bool]] = []
    for length in range(1, limit + 1):
        options = [
            (total + log_p, (*ids, token))
            for total, ids in living
            for token, log_p in enumerate(toy.log_p(source, ids))
            if token not in banned
        ]
        options.sort(reverse=True)
        done += [(total / length**alpha, ids[:-1], True) for total, ids in options[:beam] if ids[-1] == EOS]
        living = [(total, ids) for total, ids in options if ids[-1] != EOS][:beam]
        if beam == 1 and done:
            break
    else:
        done += [(total / limit**alpha, ids, False) for total, ids in living]
    return sorted(done, reverse=True)


def told(found: list[Hypothesis]) -> list[tuple[float, Ids, bool]]:
    return [(pytest.approx(one.score, abs=1e-9), one.ids, one.finished) for one in found]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    limits=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    beam=st.integers(1, 6),
    n_best=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    banned=st.sampled_from([(), (2,), (1, 3)]),
    size=st.sampled_from([0.3, 2.0]),
)
def test_finds_what_the_plain_search_finds(seed, limits, beam, n_best, alpha, banned, size) -> None:
    """So ending early changes no result, and sources that leave take nothing with them."""
    found = search(
        Toy(seed, len(limits), size=size), limits, beam=beam, n_best=n_best, alpha=alpha, banned=banned
    )  # fmt: skip
    toy = Toy(seed, len(limits), size=size)
    for source, limit in enumerate(limits):
        expected = plainly(toy, source, limit, beam, alpha, banned)[: min(n_best, beam)]
        assert told(found[source]) == expected


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_law_27_a_beam_of_full_width_finds_the_best_of_all_outputs(seed: int, alpha: float) -> None:
    """4 symbols, the end among them, up to length 5: 121 outputs that end and 243 that are cut."""
    toy = Toy(seed)
    best = -math.inf, ()
    for length in range(1, 6):
        for ids in itertools.product(range(4), repeat=length):
            if EOS not in ids[:-1] and (ids[-1] == EOS or length == 5):
                total = sum(toy.log_p(0, ids[:t])[token] for t, token in enumerate(ids))
                best = max(best, (total / length**alpha, ids))
    ((found,),) = search(Toy(seed), [5], beam=4**5, alpha=alpha)
    assert found.score == pytest.approx(best[0])
    assert (*found.ids, EOS)[: found.length] == best[1]


def test_a_settled_search_ends_early() -> None:
    """The end is almost certain: no other first token can lead to anything as good, so one step is enough."""
    toy = Toy(0, size=0.0)
    toy.table[..., EOS] = 10.0
    steps = []
    toy.transformer.decode = lambda ids, state: steps.append(1) or toy.decode(ids, state)
    ((best,),) = search(toy, [6], beam=3, alpha=1.0)
    assert len(steps) == 1 and best.ids == () and best.finished and best.length == 1


def test_never_settled_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[list[list[Hypothesis]]]:
        return [search(Toy(seed, 3), [2, 6, 4], beam=4, n_best=2, alpha=0.6) for seed in range(10)]

    early = found()
    whole = _Search.__init__

    def keeping_all(self: _Search, *args, **options) -> None:
        whole(self, *args, **options)
        self.keep = 10**6  # never so many, so no source is ever settled by what it has

    monkeypatch.setattr(_Search, "__init__", keeping_all)
    assert [[best[:2] for best in sources] for sources in found()] == early


def test_what_is_cut_says_so_and_counts_no_end() -> None:
    toy = Toy(0)
    toy.table[..., EOS] = -1e9
    ((best,),) = search(toy, [3], beam=2, alpha=1.0)
    assert not best.finished and len(best.ids) == best.length == 3
    assert best.score == pytest.approx(best.logprob / 3)


def test_a_beam_wider_than_the_vocabulary_holds_what_there_is() -> None:
    (found,) = search(Toy(1), [1], beam=50, n_best=50)
    assert sorted(one.ids for one in found) == [(), (1,), (2,), (3,)]
    assert sum(math.exp(one.logprob) for one in found) == pytest.approx(1.0)


def test_at_most_beam_many_come_back() -> None:
    assert len(search(Toy(1), [4], beam=2, n_best=9)[0]) == 2


def test_a_source_whose_logits_are_not_numbers_has_no_output_and_disturbs_no_other() -> None:
    poisoned, sound = Toy(5, 3), Toy(5, 3)
    poisoned.table[1] = math.nan
    found = search(poisoned, [5, 5, 5], beam=3, alpha=0.6)
    expected = search(sound, [5, 5, 5], beam=3, alpha=0.6)
    assert found[1] == [] and [found[0], found[2]] == [expected[0], expected[2]]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), width=st.integers(1, 9 * RUN), k=st.integers(1, 12), equal=st.booleans())
def test_the_greatest_are_those_of_topk(seed: int, width: int, k: int, equal: bool) -> None:
    """With many equal ones too, where places may be others, but hold the same values."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-3, 3, (3, 2, width), generator=generator) * 1.0 if equal else torch.randn(3, 2, width)
    x[0, 0] = -torch.inf
    k = min(k, width)
    values, places = greatest(x, k)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(-1, places), values)
    assert all(len(set(row)) == k for row in places.flatten(0, 1).tolist())


@pytest.mark.parametrize("beam", [1, 3])
def test_a_settled_source_leaves_the_batch(beam: int) -> None:
    """From its last step on nothing is computed for it: rows are hypotheses of sources that still go on."""
    limits, toy, rows = [2, 6, 4], Toy(3, sources=3), list[int]()
    toy.table[..., EOS] = -50  # no output ends before its limit
    decode = toy.decode
    toy.transformer.decode = lambda ids, state: rows.append(len(ids)) or decode(ids, state)  # type: ignore[func-returns-value]
    search(toy, limits, beam=beam)
    assert rows == [beam * sum(step <= limit for limit in limits) for step in range(1, 7)]
