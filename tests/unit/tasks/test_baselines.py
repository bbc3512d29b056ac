"""Counting baselines: n-grams against a dictionary's slow counting, and what each must and must not notice."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regard.tasks.baselines import bits_per_unit, ngram_nats, unigram_nats, xz_bytes


def slow_ngram(train: list[int], held: list[int], vocab: int, order: int) -> float:
    after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for t, token in enumerate(train):
        for n in range(order):
            after[tuple(([-1] * n + train)[t : t + n])][token] += 1
    nats = 0.0
    for t, token in enumerate(held):
        p = 1 / vocab
        for n in range(order):
            seen = after[tuple(([-1] * n + held)[t : t + n])]
            if seen:
                p = (seen[token] + len(seen) * p) / (seen.total() + len(seen))
        nats -= math.log(p)
    return nats


@pytest.mark.parametrize("order", [1, 2, 5])
def test_ngrams_are_witten_bells(order: int) -> None:
    random = np.random.default_rng(order)
    train, held = random.integers(6, size=300), random.integers(6, size=80)
    ours = ngram_nats(train, held, 6, order)
    assert ours == pytest.approx(slow_ngram(train.tolist(), held.tolist(), 6, order), rel=1e-12)


def test_probabilities_of_all_tokens_sum_to_one() -> None:
    train = np.random.default_rng(0).integers(5, size=200)
    total = sum(math.exp(ngram_nats(train, np.array([1, 3, w]), 5) * -1) for w in range(5))
    before = math.exp(-ngram_nats(train, np.array([1, 3]), 5))
    assert total == pytest.approx(before)


def test_what_repeats_is_cheaper_by_longer_contexts(data_dir: Callable[[str], Path]) -> None:
    text = next(data_dir("tinyshakespeare").glob("*.txt*")).read_bytes()
    text = text[:300_000]
    ids = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    train, held = ids[:270_000], ids[270_000:]
    bits = [bits_per_unit(unigram_nats(train, held, 256), len(held))]
    bits += [bits_per_unit(ngram_nats(train, held, 256, n), len(held)) for n in (2, 3, 5)]
    assert bits == sorted(bits, reverse=True)
    assert bits[3] < 8 * xz_bytes(text[:270_000], text[270_000:]) / len(held) < bits[0] < 8
