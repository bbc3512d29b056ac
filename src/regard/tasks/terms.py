"""What must come out of a source as it is: glossary terms, a given beginning; and what is copied, which it finds.

    Terms({"bike": "Rad"})        "Click {name} by bike."  ->  "Rad" must be in the output, and {name} is a copy

What is unusual: the search is only made to say the *tokens* of what is required (`generate.constraints`), and knows
where it did. There the text is put in as it was given, so that nothing is lost to a vocabulary that cannot write it,
to its normal form, or to a neighbour that would run into it; a space is put between where one would.
What it does not know: models, files, and where copies go (`tasks.copies`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, get_args

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.generate import Constraint, Hypothesis, Phrase
from regard.text import Tokenizer
from regard.text.placeholders import COPIED, NUMBER, find

Protect = Literal["none", "placeholders", "numbers"]
MOST_TERMS = 16
"""Required in one search; a text with more is cut."""
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "BOPOMOFO")
"""Scripts, as the names of their characters begin, whose words stand side by side."""


@dataclass(frozen=True)
class Terms:
    """What is to be looked for in a source.

    Attributes:
        glossary: source term -> target term. A term counts where it stands on its own, written just so; the longest of
            several at one place, and once however often it stands there.
        protect: copy placeholders, addresses and markup (`text.placeholders`); "numbers": and each number.
    """

    glossary: Mapping[str, str] = field(default_factory=dict)
    protect: Protect = "placeholders"

    def __post_init__(self) -> None:
        if self.protect not in get_args(Protect):
            raise ConfigError("unknown protection", where="protect", expected=" or ".join(get_args(Protect)),
                              got=self.protect)  # fmt: skip
        for source, target in self.glossary.items():
            if not source.strip() or not target.strip():
                raise ConfigError("a glossary term is empty", where="glossary", got=f"{source!r} -> {target!r}")

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        terms = sorted(self.glossary, key=lambda term: (-len(term), term))
        kinds = [] if self.protect == "none" else [COPIED]
        kinds += [f"(?P<term>{'|'.join(map(_alone, terms))})"] if terms else []
        kinds += [NUMBER] if self.protect == "numbers" else []
        return re.compile("|".join(kinds), re.VERBOSE) if kinds else None

    def _found(self, text: str) -> Iterator[re.Match[str]]:
        return self._pattern.finditer(text) if self._pattern else iter(())

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where a text must not be cut: at what is required, and at what looks as if it might be."""
        return sorted({*find(text), *(found.span() for found in self._found(text))})

    def required(self, text: str) -> list[str]:
        """The target terms that must be in an output of this source."""
        found = self._found(text) if self.glossary else ()
        return list(dict.fromkeys(self.glossary[one[0]] for one in found if one["term"]))

    def copied(self, text: str) -> list[tuple[int, int]]:
        """Where what is copied stands in a text, in order and apart."""
        return [one.span() for one in self._found(text) if not self.glossary or not one["term"]]

    def lacks(self, text: str, copies: Sequence[str]) -> bool:
        """A translation has some of them not as often as they are in this list."""
        there = Counter(text[start:end] for start, end in self.copied(text))
        return not Counter(copies) <= there


def _alone(term: str) -> str:
    """A pattern of the term where no letter goes on that it begins or ends with, and no digit."""
    barred = {"letter": r"[^\W\d_]", "digit": r"\d", "": None}
    before, after = barred[_kind(term[0])], barred[_kind(term[-1])]
    return (f"(?<!{before})" if before else "") + re.escape(term) + (f"(?!{after})" if after else "")


def _kind(char: str) -> str:
    """What runs together with its like: letters of spaced scripts, and digits."""
    if char.isdecimal():
        return "digit"
    letter = unicodedata.category(char)[0] in "LM"
    return "letter" if letter and not unicodedata.name(char, "").startswith(UNSPACED) else ""


