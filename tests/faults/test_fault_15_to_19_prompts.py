"""Faults 15 to 19, for language models: odd characters, typed control tokens, endless words, nothing, and too much."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import regard

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(model_dir: Callable[[str], Path]) -> regard.Loaded:
    return regard.load(model_dir("stories260k"), device="cpu")


@pytest.mark.parametrize(
    "prompt", ["\0", "a\ud800b", "\u202eabc\u202c", "e\u0301", "a\u2028b", "\ufeffa", "👩‍👩‍👧 你好", " ", "\n\n"]
)
def test_odd_characters_are_continued_in_whole_ones(model: regard.Loaded, prompt: str) -> None:
    pieces = list(model.stream(prompt, max_tokens=8, temperature=3.0, seed=1))
    assert all(piece.encode("utf-8") for piece in pieces)
    assert "".join(pieces) == model.generate(prompt, max_tokens=8, temperature=3.0, seed=1).text


def test_a_typed_control_token_is_text(model: regard.Loaded) -> None:
    """An end in a prompt would begin a new story; and as a stop string it is characters too."""
    for prompt in ("</s>", "Once <s> upon", "The end.</s>"):
        assert {1, 2}.isdisjoint(model.tokenizer.encode(prompt))
        assert model.tokenizer.decode(model.tokenizer.encode(prompt)) == prompt
    assert model.generate("</s>", max_tokens=9).text != model.generate("", max_tokens=9).text
    assert model.generate("", max_tokens=9, stop="</s>").finish_reason == "length"


def test_nothing_is_the_beginning_of_a_text(model: regard.Loaded) -> None:
    assert model.generate("", max_tokens=4).text == "Once upon a time"
    assert model.generate([], max_tokens=4) == []
    assert model.generate("Once", max_tokens=0) == regard.Generation("", (), (), "length")
    assert list(model.stream("Once", max_tokens=0)) == []


@pytest.mark.parametrize("character", ["a", " ", "\u0301", "日"])
def test_a_long_word_is_refused_in_linear_time_with_both_counts(model: regard.Loaded, character: str) -> None:
    before = time.process_time()
    with pytest.raises(regard.ConfigError, match="at most 512 tokens") as caught:
        model.generate(["a", character * 10**5], max_tokens=3)
    assert time.process_time() - before < 10
    assert int(str(caught.value.got).replace(",", "")) > 512 and "prompt 2 of 2" in str(caught.value)
    with pytest.warns(UserWarning, match="tokens at a beginning were left out"):
        cut = model.generate(character * 10**5, max_tokens=3, truncate=True)
    assert cut.left_out == int(str(caught.value.got).replace(",", "")) - 510
