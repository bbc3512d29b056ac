"""Training pairs that are not quite the same in every epoch: other letter cases, no final mark, other pieces.

    A man rides a bicycle.    Ein Mann fährt Fahrrad.
    A MAN RIDES A BICYCLE.    EIN MANN FÄHRT FAHRRAD.        a share `augment` of the pairs takes
    A Man Rides A Bicycle.    Ein Mann Fährt Fahrrad.        one of these forms, each equally often
    A man rides a bicycle     Ein Mann fährt Fahrrad

What is unusual: what becomes of a pair is a function of (seed, epoch, pair) alone, so a resumed run sees the same
(law 23), and there is no state. A model that has met captions only would take a headline for a string of rare letters.
What it does not know: batches, models; development texts never pass through here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from regard.text import Tokenizer
from regard.text.dropout import BpeDropout

FINAL_MARK = re.compile(r"\s*[.!?。！？]$")
WORD_START = re.compile(r"(?<![\w'’])[^\W\d_]")


def vary(source: str, target: str, share: float, random: Random) -> tuple[str, str]:
    """A pair, which with probability `share` takes another form; what has no case can only lose its final marks.

    Both sides change together, so that the model learns to answer capitals with capitals.
    """
    if random.random() >= share:
        return source, target
    form = random.choice((_upper, _title, _bare)) if source.upper() != source.lower() else _bare
    return form(source, target)


def _upper(source: str, target: str) -> tuple[str, str]:
    return source.upper(), target.upper()


def _title(source: str, target: str) -> tuple[str, str]:
    return WORD_START.sub(_capital, source), WORD_START.sub(_capital, target)


def _capital(letter: re.Match[str]) -> str:
    return letter[0].title()


def _bare(source: str, target: str) -> tuple[str, str]:
    bare = FINAL_MARK.sub("", source), FINAL_MARK.sub("", target)
    return bare if bare[0] != source and bare[1] != target else (source, target)


@dataclass(frozen=True)
class Variation:
    """N training pairs as ids, anew in each epoch.

    Attributes:
        source, target: N texts each.
        target_tokenizer: of the targets; the same one, unless there are two vocabularies.
        prefixes: the ids before each source's own (`tasks.prefix`).
        plain: the ids of all sources and targets as they are, prefixes included; they stand in for a form that would
            be longer than `max_len` with its end.
        augment: the share of pairs that take another form.
        dropout: cuts sources and targets into pieces, or None for the tokenizers' own ones.
    """

    tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source: Sequence[str]
    target: Sequence[str]
    prefixes: Sequence[list[int]]
    plain: tuple[Sequence[list[int]], Sequence[list[int]]]
    seed: int
    max_len: int
    augment: float = 0.0
    dropout: tuple[BpeDropout, BpeDropout] | None = None

    def ids(self, rows: Sequence[int], epoch: int) -> tuple[list[list[int]], list[list[int]]]:
        """The sources and targets of some pairs in one epoch, as ids without control tokens."""
        pairs = [self._pair(i, epoch) for i in rows]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def _pair(self, row: int, epoch: int) -> tuple[list[int], list[int]]:
        random = Random(f"{self.seed} {epoch} {row}")
        source, target = vary(self.source[row], self.target[row], self.augment, random)
        if self.dropout is None and (source, target) == (self.source[row], self.target[row]):
            return self.plain[0][row], self.plain[1][row]
        if self.dropout is None:
            pieces = self.tokenizer.encode(source), self.target_tokenizer.encode(target)
        else:
            pieces = self.dropout[0].encode(source, random), self.dropout[1].encode(target, random)
        ids = self.prefixes[row] + pieces[0], pieces[1]
        return ids if max(map(len, ids)) < self.max_len else (self.plain[0][row], self.plain[1][row])
