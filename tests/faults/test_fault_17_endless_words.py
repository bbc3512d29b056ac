"""Fault 17: a million letters, spaces or combining marks in a row take linear time."""

from __future__ import annotations

import time
from typing import get_args

import pytest

from regard.text import Kind, Tokenizer

SMALL, LARGE = 5_000, 50_000


def _seconds(tokenizer: Tokenizer, text: str) -> float:
    """The fastest of three: the machine may be busy."""
    times = []
    for _ in range(3):
        start = time.process_time()
        ids = tokenizer.encode(text)
        times.append(time.process_time() - start)
    assert len(ids) <= 4 * len(text) + 1
    return min(times)


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("unit", ["a", " ", "\u0301", "."])
def test_time_is_linear(kind: Kind, unit: str) -> None:
    tokenizer = Tokenizer.train(["a aa aaaa . .. a\u0301 aaaaaaaaaaaaaaaa"] * 9, kind=kind, vocab_size=300)
    small, large = (_seconds(tokenizer, unit * count) for count in (SMALL, LARGE))
    assert large < 4 * (LARGE / SMALL) * max(small, 0.002)  # quadratic time would be 100 times


def test_training_on_an_endless_word_ends() -> None:
    start = time.process_time()
    tokenizer = Tokenizer.train(["ab" * 100_000], vocab_size=300)
    assert max(map(len, tokenizer.backend.get_vocab())) <= 33
    assert time.process_time() - start < 10
