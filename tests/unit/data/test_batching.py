from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import TokenBatches, deal, read_pairs
from regard.errors import ConfigError

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)


def _lengths(count: int = 500, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, 40, (count, 2))


def _epoch(batches: TokenBatches, epoch: int) -> list[list[int]]:
    size = batches.batches_per_epoch
    return [batches.batch(step) for step in range(epoch * size, (epoch + 1) * size)]


@settings(max_examples=150, deadline=None)
@given(lengths=LENGTHS, budget=st.integers(40, 400), seed=st.integers(0, 2**32), multiple=st.integers(1, 8))
def test_every_epoch_has_each_sample_once_within_the_budget(lengths, budget: int, seed: int, multiple: int) -> None:
    batches = TokenBatches(lengths, tokens_per_batch=budget, seed=seed, multiple=multiple, max_len=30)
    for epoch in range(3):
        parts = _epoch(batches, epoch)
        assert sorted(chain(*parts)) == list(range(len(lengths)))
        for part in parts:
            widest = max(max(lengths[i]) for i in part)  # fails for an empty batch too
            assert len(part) * -(-widest // multiple) * multiple <= budget


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_law_24_each_sample_once_over_ranks_and_workers(ranks: int, workers: int) -> None:
    lengths = _lengths()
    seen: Counter[int] = Counter()
    for rank in range(ranks):
        for worker in range(max(workers, 1)):  # each builds its own order, as processes do
            batches = TokenBatches(lengths, tokens_per_batch=300, seed=7, max_len=40)
            for step in range(worker, batches.batches_per_epoch, max(workers, 1)):
                seen.update(deal(batches.batch(step), rank, ranks))
    assert seen == Counter(range(len(lengths)))


@given(indices=st.lists(st.integers(), max_size=30), world=st.integers(1, 8))
def test_deal_shares_evenly(indices: list[int], world: int) -> None:
    parts = [deal(indices, rank, world) for rank in range(world)]
    assert Counter(chain(*parts)) == Counter(indices)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_law_23_a_step_is_a_pure_function_of_its_number() -> None:
    def new() -> TokenBatches:
        return TokenBatches(_lengths(), tokens_per_batch=300, seed=7, max_len=40)

    run = new()
    steps = [run.batch(step) for step in range(3 * run.batches_per_epoch)]
    for step in (2 * run.batches_per_epoch + 3, 5, run.batches_per_epoch, 0):  # mid-epoch, backwards, fresh or not
        assert new().batch(step) == run.batch(step) == steps[step]


def test_epochs_and_seeds_differ() -> None:
    batches = TokenBatches(_lengths(), tokens_per_batch=300, seed=7, max_len=40)
    other = TokenBatches(_lengths(), tokens_per_batch=300, seed=8, max_len=40)

    def mates(parts: list[list[int]]) -> set[tuple[int, int]]:
        return {(a, b) for part in parts for a in part for b in part if a < b}

    first, second, foreign = mates(_epoch(batches, 0)), mates(_epoch(batches, 1)), mates(_epoch(other, 0))
    assert len(first & second) < 0.7 * len(first)
    assert len(first & foreign) < 0.7 * len(first)
    widths = [max(_lengths()[part].max(axis=1)) for part in _epoch(batches, 0)]
    assert widths != sorted(widths) and widths != sorted(widths, reverse=True)


def test_too_long_samples_are_left_out_and_named() -> None:
    batches = TokenBatches([(3, 4), (9, 2), (2, 9), (8, 8)], tokens_per_batch=16, seed=0, max_len=8)
    assert batches.too_long.tolist() == [1, 2]
    assert sorted(chain(*_epoch(batches, 0))) == [0, 3]
    with pytest.raises(ConfigError, match="max_len"):
        TokenBatches([(9, 9)], tokens_per_batch=16, seed=0, max_len=8)
    with pytest.raises(ConfigError, match="max_len"):
        TokenBatches([], tokens_per_batch=16, seed=0, max_len=8)
    with pytest.raises(ConfigError, match="tokens_per_batch"):
        TokenBatches([(9, 9)], tokens_per_batch=8, seed=0, max_len=9)


def test_little_padding_on_multi30k(data_dir) -> None:
    folder = data_dir("multi30k")
    pairs = read_pairs([folder / "train.en.gz", folder / "train.de.gz"])
    words = [(len(s.split()) + 3, len(t.split()) + 3) for s, t in zip(pairs.source, pairs.target, strict=True)]
    batches = TokenBatches(words, tokens_per_batch=4000, seed=0, max_len=128)
    assert batches.padding_share < 0.05
    array = np.array(words)
    places = sum(len(part) * int(array[part].max(axis=0).sum()) for part in _epoch(batches, 0))
    assert batches.padding_share == pytest.approx(1 - array.sum() / places)
