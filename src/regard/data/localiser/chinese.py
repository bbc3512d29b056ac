"""Chinese number words: 10100 is 一万零一百.

What is unusual: of the usages that there are, one: two is always 二, as in written sums, never 两; ten is 十 at the
very start of a number and 一十 inside one (一百一十). Zeros at the end of a group of four digits are not said; any
others are one 零 together, however many they are: 十万一千, but 一万零一百 and 一亿零一.
What it does not know: other languages, negative numbers, fractions.
"""

from __future__ import annotations

DIGITS = "零一二三四五六七八九"
PLACES = ("千", "百", "十", "")
GROUPS = ("", "万", "亿", "万亿")
"""Of four digits each, from the right."""
LIMIT = 10 ** (4 * len(GROUPS))


def chinese_cardinal(number: int) -> str:
    """The number in words.

    Raises:
        ValueError: it is negative, or 10^16 or more.
    """
    if not 0 <= number < LIMIT:
        raise ValueError(f"a number from 0 to 10^16 - 1 is needed, not {number}")
    digits = f"{number:0{4 * len(GROUPS)}}"
    words, gap = "", False
    for i, group in enumerate(reversed(GROUPS)):
        four = digits[4 * i : 4 * i + 4]
        for digit, place in zip(four, PLACES, strict=True):
            if digit == "0":
                gap = True
                continue
            words += ("零" if gap and words else "") + DIGITS[int(digit)] + place
            gap = False
        if int(four):
            words, gap = words + group, False
    return words.removeprefix("一") if words.startswith("一十") else words or DIGITS[0]
