"""From one table of pairs to the files of a translator that goes both ways, chosen by a language token.

    train.tsv  dev.tsv                      both directions, with the columns source, target, target_language
    test.en-zh.tsv  test.zh-en.tsv          one direction each

What is unusual: pairs that share a text on either side, directly or through others, stay on one side of the split
(`split_dev`), so no test sentence of either language was seen in training. The same table gives the same files.
What it does not know: which languages these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.data import Pairs, clean, read_pairs, split_dev
from regard.data.places import find_data
from regard.hub.atomic import write_text_atomic

SEED = 1
"""Of the split: a run's seed must not change what is held out."""
HEADER = "source\ttarget\ttarget_language\n"


@dataclass(frozen=True, kw_only=True)
class BothWays:
    """A table to be made into such files.

    Attributes:
        table: its name, for `find_data`; the two languages are its first two columns, without a header.
        languages: their codes.
        held_out: how many pairs the development set and the test set have, at most (see `split_dev`).
    """

    kind: ClassVar[str] = "both-ways"
    table: str
    languages: tuple[str, str]
    held_out: int = 1_000

    def write(self, folder: Path) -> None:
        """Put the four files into `folder`, which is made; raises DataError where the table is absent or bad."""
        pairs = clean(read_pairs([find_data(self.table)], columns=("1", "2")))
        rest, test = split_dev(pairs, seed=SEED, fraction=1, at_most=self.held_out)
        train, dev = split_dev(rest, seed=SEED, fraction=1, at_most=self.held_out)
        one, two = self.languages
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("train", self._there(train) + self._back(train)),
            ("dev", self._there(dev) + self._back(dev)),
            (f"test.{one}-{two}", self._there(test)),
            (f"test.{two}-{one}", self._back(test)),
        ):
            write_text_atomic(folder / f"{name}.tsv", HEADER + text)

    def _there(self, pairs: Pairs) -> str:
        return "".join(f"{s}\t{t}\t{self.languages[1]}\n" for s, t in zip(pairs.source, pairs.target, strict=True))

    def _back(self, pairs: Pairs) -> str:
        return "".join(f"{t}\t{s}\t{self.languages[0]}\n" for s, t in zip(pairs.source, pairs.target, strict=True))
