"""Pieces and white space are the text, to the last character; and cuts are made where sentences end."""

from __future__ import annotations

import gzip
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.text.placeholders import find
from regard.text.segment import split

BITS = [
    "A man", "a", "B.", "Dr.", "z. B.", "3.", "2016.", "No. 5", "?", "!", "…", "...", "。", "！", "你好", '"', "”", ")",
    " ", "  ", "\t", "\n", "\r\n", "\u2028", "\u3000", "\u00a0", ",", "，", ";", "—", "👩‍👩‍👧",
    "u\u0308", "שלום.", "\u202e",
    "https://a.org/x?y. Z", "{a}", "<b x='. A'>", "\0", "\ud800", "\ufeff",
]  # fmt: skip
TEXTS = st.one_of(st.lists(st.sampled_from(BITS), max_size=30).map("".join), st.text(max_size=60))


def by_length(most: int) -> Callable[[Sequence[str]], list[float]]:
    return lambda texts: [len(text) / most for text in texts]


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, most=st.one_of(st.none(), st.integers(1, 20)))
@example(text=" \n ", most=None)
def test_put_together_again_the_pieces_are_the_text(text: str, most: int | None) -> None:
    pieces = split(text, most and by_length(most))
    assert "".join(piece + white for piece, white in pieces) == text
    assert all(not white.strip() and piece == piece.strip() for piece, white in pieces)
    assert all(piece for piece, _ in pieces[1:])
    for start, end in find(text):  # nothing that must be copied is cut
        at = 0
        for piece, white in pieces:
            at += len(piece) + len(white)
            assert not start < at < end or not text[start:end].strip()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two? Three! Four", ["One.", "Two?", "Three!", "Four"]),
        ("Dr. J. Smith of the U.S. Army met Mr. Jones. He left.", 2),
        ('He said "Go." Then he went (at last!). "Why?" she asked.', ['He said "Go."', "Then he went (at last!).",
                                                                      '"Why?" she asked.']),
        ("Am 3. Mai kamen sie z. B. aus Prag. Danach nicht.", 2),
        ("It was in 2016. The man ran. No. 5 is alive, e.g. 3.5 of it.", ["It was in 2016.", "The man ran.",
                                                                          "No. 5 is alive, e.g. 3.5 of it."]),
        ("See https://a.org/x.html?q=A. B follows.", ["See https://a.org/x.html?q=A.", "B follows."]),
        ("你好。你是谁？“我是人。”他说：3.5元。", ["你好。", "你是谁？", "“我是人。”", "他说：3.5元。"]),
        ("A title\n\nA line\nanother", ["A title", "A line", "another"]),
        ("wait... what?", ["wait... what?"]),
        ("¿Qué? ¡Sí! Bien.", ["¿Qué?", "¡Sí!", "Bien."]),
    ],
)  # fmt: skip
def test_sentences(text: str, sentences: list[str] | int) -> None:
    found = [piece for piece, _ in split(text)]
    assert len(found) == sentences if isinstance(sentences, int) else found == sentences


def test_captions_of_one_sentence_stay_whole(data_dir: Callable[[str], Path]) -> None:
    """Of 1,000 real lines, nearly all of one sentence, few are cut, and only after . ! or ?."""
    path = data_dir("multi30k") / "test_2016_flickr.en.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    cut = [pieces for pieces in map(split, lines) if len([piece for piece, _ in pieces if piece]) > 1]
    assert len(cut) < 0.03 * len(lines)
    assert all(piece[-1] in ".!?\"'" for pieces in cut for piece, _ in pieces[:-1] if piece)


@settings(max_examples=100, deadline=None)
@given(
    words=st.lists(st.sampled_from(["a", "bc", "def,", "ghij", "k;"]), min_size=1, max_size=40), most=st.integers(6, 20)
)
def test_a_long_sentence_is_cut_into_parts_that_fit_and_no_more_than_needed(words: list[str], most: int) -> None:
    text = " ".join(words)
    parts = [piece for piece, _ in split(text, by_length(most))]
    assert all(len(part) <= most for part in parts) or max(map(len, words)) > most
    if len(text) <= most:
        assert parts == [text]
    for one, two in itertools.pairwise(parts):
        assert len(one) + 1 + len(two.split()[0]) >= most - 5 or one[-1] in ",;"


UNSPACED = {
    "Chinese": "我们昨天在城里看见了一只很大的狗",
    "Japanese": "わたしはきのう町で大きな犬を見ました",
    "Thai": "เมื่อวานนี้ฉันเห็นหมาตัวใหญ่ในเมือง",
    "Korean": "우리는어제시내에서큰개를보았다",
}


@pytest.mark.parametrize("language", UNSPACED)
def test_where_no_space_parts_words_a_long_sentence_is_cut_between_characters(language: str) -> None:
    """Not in Korean, which has spaces between words; there what has none is one word."""
    text = UNSPACED[language] * 20
    parts = [piece for piece, _ in split(text, by_length(50))]
    assert "".join(parts) == text
    if language == "Korean":
        assert parts == [text]
        return
    assert len(parts) == -(-len(text) // 50) or language == "Thai"
    assert all(len(part) <= 50 for part in parts)
    assert all(part[0].isalnum() and part[-1] not in "เแโใไ" for part in parts), (
        "no mark alone, no vowel without its letter"
    )
    assert split(UNSPACED[language], by_length(50)) == [(UNSPACED[language], "")], "what fits is whole"


def test_marks_are_better_places_to_cut_than_characters() -> None:
    clause = "我们昨天在城里看见了狗"
    parts = [piece for piece, _ in split("，".join([clause] * 9), by_length(30))]
    assert all(part.count(clause) == 2 for part in parts[:-1])
    mixed = "我们看见了https://a.org/b一只狗" * 3
    assert all(part.count("https") == part.count("a.org/b") for part, _ in split(mixed, by_length(19)))


@pytest.mark.parametrize(
    "unit", ["日", "a", " ", ".", ". ", "A. ", "\u0301", "\"'", "。", ", ", "!\n", ".'", "a\u3000", "1"]
)
def test_time_is_linear(unit: str) -> None:
    text = unit * (10**5 if unit[-1].isspace() else 10**6)
    start = time.process_time()
    assert "".join(piece + white for piece, white in split(text, by_length(500))) == text
    assert time.process_time() - start < 30
