"""The demo's data source: dates, times, amounts, durations, names and number words, English to German, French, Chinese.

    items = make_items("train", seed=1)       # or "dev", or "test": a list of `Item`
    write_items(items, Path("train.tsv"))     # source, target, target_language, kind, with a header

What it is: every text is written by CLDR's own rules, which the library Babel carries (extra `demo`), and number words
by num2words and, for Chinese, by `chinese`. So each source has exactly one right translation, and dates come with
their true alignment, taken from the patterns that wrote them.
What is unusual: the parts share no value. Which part a calendar day, a time or a number belongs to is a hash of the
value itself, so a day of the test is in no training item, in no form and no language.
What it does not know: tokens, models, training.
"""

from regard.data.localiser.corpus import KINDS, make_items, same_date, write_items
from regard.data.localiser.item import TARGETS, Item

__all__ = ["KINDS", "TARGETS", "Item", "make_items", "same_date", "write_items"]
