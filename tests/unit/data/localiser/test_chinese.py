"""Chinese number words: known cases, and a reader of its own that must read back what was written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.data.localiser.chinese import LIMIT, chinese_cardinal

KNOWN = {
    0: "零", 2: "二", 10: "十", 11: "十一", 20: "二十", 100: "一百", 101: "一百零一", 110: "一百一十",
    111: "一百一十一", 200: "二百", 1000: "一千", 1001: "一千零一",
    1010: "一千零一十", 2002: "二千零二", 10000: "一万", 10001: "一万零一",
    10100: "一万零一百", 11000: "一万一千", 100000: "十万", 100010: "十万零一十", 101000: "十万一千", 110000: "十一万",
    10000000: "一千万", 100000000: "一亿", 100000001: "一亿零一", 100001000: "一亿零一千", 100010000: "一亿零一万",
    1010000001: "十亿一千万零一", 10**12: "一万亿", 10**12 + 1: "一万亿零一",
}  # fmt: skip


def read(words: str) -> int:
    """What the words say: digits and places add up within a group, groups add up."""
    total = group = digit = 0
    for word in words:
        if word in "零一二三四五六七八九":
            digit = "零一二三四五六七八九".index(word)
        elif word in "十百千":
            group += (digit or 1) * 10 ** ("十百千".index(word) + 1)
            digit = 0
        elif word == "万":
            total, group, digit = total + (group + digit) * 10**4, 0, 0
        else:  # what is already there is so many 亿, also when it was so many 万
            total, group, digit = (total + group + digit) * 10**8, 0, 0
    return total + group + digit


@pytest.mark.parametrize("number", KNOWN)
def test_known_numbers(number: int) -> None:
    assert chinese_cardinal(number) == KNOWN[number]


@given(st.integers(0, 10**12 - 1))
@example(10**12 - 1)
def test_what_is_written_reads_back(number: int) -> None:
    words = chinese_cardinal(number)
    assert read(words) == number
    assert "零零" not in words and "两" not in words and (number == 0 or not words.endswith("零"))


@pytest.mark.parametrize("number", [-1, LIMIT])
def test_what_has_no_words_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        chinese_cardinal(number)
