"""The whole of the localiser's data: three parts without a value in common, from a seed, and as files.

What is unusual: the test has the same number of items of each kind in each language, to one; the training part has
more of the kinds with more to learn.
What it does not know: how the kinds are drawn and written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random

from regard.data.localiser import amounts, dates, words
from regard.data.localiser.item import TARGETS, Draft, Item, Part, part_of
from regard.errors import MissingExtraError

KINDS: Mapping[str, tuple[Callable[[Random], Draft], float]] = {
    "date": (dates.draw_date, 2.5),
    "time": (dates.draw_time, 1.0),
    "date and time": (dates.draw_moment, 1.5),
    "money": (amounts.draw_money, 6.0),
    "quantity": (amounts.draw_quantity, 2.5),
    "duration": (amounts.draw_duration, 1.0),
    "names": (words.draw_names, 3.0),
    "ordinal": (words.draw_ordinal, 1.5),
    "number": (words.draw_cardinal, 2.0),
}
"""How each kind is drawn, and its share of the training items."""

SIZES: Mapping[Part, int] = {"train": 60_000, "dev": 500, "test": 500}
"""Items of each part; the names by themselves come on top of train."""


def make_items(part: Part, seed: int) -> list[Item]:
    """The items of one part; the same seed gives the same items, and parts without a value in common.

    Raises:
        MissingExtraError: Babel or num2words is absent.
    """
    for package, module in (("Babel", "babel"), ("num2words", "num2words")):
        if find_spec(module) is None:
            raise MissingExtraError(package, "demo", "the demo's data")
    random, even = Random(f"{seed} {part}"), 1 / len(KINDS)
    shares = [share if part == "train" else even for _, share in KINDS.values()]
    items = words.bare_names() if part == "train" else []
    for kind, count in zip(KINDS, _counts(SIZES[part], shares), strict=True):
        items += _draw(kind, part, count, random, seed)
    random.shuffle(items)
    return items


def same_date(seed: int) -> list[Item]:
    """A calendar day of the test part as English writes it in full (July 23, 2031), in every language.

    It is one after the twelfth, which no month can be taken for.
    """
    random = Random(f"{seed} date")
    while True:
        draft = dates.draw_date(random, dates.DATE_FORMS[:1])
        if part_of(draft.values, seed) == "test" and int(draft.values[0][-2:]) > 12:
            return [draft.write(to) for to in TARGETS]


def _counts(total: int, shares: Sequence[float]) -> list[int]:
    """The total dealt out by shares, rounded so that nothing is lost."""
    ends = [round(total * end / sum(shares)) for end in accumulate(shares, initial=0)]
    return [end - start for start, end in pairwise(ends)]


def _draw(kind: str, part: Part, count: int, random: Random, seed: int) -> list[Item]:
    """So many items of a part, all different, the languages in turn."""
    draw, _ = KINDS[kind]
    items = dict[tuple[str, str], Item]()
    while len(items) < count:
        draft = draw(random)
        if part_of(draft.values, seed) == part:
            item = draft.write(TARGETS[len(items) % len(TARGETS)])
            items.setdefault((item.source, item.to), item)
    return list(items.values())


def write_items(items: Iterable[Item], path: Path) -> None:
    """A TSV file with a header: source, target, target_language, kind."""
    rows = ((item.source, item.target, item.to, item.kind) for item in items)
    lines = ["\t".join(row) for row in (("source", "target", "target_language", "kind"), *rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
