"""What a language model must beat: how many bits a byte counting alone gives a held-out text.

    unigram   how often each token came in training
    n-gram    the same after the four tokens before it, shorter contexts filling in (Witten and Bell 1991)
    xz        how much longer `xz -9` of the training text becomes when the held-out text is put behind it

What is unusual: n-grams are 64-bit hashes in sorted arrays, so a corpus of millions of tokens is counted in seconds.
What it does not know: models.
"""

from __future__ import annotations

import lzma
import math

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import Corpus
from regard.text import Tokenizer

COUNTED = 20_000_000
"""Tokens, or bytes, that are looked at: what a minute suffices for."""
ORDER = 5
"""Tokens in the longest n-gram."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number with bits everywhere, so that different n-grams hardly ever share a hash."""

Ids = NDArray[np.int64]
Hashes = NDArray[np.uint64]


def counted_bits(tokenizer: Tokenizer, train: Corpus, held: Corpus, end: int) -> dict[str, float]:
    """Bits for each byte of the held-out documents by counts of tokens, of n-grams, and by xz.

    Args:
        end: the id after each document.
    """
    seen, asked = _stream(train, end), _stream(held, end)
    text, before = (tokenizer.decode(ids.tolist()).encode() for ids in (asked, seen[-COUNTED // 4 :]))
    size = max(tokenizer.vocab_size, end + 1)
    return {
        "unigram_bits_per_byte": bits_per_unit(unigram_nats(seen, asked, size), len(text)),
        "ngram_bits_per_byte": bits_per_unit(ngram_nats(seen, asked, size), len(text)),
        "xz_bits_per_byte": 8 * xz_bytes(before, text) / max(1, len(text)),
    }


def _stream(corpus: Corpus, end: int) -> Ids:
    """The documents one after another, each with its end; no more than are counted."""
    parts, total = list[Ids](), 0
    for number in range(len(corpus)):
        parts.append(np.append(corpus.document(number).astype(np.int64), end))
        total += len(parts[-1])
        if total > COUNTED:
            break
    return np.concatenate(parts)


def unigram_nats(train: Ids, held: Ids, vocab_size: int) -> float:
    """- sum log p of the held-out tokens, each token's count in training and one more."""
    counts = np.bincount(train, minlength=vocab_size) + 1.0
    return -float(np.log(counts / counts.sum())[held].sum())


def ngram_nats(train: Ids, held: Ids, vocab_size: int, order: int = ORDER) -> float:
    """- sum log p of the held-out tokens under interpolated n-grams of `order` tokens.

    p(w | h) = (c(hw) + T(h) p(w | h')) / (c(h) + T(h)),  T(h) the number of different tokens that came after h, and h'
    the context h without its first token; at the bottom every token is as probable as every other.
    """
    p = np.full(len(held), 1.0 / vocab_size)
    for n in range(1, order + 1):
        grams, first, counts = np.unique(_hashes(train, n, before=False), return_index=True, return_counts=True)
        of = _hashes(train, n - 1, before=True)[first]  # the context of each kind of n-gram
        contexts, kinds = np.unique(of, return_counts=True)  # T(h)
        totals = np.add.reduceat(counts[np.argsort(of, kind="stable")], _starts(kinds))  # c(h)
        asked = _hashes(held, n - 1, before=True)
        c_hw = _look(grams, counts, _hashes(held, n, before=False))
        c_h, t_h = _look(contexts, totals, asked), _look(contexts, kinds, asked)
        seen = c_h > 0
        p[seen] = (c_hw[seen] + t_h[seen] * p[seen]) / (c_h[seen] + t_h[seen])
    return -float(np.log(p).sum())


def xz_bytes(train: bytes, held: bytes) -> int:
    """Bytes that the held-out text adds to `xz -9` of the training text."""
    return max(1, _xz(train + held) - _xz(train))


def bits_per_unit(nats: float, units: int) -> float:
    """From a sum of natural logarithms to bits for each of a text's bytes, or characters."""
    return nats / math.log(2) / max(1, units)


def _hashes(ids: Ids, n: int, *, before: bool) -> Hashes:
    """At each place the hash of the n tokens before it, or of the n that end there; where the text begins, of fewer."""
    padded = np.concatenate([np.zeros(n, dtype=np.uint64), ids.astype(np.uint64) + np.uint64(1)])
    hashes = np.zeros(len(ids), dtype=np.uint64)
    for i in range(0 if before else 1, n if before else n + 1):
        hashes = (hashes ^ padded[i : i + len(ids)]) * FACTOR
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)[:-1]])


def _look(keys: Hashes, values: NDArray[np.int64], asked: Hashes) -> NDArray[np.float64]:
    """The value of each key asked for, 0 for one that is not there."""
    places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[places] == asked, values[places], 0).astype(np.float64)


def _xz(data: bytes) -> int:
    # As `xz -9` does, with a dictionary that holds all of the text.
    size = max(2**16, min(len(data), 2**30))
    return len(lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": size}]))
