"""Numbers and ordinals in words, and the names of countries, languages and currencies.

What is unusual: nobody can guess that Hungary is Ungarn, so every name is in the training part by itself, and what is
held out is only how names are put together: a list of two or three that no training item has. A score on names says
that they were learned and are put together rightly, not that an unseen one is translated.
What it does not know: genders and cases; German ordinals are in the weak form (dritte).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache, partial
from random import Random
from typing import Literal, get_args

from regard.data.localiser.amounts import currencies, number_values
from regard.data.localiser.chinese import chinese_cardinal
from regard.data.localiser.item import TARGETS, Draft, Item, nfc, plain

Sort = Literal["territories", "languages", "currencies"]
Join = Literal["standard", "or"]
AMBIGUOUS = {"na", "tvl"}
"""Languages that English calls by the name of their country: Nauru, Tuvalu."""


def draw_cardinal(random: Random) -> Draft:
    """A whole number below a hundred thousand, in words; each length as often."""
    number = random.randrange(10 ** random.randint(1, 5))
    return Draft(number_values(Decimal(number)), partial(_cardinal, number))


def _cardinal(number: int, to: str) -> Item:
    return Item(plain(_words("en", number)), nfc(_words(to, number)), to, "number")


def draw_ordinal(random: Random) -> Draft:
    """An ordinal below ten thousand, in words or with digits: 23rd."""
    number, digits = random.randrange(1, 10 ** random.randint(1, 4)), random.random() < 0.5
    return Draft(number_values(Decimal(number)), partial(_ordinal, number, digits))


def _ordinal(number: int, digits: bool, to: str) -> Item:
    write = _ordinal_digits if digits else _ordinal_words
    return Item(plain(write("en", number)), nfc(write(to, number)), to, "ordinal")


def _words(language: str, number: int) -> str:
    from num2words import num2words

    return chinese_cardinal(number) if language == "zh" else str(num2words(number, lang=language))


def _ordinal_words(language: str, number: int) -> str:
    from num2words import num2words

    if language == "zh":
        return "第" + chinese_cardinal(number)
    words = str(num2words(number, lang=language, to="ordinal"))
    # num2words 0.5 keeps the plural's s: quatre-vingtsième, deux centsième
    return words.replace("tsième", "tième") if language == "fr" else words


def _ordinal_digits(language: str, number: int) -> str:
    from num2words import num2words

    match language:
        case "zh":
            return f"第{number}"
        case "fr":
            return "1er" if number == 1 else f"{number}e"
    return str(num2words(number, lang=language, to="ordinal_num"))


def draw_names(random: Random) -> Draft:
    """A list of two or three names of one sort, joined by "and" or "or"."""
    sort, style = random.choice(get_args(Sort)), random.choice(get_args(Join))
    chosen = random.sample(names(sort), random.randint(2, 3))
    return Draft([f"names {style} {' '.join(chosen)}"], partial(_names, sort, style, chosen))


def bare_names() -> list[Item]:
    """Every name by itself, in every language."""
    return [_names(sort, "standard", [name], to) for sort in get_args(Sort) for name in names(sort) for to in TARGETS]


@cache
def names(sort: Sort) -> list[str]:
    """Codes of the territories, their official languages or the currencies in use, those that all languages name."""
    from babel import Locale

    every = [getattr(Locale(locale), sort) for locale in ("en", *TARGETS)]
    return sorted(code for code in _codes(sort) if all(code in known for known in every))


def _codes(sort: Sort) -> Iterable[str]:
    from babel.core import get_global
    from babel.languages import get_official_languages

    if sort == "currencies":
        return currencies()[1]
    territories = get_global("territory_languages").keys() - {"ZZ"}  # unknown
    if sort == "territories":
        return territories
    official = {code for place in territories for code in get_official_languages(place, regional=False, de_facto=True)}
    return official - AMBIGUOUS


def _names(sort: Sort, style: Join, codes: Sequence[str], to: str) -> Item:
    from babel import Locale
    from babel.lists import format_list

    source, target = (
        format_list([str(getattr(Locale(locale), sort)[code]) for code in codes], style=style, locale=locale)
        for locale in ("en", to)
    )
    return Item(plain(source), nfc(target), to, "names")
