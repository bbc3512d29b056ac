"""What is copied is found, whole and alone; what only looks like it is text."""

from __future__ import annotations

import time

import pytest

from regard.text.placeholders import find


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in find(text)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Hello {name}, {0} of {count:,d} and {{user.name}}", ["{name}", "{0}", "{count:,d}", "{{user.name}}"]),
        ("${total} #{x} %{y}", ["${total}", "#{x}", "%{y}"]),
        ("%s has %1$d of %(all)d, %.2f%% or %-5d, %@", ["%s", "%1$d", "%(all)d", "%.2f", "%%", "%-5d", "%@"]),
        ("See https://a.org/b_(c)?d=e&f=%20#g. Or www.a.org, or (http://b.org/x).",
         ["https://a.org/b_(c)?d=e&f=%20#g", "www.a.org", "http://b.org/x"]),
        ("mail a.b+c@d-e.co.uk, now", ["a.b+c@d-e.co.uk"]),
        ("<b>bold</b><br/> <a href='x y'>x</a>", ["<b>", "</b>", "<br/>", "<a href='x y'>", "</a>"]),
        ("请看https://a.org/x。谢谢", ["https://a.org/x"]),
        ("100% sure, 5 %discount, 3 < 4 > 2, a@b, { }, {a b}, it&apos;s, 50% of", []),
    ],
)  # fmt: skip
def test_parts(text: str, parts: list[str]) -> None:
    assert found(text) == parts


@pytest.mark.parametrize("unit", ["a", "a@", "a.", "<a ", "{", "%", "%(", "http://", "www.", "&", "-", "<a\t", "(1"])
def test_time_is_linear(unit: str) -> None:
    start = time.process_time()
    find(unit * (10**6 // len(unit)))
    assert time.process_time() - start < 5
