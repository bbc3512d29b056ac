"""What is copied comes back where it was: exactly, if words keep their order, and with its words, if they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.copies import Links, place, strip
from regard.text import Tokenizer
from regard.text.placeholders import find

WORDS = ["zwei", "große", "Hunde", "rennen", "durch", "den", "Schnee", "heute"]
ITEMS = ["{name}", "{0}", "%s", "%1$d", "https://a.org/b?c=d", "a.b@c.org", "<br/>", "%%"]
LINES = [" ".join(WORDS), "a b c d e f g h", "Click now twice . ! , ( ) 点 击 你 好", "Klicken Sie jetzt noch einmal"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 3, kind="words", vocab_size=200)


def put_back(tokenizer: Tokenizer, source: str, target: str | None = None, links: Links | None = None):
    """The placed translation, `target`, of a source; without one its bare text itself, word by word."""
    bare, copies = strip(source, find(source))
    said = tokenizer.encode(bare if target is None else target)
    ids = tokenizer.encode(bare)
    links = tuple((i, i) for i in range(len(ids))) if links is None else links
    text = tokenizer.decode(said)
    assert text == (bare if target is None else target)
    return place(copies, bare, text, links, tokenizer, ids, tokenizer, said)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("Click {x} now", "Click now"),
        ("{x} Click", "Click"),
        ("Click now {x}", "Click now"),
        ("{x}{y} Click {z} {w} now", "Click now"),
        ("Click <b>now</b>.", "Click now."),
        ("({x})", "()"),
        ("{x}", ""),
        ("Click  {x}  now", "Click  now"),
    ],
)
def test_what_is_left_is_a_text_of_its_own(text: str, bare: str) -> None:
    got, copies = strip(text, find(text))
    assert got == bare and [copy.text for copy in copies] == [text[a:b] for a, b in find(text)]
    assert all(0 <= copy.at <= len(bare) for copy in copies)


@given(data=st.data())
def test_word_by_word_a_text_comes_back_as_it_was(tokenizer: Tokenizer, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))
    pieces = list(words)
    for item in data.draw(st.lists(st.sampled_from(ITEMS), max_size=4)):
        pieces.insert(data.draw(st.integers(0, len(pieces))), item)
    if len(words) > 1 and data.draw(st.booleans()):
        first = pieces.index(words[0])
        pieces[first] = f"<b>{pieces[first]}</b>"
    source = " ".join(pieces)
    placed = put_back(tokenizer, source)
    assert placed.text == source
    copies = [source[a:b] for a, b in find(source)]
    for tokens in (placed.source, placed.target):
        assert sorted(token.lstrip("▁") for token in tokens if find(token)) == sorted(copies)
        assert "".join(tokens).replace("▁", " ").split() == source.split()
    assert all(placed.source[s].strip("▁") == placed.target[t].strip("▁") for s, t in placed.links)
    assert sorted(t for _, t in placed.links) == list(range(len(placed.target)))


MOVED = ((0, 1), (1, 0))
CASES = [
    ("a {x} b", "Schnee heute", MOVED, "Schnee heute {x}"),  # with the word before it
    ("<b>a</b> b", "Schnee heute", MOVED, "Schnee <b>heute</b>"),
    ("a <i>b</i>", "Schnee heute", MOVED, "<i>Schnee</i> heute"),
    ("a <i>b {x}</i>", "Schnee heute", MOVED, "<i>Schnee {x}</i> heute"),
    ("{x}: a", "heute", ((1, 0),), "{x} heute"),  # a mark that is nobody's source
    ("a b {x}", "heute", ((0, 0),), "heute {x}"),
    ("a {x} b", "zwei Hunde", ((1, 0), (1, 1)), "zwei {x} Hunde"),  # an article laid to its noun
    ("a %s .", "heute .", ((0, 0), (1, 1)), "heute %s."),
    ("a ( {x} ) b", "zwei Hunde", ((0, 0), (3, 1)), "zwei {x} Hunde"),
    ("Click {x} now", "点 击", ((0, 0), (1, 1)), "点{x}击"),
    ("{a} {b} c", "heute", ((0, 0),), "{a} {b} heute"),
    ("c {a}{b}", "heute", ((0, 0),), "heute {a}{b}"),
    ("a {x}", "", (), "{x}"),
]


@pytest.mark.parametrize(("source", "target", "links", "text"), CASES, ids=[case[0] for case in CASES])
def test_a_copy_goes_where_its_words_went(
    tokenizer: Tokenizer, source: str, target: str, links: Links, text: str
) -> None:
    placed = put_back(tokenizer, source, target, links)
    assert placed.text.replace("点 ", "点").replace(" .", ".") == text
    found = sorted(placed.text[a:b] for a, b in find(placed.text))
    assert found == sorted(source[a:b] for a, b in find(source))


@given(data=st.data())
def test_whatever_the_alignment_says_no_copy_is_lost_or_broken(tokenizer: Tokenizer, data: st.DataObject) -> None:
    source = " ".join(data.draw(st.lists(st.sampled_from([*WORDS, *ITEMS, "<b>", "</b>"]), min_size=1, max_size=8)))
    bare, _ = strip(source, find(source))
    target = " ".join(data.draw(st.lists(st.sampled_from(WORDS), max_size=6)))
    count, length = len(tokenizer.encode(bare)), len(tokenizer.encode(target))
    links = tuple((data.draw(st.integers(0, count - 1)), t) for t in range(length)) if count else ()
    placed = put_back(tokenizer, source, target, links)
    wanted = sorted(source[a:b] for a, b in find(source))
    assert sorted(placed.text[a:b] for a, b in find(placed.text)) == wanted
    assert [word for word in placed.text.replace("<b>", " ").replace("</b>", " ").split()
            if word in WORDS] == target.split()  # fmt: skip
