"""A text in capitals and the same in small letters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.capitals import capitals, in_capitals, small
from regard.text.placeholders import find


@pytest.mark.parametrize(
    ("text", "loud"),
    [
        ("A MAN RIDES.", True),
        ("ÜBER DEN WOLKEN", True),
        ("WIR SIND 3 {name} <b>HIER</b>", True),
        ("ЧЕЛОВЕК ЕДЕТ", True),
        ("NATO", False),
        ("A B C", False),
        ("A MAN rides", False),
        ("Two dogs", False),
        ("你好 世界", False),
        ("12 34", False),
        ("", False),
    ],
)
def test_in_capitals(text: str, loud: bool) -> None:
    assert in_capitals(text, find(text)) is loud


NAMES = {"Tom", "Hund", "NASA"}


def pieces(words: Sequence[str]) -> list[int]:
    """Of a vocabulary that knows these names, and all words in small letters, whole."""
    return [1 if word in NAMES or (word == word.lower() and word.capitalize() not in NAMES) else 3 for word in words]


@pytest.mark.parametrize(
    ("text", "lowered"),
    [
        ("A MAN RIDES. I KNOW", "A man rides. I know"),
        ("{NAME} IS HERE", "{NAME} Is here"),
        ("<B>TWO DOGS</B>", "<B>Two dogs</B>"),
        ("3 DOGS %s", "3 Dogs %s"),
        ("I'M ÄRGERLICH", "I'm ärgerlich"),
        ("MY NAME IS TOM", "My name is Tom"),
        ("DER HUND BELLT {TOM}", "Der Hund bellt {TOM}"),
        ("WE ARE NASA", "We are nasa"),
    ],
)
def test_small(text: str, lowered: str) -> None:
    assert small(text, pieces, find(text)) == lowered


@given(st.text(alphabet="abÄß Iı{}<>%s.1你", max_size=30))
def test_what_is_kept_is_kept(text: str) -> None:
    spans = find(text)
    for changed in (small(text, pieces, spans), capitals(text, spans)):
        assert [text[a:b] for a, b in spans] == [changed[a:b] for a, b in spans] or len(changed) != len(text)
    assert not any(char.islower() for char in capitals(text)) or "ı" in text
