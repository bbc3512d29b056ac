"""Pieces of text from ids one by one: together they are the text of all ids, whatever the vocabulary and the ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.pieces import Reader
from regard.text import Kind, Tokenizer

TEXTS = ["Once upon a time, there was 你好，世界 and 再见 👩‍👩‍👧 é ü.", " spaces  and\nlines\t你", "a b c " * 20] * 4
ODD = ["你好 👩‍👩‍👧 and 龘龘 né", "é", "😀😀", " a", "plain words", "\ufffd x \ufffd", "龘 \n\n 龘"]
VOCABULARIES = [*get_args(Kind), "stories260k"]


@pytest.fixture(scope="module", params=VOCABULARIES)
def tokenizer(request: pytest.FixtureRequest, model_dir: Callable[[str], Path]) -> Tokenizer:
    """Ours of every kind, and one of SentencePiece's: `▁` for a space, bytes for what it cannot write."""
    if request.param not in get_args(Kind):
        return Tokenizer.of(_backend(model_dir(request.param)), {"bos": "<s>", "eos": "</s>", "unk": "<unk>"})
    return Tokenizer.train(TEXTS, kind=request.param, vocab_size=340)


def _backend(folder: Path):
    import tokenizers

    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def pieces(tokenizer: Tokenizer, prompt: Sequence[int], ids: Sequence[int], stops: Sequence[str] = ()) -> list[str]:
    reader = Reader(tokenizer, prompt, stops)
    found = []
    for token in ids:
        found.append(reader.add(token))
        if reader.stopped:
            break
    return [*found, reader.end()]


def after(tokenizer: Tokenizer, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """What all the ids say after what the prompt says."""
    before, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *ids])
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(ids)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), prompt=st.sampled_from(["", "Once upon", "x ", "你", "a\n"]))
def test_any_ids_in_pieces_are_the_text_of_all(tokenizer: Tokenizer, data: st.DataObject, prompt: str) -> None:
    """Random ids: half characters, bytes that are no text, control tokens in between."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    before = tokenizer.encode(prompt)
    found = pieces(tokenizer, before, ids)
    assert "".join(found) == after(tokenizer, before, ids)
    for piece in found:
        piece.encode("utf-8")


@pytest.mark.parametrize("prompt", ["", "Once", "好"])
@pytest.mark.parametrize("text", ODD)
def test_a_text_comes_in_pieces_of_whole_characters(tokenizer: Tokenizer, text: str, prompt: str) -> None:
    ids, before = tokenizer.encode(text), tokenizer.encode(prompt)
    found = pieces(tokenizer, before, ids)
    assert "".join(found) == after(tokenizer, before, ids)
    if "\ufffd" not in after(tokenizer, before, ids):
        assert not any("\ufffd" in piece for piece in found)


def test_words_are_not_held_back(tokenizer: Tokenizer) -> None:
    """A piece for each token as it comes, where nothing is uncertain."""
    ids = tokenizer.encode("a b c a b c")
    found = pieces(tokenizer, tokenizer.encode("a b c"), ids)
    assert all(found[:-1]) and not found[-1] and len(found) == len(ids) + 1


@settings(max_examples=60, deadline=None)
@given(data=st.data(), stops=st.lists(st.text("ab \n你", min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_stop_string_ends_the_text_wherever_tokens_end(tokenizer, data: st.DataObject, stops: list[str]) -> None:
    ids = tokenizer.encode(data.draw(st.text("ab \n你é", max_size=30)))
    whole = after(tokenizer, [], ids)
    places = [(whole.find(stop) + len(stop), whole.find(stop)) for stop in stops if stop in whole]
    found = "".join(pieces(tokenizer, [], ids, stops))
    assert found == (whole[: min(places)[1]] if places else whole)


def test_what_could_become_a_stop_string_is_held_and_given_when_it_does_not(tokenizer: Tokenizer) -> None:
    reader = Reader(tokenizer, tokenizer.encode("x"), ["b c a!"])
    shown = ""
    for token in tokenizer.encode("a b c a b"):
        shown += reader.add(token)
        assert not shown.endswith(("b", "b c", "b c a"))
    assert not reader.stopped
    assert (shown + reader.end()).strip() == "a b c a b"
