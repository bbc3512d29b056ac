"""BPE dropout: nothing dropped is `encode`, whatever is dropped says the same text, and a seed repeats it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import read_lines
from regard.errors import ConfigError
from regard.text import Kind, Tokenizer
from regard.text.dropout import BpeDropout

KINDS: tuple[Kind, ...] = ("bpe", "bytes")
TEXTS = ["Two young, White males are outside near many bushes.", "Zwei junge weiße Männer sind im Freien."] * 9
TOKENIZERS = {kind: Tokenizer.train(TEXTS, kind=kind, vocab_size=420) for kind in KINDS}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_without_dropout_it_is_encode_on_real_text(kind: Kind, data_dir) -> None:
    texts = [line for code in ("en", "de") for line in read_lines(data_dir("multi30k") / f"val.{code}.gz")]
    tokenizer = Tokenizer.train(texts, kind=kind, vocab_size=2_000)
    plain = BpeDropout(tokenizer, 0.0)
    assert [plain.encode(text, Random(1)) for text in texts] == tokenizer.encode_batch(texts)
    dropped = BpeDropout(tokenizer, 0.1)
    lengths = [(len(dropped.encode(text, Random(1))), len(tokenizer.encode(text))) for text in texts[:300]]
    many, few = map(sum, zip(*lengths, strict=True))
    assert 1.1 < many / few < 1.5


@each_kind
@given(text=st.text())
def test_without_dropout_it_is_encode_on_any_text(kind: Kind, text: str) -> None:
    assert BpeDropout(TOKENIZERS[kind], 0.0).encode(text, Random(1)) == TOKENIZERS[kind].encode(text)


@each_kind
def test_other_pieces_of_the_same_text_and_the_same_for_the_same_seed(kind: Kind) -> None:
    dropout, again = (BpeDropout(TOKENIZERS[kind], 0.3) for _ in range(2))
    text = f"{TEXTS[0]} {TEXTS[1]} 日本"
    found = [dropout.encode(text, Random(seed)) for seed in range(20)]
    assert {TOKENIZERS[kind].decode(ids) for ids in found} == {text}
    assert len(set(map(tuple, found))) == 20
    assert found[::-1] == [again.encode(text, Random(seed)) for seed in reversed(range(20))]


@each_kind
def test_everything_dropped_is_characters(kind: Kind) -> None:
    text = "Zwei Männer"
    ids = BpeDropout(TOKENIZERS[kind], 1.0).encode(text, Random(1))
    written = "".join(TOKENIZERS[kind].words(text))
    assert len(ids) == len(written) and TOKENIZERS[kind].decode(ids) == text


def test_what_cannot_be() -> None:
    unigram = Tokenizer.train(TEXTS, kind="unigram", vocab_size=420)
    with pytest.raises(ConfigError, match=r"tokenizer\.dropout: only a vocabulary of merges"):
        BpeDropout(unigram, 0.1)
