"""Fault 16: `</s>`, `<pad>`, `<|im_end|>` typed by a user are plain text, never the control token."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from regard.text import Kind, Tokenizer

SPECIALS = ["<|im_end|>", "<2de>", "[SEP]"]
CONTROLS = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", *SPECIALS, "<0x41>"]
# The control tokens are in the text to learn from, often: still no learned piece may spell one.
TEXTS = [f"{token} a {token}{token} word{token}" for token in CONTROLS] * 50


@pytest.mark.parametrize("kind", get_args(Kind))
def test_typed_control_tokens_are_text(kind: Kind, tmp_path: Path) -> None:
    trained = Tokenizer.train(TEXTS, kind=kind, vocab_size=500, specials=SPECIALS)
    trained.save(tmp_path)
    for tokenizer in (trained, Tokenizer.load(tmp_path)):
        forbidden = {tokenizer.token_id(token) for token in CONTROLS[:-1]}
        assert None not in forbidden and len(forbidden) == 8
        for text in (*CONTROLS, *TEXTS[:9], "".join(CONTROLS), "x</s>", "</s></s> <pad>a"):
            ids = tokenizer.encode(text)
            new = {tokenizer.unk_id} & set(ids) if kind == "words" else set()  # a run of them may be a word never seen
            assert (forbidden - new).isdisjoint(ids), text
            assert new or tokenizer.decode(ids) == text
            assert tokenizer.encode_batch([text]) == [ids]
