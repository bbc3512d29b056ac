"""Amounts of money, quantities with units, and durations.

What is unusual: a number is held out as such: 1,234.5 held out is in no training item, whatever it counts. Whole
numbers below a hundred are never held out; there are too few of them to do without. So a held-out duration of several
parts (3 hours and 25 minutes) is one whose combination is unseen.
What it does not know: how plurals are formed (CLDR's rules do, in Babel).
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from functools import cache, partial
from random import Random
from typing import Literal, get_args

from regard.data.localiser.item import Draft, Item, nfc, plain

Length = Literal["long", "short"]
Step = Literal["day", "hour", "minute"]
UNITS = (
    "length-kilometer", "length-meter", "length-centimeter", "length-millimeter", "length-mile", "length-foot",
    "length-inch", "area-square-kilometer", "area-square-meter", "area-hectare", "mass-tonne", "mass-kilogram",
    "mass-gram", "mass-milligram", "mass-pound", "volume-liter", "volume-milliliter", "volume-cubic-meter",
    "temperature-celsius", "temperature-fahrenheit", "speed-kilometer-per-hour", "speed-meter-per-second",
    "speed-mile-per-hour", "power-kilowatt", "power-megawatt", "energy-kilowatt-hour", "energy-kilocalorie",
    "electric-volt", "frequency-megahertz", "digital-gigabyte", "digital-megabyte", "pressure-hectopascal",
    "consumption-liter-per-100-kilometer",
)  # fmt: skip
PERIODS = {"year": 99, "month": 11, "week": 4, "day": 6, "hour": 23, "minute": 59, "second": 59}
"""Units of time, and how many of one there may be beside another."""
NOTATIONS = {"symbol": 2, "code": 1, "name": 4, "accounting": 1, "compact": 2}
"""Ways to write an amount, with how often; a name is one of 150, each with its plural, and the rest is rules."""


def number_values(number: Decimal) -> list[str]:
    """The names by which a number may be held out."""
    whole = number == number.to_integral_value()
    return [] if whole and abs(number) < 100 else [f"number {abs(number).normalize():f}"]


def draw_number(random: Random, places: int) -> Decimal:
    """A positive number of up to six digits before the point and `places` after it; each length as often."""
    digits, after = random.randint(1, 6), random.randint(0, places)
    return max(Decimal(1), Decimal(random.randrange(10 ** (digits + after))).scaleb(-after))


def draw_money(random: Random) -> Draft:
    """An amount in a currency that is legal tender somewhere: by symbol, code or name, negative, or short ($1.2M)."""
    from babel.numbers import get_currency_precision

    notation = random.choices(list(NOTATIONS), list(NOTATIONS.values()))[0]
    with_symbol, every = currencies()
    code = random.choice(every if notation in ("code", "name") else with_symbol)
    if notation == "compact":
        number = Decimal(random.randint(10, 9999)).scaleb(random.choice((5, 8)))
    else:
        number = draw_number(random, get_currency_precision(code))
    return Draft(number_values(number), partial(_money, number, code, notation))


@cache
def currencies() -> tuple[list[str], list[str]]:
    """Codes of currencies: those that English has a symbol for, and all that are legal tender somewhere today."""
    from babel import Locale
    from babel.core import get_global
    from babel.numbers import get_territory_currencies

    every = sorted({code for place in get_global("territory_currencies") for code in get_territory_currencies(place)})
    symbols = Locale("en").currency_symbols
    return [code for code in every if symbols.get(code, code) != code], every


def _money(number: Decimal, code: str, notation: str, to: str) -> Item:
    source, target = (_amount(number, code, notation, locale) for locale in ("en", to))
    return Item(plain(source), nfc(target), to, "money")


def _amount(number: Decimal, code: str, notation: str, locale: str) -> str:
    from babel import Locale
    from babel.numbers import format_compact_currency, format_currency

    if notation == "compact":
        return format_compact_currency(number, code, locale=locale, fraction_digits=3)
    if notation == "name":
        return format_currency(number, code, locale=locale, format_type="name")
    if notation == "accounting":
        return format_currency(-number, code, locale=locale, format_type="accounting")
    pattern = Locale(locale).currency_formats["standard"].pattern
    if notation == "code":  # CLDR's alphaNextToNumber: a code is set apart from the number
        pattern = pattern.replace("¤", "¤¤\u00a0" if pattern.startswith("¤") else "¤¤")
    return format_currency(number, code, pattern, locale=locale)


def draw_quantity(random: Random) -> Draft:
    """A number with a unit, written out or abbreviated, or a percentage."""
    number, unit, length = draw_number(random, 2), random.choice(("percent", *UNITS)), random.choice(get_args(Length))
    return Draft(number_values(number), partial(_quantity, number, unit, length))


def _quantity(number: Decimal, unit: str, length: Length, to: str) -> Item:
    source, target = (_measure(number, unit, length, locale) for locale in ("en", to))
    return Item(plain(source), nfc(target), to, "quantity")


def _measure(number: Decimal, unit: str, length: Length, locale: str) -> str:
    from babel.numbers import format_percent
    from babel.units import format_unit

    if unit == "percent":
        return format_percent(number / 100, locale=locale, decimal_quantization=False)
    return format_unit(number, unit, length, locale=locale)


def draw_duration(random: Random) -> Draft:
    """A length of time in one to three units, or a time from now, before or after."""
    if random.random() < 0.4:
        count, unit, sign = random.randint(1, 999), random.choice(get_args(Step)), random.choice((1, -1))
        return Draft(number_values(Decimal(count)), partial(_from_now, count, unit, sign))
    first, how_many = random.randrange(len(PERIODS)), random.randint(1, 3)
    units = list(PERIODS)[first : first + how_many]
    counts = [random.randint(1, PERIODS[unit] if len(units) > 1 else 999) for unit in units]
    values = [f"duration {counts} {units}"] if len(units) > 1 else number_values(Decimal(counts[0]))
    return Draft(values, partial(_duration, counts, units, random.choice(get_args(Length))))


def _duration(counts: list[int], units: list[str], length: Length, to: str) -> Item:
    from babel.lists import format_list
    from babel.units import format_unit

    source, target = (
        format_list(
            [
                format_unit(count, f"duration-{unit}", length, locale=locale)
                for count, unit in zip(counts, units, strict=True)
            ],
            locale=locale,
        )
        for locale in ("en", to)
    )
    return Item(plain(source), nfc(target), to, "duration")


def _from_now(count: int, unit: Step, sign: int, to: str) -> Item:
    from babel.dates import format_timedelta

    delta = sign * datetime.timedelta(**{f"{unit}s": count})
    source, target = (
        # a threshold that nothing reaches keeps the unit: 90 minutes stay minutes
        format_timedelta(delta, granularity=unit, threshold=1e9, add_direction=True, locale=locale)
        for locale in ("en", to)
    )
    return Item(plain(source), nfc(target), to, "duration")
