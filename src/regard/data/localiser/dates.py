"""Dates and times in many written forms, each with its true alignment.

What is unusual: a text is written field by field from CLDR's pattern ("EEEE, d. MMMM y"), so where the day, the month
and the year stand in it is known, not guessed. English is written as in the United States and as in Britain; forms
whose meaning depends on which (03/04/2031) and years of two digits are left out.
What it does not know: time zones, eras, other calendars than the Gregorian.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from random import Random

from regard.data.localiser.item import Draft, Item, Span, nfc, plain

FIRST_DAY, LAST_DAY = (
    datetime.date(year, month, day).toordinal() for year, month, day in ((1900, 1, 1), (2099, 12, 31))
)
FIELDS = {
    "y": "year", "M": "month", "L": "month", "d": "day", "E": "weekday", "c": "weekday",
    "h": "hour", "H": "hour", "m": "minute", "s": "second", "a": "half",
}  # fmt: skip
"""CLDR's letters for the parts of a date and a time; `half` is AM or PM."""


@dataclass(frozen=True)
class Form:
    """One way to write a date in English (a locale, and a style or skeleton of CLDR), and how it is translated."""

    locale: str
    english: str
    translated: str


DATE_FORMS = (
    Form("en", "long", "long"),  # July 3, 2031
    Form("en_GB", "long", "long"),  # 3 July 2031
    Form("en", "yMMMd", "yMMMd"),  # Jul 3, 2031
    Form("en_GB", "yMMMd", "yMMMd"),  # 3 Jul 2031
    Form("en", "full", "full"),  # Thursday, July 3, 2031
    Form("en_GB", "full", "full"),  # Thursday, 3 July 2031
    Form("en", "yMMMEd", "yMMMEd"),  # Thu, Jul 3, 2031
    Form("en", "yMEd", "yMEd"),  # Thu, 7/3/2031
    Form("en", "yMd", "yMd"),  # 7/3/2031
    Form("en_CA", "short", "yMd"),  # 2031-07-03
)
TIMES = {
    ("en", "short"): "short",
    ("en", "medium"): "medium",
    ("en_GB", "short"): "short",
    ("en_GB", "medium"): "medium",
}
"""3:05 PM, 3:05:09 PM, 15:05, 15:05:09; the other languages write them as they do by themselves, by 24 hours."""


def draw_date(random: Random, forms: Sequence[Form] = DATE_FORMS) -> Draft:
    """A calendar day of 1900 to 2099, with its year in full, in one of the forms."""
    day, form = _day(random), random.choice(forms)
    return Draft([_name(day)], partial(_write, day, "date", form, None))


def draw_time(random: Random) -> Draft:
    """A time of day, by 12 or 24 hours, with or without seconds; its hour and minute may be held out."""
    moment, time = _moment(random, _day(random)), random.choice(list(TIMES))
    return Draft([f"time {moment:%H:%M}"], partial(_write, moment, "time", None, time))


def draw_moment(random: Random) -> Draft:
    """A date and a time."""
    moment, time = _moment(random, _day(random)), random.choice(list(TIMES))
    form = random.choice([form for form in DATE_FORMS if form.locale == time[0]])
    return Draft([_name(moment), f"time {moment:%H:%M}"], partial(_write, moment, "date and time", form, time))


def _day(random: Random) -> datetime.date:
    return datetime.date.fromordinal(random.randint(FIRST_DAY, LAST_DAY))


def _moment(random: Random, day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(
        day, datetime.time(random.randrange(24), random.randrange(60), random.randrange(60))
    )


def _name(day: datetime.date) -> str:
    return f"day {day:%Y-%m-%d}"


def _write(value: datetime.date, kind: str, form: Form | None, time: tuple[str, str] | None, to: str) -> Item:
    locale = form.locale if form else time[0] if time else ""
    source, there = write_pattern(value, _pattern(locale, form and form.english, time and time[1]), locale)
    target, here = write_pattern(value, _pattern(to, form and form.translated, time and TIMES[time]), to)
    alignment = {name: (span, here[name]) for name, span in there.items() if name in here}
    return Item(plain(source), nfc(target), to, kind, alignment)


@cache
def _pattern(locale: str, date: str | None, time: str | None) -> str:
    """CLDR's pattern for a date, a time, or both."""
    from babel import Locale

    about = Locale.parse(locale)
    styles = about.date_formats if date in about.date_formats else about.datetime_skeletons
    first = styles[date].pattern if date else ""
    second = about.time_formats[time].pattern if time else ""
    both = about.datetime_formats["medium"].replace("{1}", first).replace("{0}", second)
    return str(both if date and time else first or second)


def write_pattern(value: datetime.date, pattern: str, locale: str) -> tuple[str, dict[str, Span]]:
    """The text that a CLDR pattern makes of a date or time, and the characters [start, end) of each field in it."""
    from babel.dates import DateTimeFormat, tokenize_pattern

    fields = DateTimeFormat(value, locale)
    text, spans = "", dict[str, Span]()
    for _, piece in tokenize_pattern(pattern):
        if isinstance(piece, str):
            text += piece
            continue
        letter, width = piece
        written = fields[letter * width]
        spans[FIELDS[letter]] = (len(text), len(text) + len(written))
        text += written
    return text, spans
