"""Tokens as people read them: whole words, places in the text, and nothing that cannot be shown."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inspect.sides import NOWHERE, in_row, of_ids, of_text, plain, shown
from regard.text import Tokenizer
from regard.text.foreign import open_tokenizers

TEXTS = ["A man rides a bicycle.", "Ein Mann fährt Fahrrad, 3 km!", "骑自行车的人。", "हिन्दी में", "👩🏽‍🚀 flies", ""]


@pytest.fixture(scope="module")
def vocabularies(write_gpt2, model_dir, minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    """Every kind that is trained here, and three of other tools: GPT-2's bytes, Llama's pieces, BERT's."""
    kinds = ("bpe", "unigram", "bytes", "chars", "words")
    found = {kind: Tokenizer.train(TEXTS * 4, kind=kind, vocab_size=330) for kind in kinds}
    folders = {"gpt2": write_gpt2(tmp_path_factory.mktemp("gpt2")), "llama": model_dir("stories260k"), "bert": minilm}
    return found | {name: open_tokenizers(folder)[0] for name, folder in folders.items()}


def words(tokens, text: str) -> list[str]:
    """The characters of each word, spaces left out."""
    spans: dict[int, list[int]] = {}
    for token in tokens:
        spans.setdefault(token.word, []).extend(range(token.start, token.stop))
    return ["".join(text[i] for i in sorted(set(places))).strip() for _, places in sorted(spans.items())]


def test_tokens_of_one_word_share_a_number(vocabularies: dict[str, Tokenizer]) -> None:
    for name in ("bpe", "unigram", "bytes", "llama"):
        text = "Ein Mann fährt Fahrrad, 3 km!"
        found = words(of_text(vocabularies[name], text), text)
        assert found == ["Ein", "Mann", "fährt", "Fahrrad", ",", "3", "km", "!"], name


def test_a_mark_is_part_of_its_word_and_a_chinese_character_is_one(vocabularies: dict[str, Tokenizer]) -> None:
    for name in ("bpe", "bytes"):
        assert words(of_text(vocabularies[name], "हिन्दी में"), "हिन्दी में") == ["हिन्दी", "में"]
    assert words(of_text(vocabularies["chars"], "骑自行"), "骑自行") == ["骑", "自", "行"]


def test_half_a_character_is_written_as_its_bytes(vocabularies: dict[str, Tokenizer]) -> None:
    for name in ("bpe", "bytes", "gpt2"):
        tokens = of_text(vocabularies[name], "a 🚲")
        pieces = "".join(token.text for token in tokens)
        assert pieces.lstrip("▁") == "a▁" + "".join(f"<0x{byte:02X}>" for byte in "🚲".encode())
        halves = [token for token in tokens if "<0x" in token.text]
        assert len(halves) > 1 and all(token.start <= 2 and token.stop == 3 for token in halves), name
        assert len({token.word for token in halves}) == 1


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "chars", "words", "gpt2", "llama", "bert"])
@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=12))
def test_any_text_can_be_shown(kind: str, text: str, vocabularies: dict[str, Tokenizer]) -> None:
    vocabulary = vocabularies[kind]
    tokens = of_text(vocabulary, text)
    assert [token.id for token in tokens] == vocabulary.encode(text)
    for token in tokens:
        assert token.text
        assert all(unicodedata.category(char) not in ("Cc", "Zl", "Zp", "Cs") for char in token.text)
        assert token.kind != "text" or (token.word > NOWHERE and 0 <= token.start <= token.stop <= len(text))


@pytest.mark.parametrize("text", ["a\u202eb", "\u200d", "\x00", "x\n\ty", "\u2028", "<script>alert(1)</script>"])
def test_what_is_invisible_or_turns_the_writing_is_spelled_out(text: str, vocabularies: dict[str, Tokenizer]) -> None:
    for vocabulary in vocabularies.values():
        pieces = [token.text for token in of_text(vocabulary, text)]
        assert not set("".join(pieces)) & set("\u202e\x00\n\t\u2028")
        assert all(any(unicodedata.category(char)[0] not in "MCZ" for char in piece) for piece in pieces)


def test_control_tokens_are_no_words(vocabularies: dict[str, Tokenizer]) -> None:
    vocabulary = vocabularies["bpe"]
    row = in_row([plain(vocabulary, [vocabulary.bos_id], "special"), of_text(vocabulary, "A man"),
                  plain(vocabulary, [vocabulary.eos_id], "special"), of_text(vocabulary, "rides", 1)])  # fmt: skip
    kinds = {token.kind for token in row}
    assert kinds == {"special", "text"}
    assert [(token.word, token.start) for token in row if token.kind == "special"] == [(NOWHERE, None)] * 2
    assert {token.word for token in row if token.part == 1} == {2}, "the words of the second text count on"


@pytest.mark.parametrize("text", TEXTS[:5])
@pytest.mark.parametrize("before", ["", "So "])
def test_what_was_written_has_its_places_too(text: str, before: str, vocabularies: dict[str, Tokenizer]) -> None:
    for name in ("bpe", "bytes", "gpt2", "llama"):
        vocabulary = vocabularies[name]
        first, ids = vocabulary.encode(before), vocabulary.encode(text)
        written, tokens = of_ids(vocabulary, ids, first)
        assert vocabulary.decode([*first, *ids]) == vocabulary.decode(first) + written
        assert [token.id for token in tokens] == ids
        covered = sorted({place for token in tokens for place in range(token.start, token.stop)})
        assert covered == list(range(len(written)))
        assert [token.text for token in tokens] == shown(vocabulary, ids)
        if text.isascii():  # elsewhere a token may end inside a character, and a place is then told otherwise
            assert words(tokens, written) == words(of_text(vocabulary, written), written)
