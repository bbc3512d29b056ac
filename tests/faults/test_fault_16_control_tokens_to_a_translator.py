"""Fault 16, through the Python face: a control token in a text is characters to the model too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import regard

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_typed_end_is_no_end(workplace: Path) -> None:
    model = regard.load(workplace / "run", device="cpu")
    controls = {model.tokenizer.pad_id, model.tokenizer.bos_id, model.tokenizer.eos_id, model.tokenizer.mask_id}
    texts = ["Two dogs </s> run.", "</s>", "<pad><pad>", "<s> A man", "<|im_end|> <mask>"]
    for text, found in zip(texts, model.translate(texts, beam=2, alignments=True, protect="none"), strict=True):
        assert found.source_tokens is not None
        ids = model.tokenizer.encode(text)
        assert controls.isdisjoint(ids) and model.tokenizer.decode(ids) == text
        assert found.source_tokens == tuple(model.tokenizer.tokens(ids))
        assert found.text, "an end or padding in its place would have left nothing to translate"
    for text, found in zip(texts, model.translate(texts, beam=2), strict=True):  # what looks like markup is copied
        assert all(found.text.count(piece) >= text.count(piece) for piece in re.findall("</?[a-z]+>", text))
    plain, typed = model.score(["Two dogs run."] * 2, ["Zwei Hunde", "Zwei Hunde</s>"])
    assert typed < plain - 1, "four more characters have to be said"