@dataclass(frozen=True)
class Demand:
    """What the outputs of one source must keep to, as text and as tokens."""

    prefix: str
    texts: tuple[str, ...]
    """Of the constraint's phrases."""
    constraint: Constraint

    def written(self, tokenizer: Tokenizer, found: Hypothesis) -> str:
        """The text of an output, with what was required exactly as it was given."""
        text, at, required = self.prefix, len(self.constraint.prefix), ""
        for phrase, start, end in found.met:
            text = _followed(text, required, _between(tokenizer, found.ids, at, start))
            said, required, at = _between(tokenizer, found.ids, start, end), self.texts[phrase], end
            apart = text and not text[-1].isspace() and (said[:1].isspace() or not _stands(text, required, ""))
            text += (" " if apart else "") + required
        return _followed(text, required, _between(tokenizer, found.ids, at, len(found.ids)))


def demand(tokenizer: Tokenizer, required: Sequence[str], *, prefix: str = "", no_repeat_ngram: int = 0) -> Demand:
    """A demand for these texts; what the prefix holds already is not required again."""
    held, missing = Counter({text: prefix.count(text) for text in set(required)}), list[str]()
    for text in required:
        held[text] -= 1
        missing += [text] if held[text] < 0 else []
    phrases = {text: _phrase(tokenizer, text) for text in missing}
    texts = [text for text in missing if phrases[text].forms]
    beginning = tuple(tokenizer.encode(prefix)) if prefix else ()
    constraint = Constraint(beginning, tuple(phrases[text] for text in texts), no_repeat_ngram)
    return Demand(prefix, tuple(texts), constraint)


def _phrase(tokenizer: Tokenizer, text: str) -> Phrase:
    """The text after a space, and without one where it would not run into what is before it."""
    spaced, glued = (_inside(tokenizer, space + text) for space in (" ", ""))
    forms = tuple(dict.fromkeys(form for form in (spaced, glued) if form))
    starts, ends = _edges(tokenizer)
    after = starts.get(_kind(text[-1]))
    return Phrase(forms, not_after=ends.get(_kind(text[0]), frozenset()), not_before=after)


def _inside(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The ids of a text inside another one; a full stop is a word of its own."""
    stop = tokenizer.encode(".")
    return tuple(tokenizer.encode("." + text)[len(stop) :])


@lru_cache(maxsize=4)
def _edges(tokenizer: Tokenizer) -> tuple[dict[str, Tensor], dict[str, frozenset[int]]]:
    """The tokens that a phrase ending in a letter or digit must not be followed by, and those one must not begin after.

    These start or end with another one. A word does not follow a comma without a space either; in a number a digit may.
    """
    specials = {*tokenizer.specials}
    pieces = ["" if piece in specials else piece for piece in tokenizer.tokens(range(tokenizer.vocab_size))]
    starts, ends = ([_kind(piece[edge]) if piece else "" for piece in pieces] for edge in (0, -1))
    ends = ["letter" if piece.endswith(tuple(".,;:!?…")) else end for piece, end in zip(pieces, ends, strict=True)]
    return (
        {
            kind: torch.tensor([i for i, own in enumerate(starts) if own == kind], dtype=torch.long)
            for kind in ("letter", "digit")
        },
        {kind: frozenset(i for i, own in enumerate(ends) if own == kind) for kind in ("letter", "digit")},
    )


def _between(tokenizer: Tokenizer, ids: Sequence[int], start: int, end: int) -> str:
    """What the tokens from `start` to `end` add to the text of those before them, on one line."""
    text, whole = tokenizer.decode(ids[:start]), tokenizer.decode(ids[:end])
    added = whole[len(text) :] if whole.startswith(text) else tokenizer.decode(ids[start:end])
    return re.sub(r"[\r\n]+", " ", added)


def _followed(text: str, required: str, rest: str) -> str:
    """The text, which ends with what is required (or nothing is), and the rest after it."""
    return text + ("" if not required or _stands("", required, rest) else " ") + rest


def _stands(before: str, required: str, after: str) -> bool:
    """Whether what is required would be read as itself between these."""
    return not (_run_together(before, required) or _run_together(required, after))


def _run_together(one: str, two: str) -> bool:
    return bool(one and two and _kind(one[-1]) and _kind(one[-1]) == _kind(two[0]))
