"""What a translation must copy, put where it belongs: placeholders, addresses, markup, numbers on request.

    Click <b>{name}</b> now.            the source
    Click now.                          is translated without them,      Klicken Sie jetzt.
    0     1                             and the alignment says where     0       0   1
    Klicken Sie <b>{name}</b> jetzt.    they go

What is unusual: nothing is asked of the model. One that has never met a `{name}` would, if it were made to say one, say
it anywhere, and lose its thread after it. So a translation stands as it is if it has all copies; else the source is
translated without them, and each goes behind the words that the word before it was translated to, or before those of
the word after it if it opens something. White space beside it is that of the source, as far as the neighbours agree.
What it does not know: models, how anything is searched, and what is to be copied (`tasks.terms`).

Shapes: S source tokens, T target tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from regard.text import Tokenizer

Links = tuple[tuple[int, int], ...]
"""(source token, target token) for each target token."""
_TAG = re.compile(r"<(/?)\s*([\w:.\-]+)[^<>]*?(/?)>")
OPENING, CLOSING = "([{<“„«‚‘¿¡", ".,;:!?)]}>”»’…%"
"""What stands close to what comes after it, or before it."""


@dataclass(frozen=True)
class Copy:
    """A piece of a source that must be copied.

    Attributes:
        text: as it is.
        at: how many characters of the bare source stand before it.
        left, right: the characters beside it in the source; empty at an end.
    """

    text: str
    at: int
    left: str
    right: str

    @property
    def opens(self) -> bool:
        """It belongs to what follows: markup that begins, or whatever begins a text."""
        tag = _TAG.fullmatch(self.text)
        return (not tag[1] and not tag[3]) if tag else self.at == 0


def strip(text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, list[Copy]]:
    """The text without these pieces, in order and apart, and without the white space that two words had around them."""
    bare, copies, after = "", list[Copy](), 0
    for start, end in spans:
        bare = _go_on(bare, text[after:start])
        copies.append(Copy(text[start:end], len(bare.rstrip()), text[:start][-1:], text[end : end + 1]))
        after = end
    return _go_on(bare, text[after:]).rstrip(), copies


def _go_on(bare: str, rest: str) -> str:
    return bare + (rest.lstrip() if not bare or bare[-1].isspace() else rest)


def is_bare(text: str) -> bool:
    """There is nothing to translate in it."""
    return not any(unicodedata.category(char)[0] in "LN" for char in text)


@dataclass(frozen=True)
class Placed:
    """A translation with its copies, and what tokens it is of, the copies among them.

    Attributes:
        source, target: tokens, in both of which each copy is one.
    """

    text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links


def place(
    copies: Sequence[Copy], bare: str, text: str, links: Links, tokenizer: Tokenizer, ids: Sequence[int],
    writes: Tokenizer, said: Sequence[int], given: int = 0,
) -> Placed:  # fmt: skip
    """Put the copies of a source into the translation of its bare text.

    Args:
        copies, bare: from `strip`.
        text: the translation of `bare`.  links: its alignment.
        tokenizer, ids: of `bare`, (S,).  writes, said: of `text`, (T,).
        given: how many characters the text begins with that are not to be parted.
    """
    words = _Words(bare, tokenizer, len(ids))
    found = [_gap(copy, words, links, len(said)) for copy in copies]
    gaps, back = _in_order(copies, [gap for gap, _ in found]), [back for _, back in found]
    order = sorted(range(len(copies)), key=lambda i: gaps[i])
    done, rest, cut, spaces = text[:given], text[given:], given, [(False, False)] * len(copies)
    for i in order:
        at = max(cut, _character(writes, said, gaps[i], text, back=back[i]))
        rest, head = text[at:].lstrip(), (done + text[cut:at]).rstrip()
        head = head if len(head) >= given else text[:given]
        spaces[i] = _spaces(head, copies[i], rest)
        done, cut = f"{head}{' ' * spaces[i][0]}{copies[i].text}{' ' * spaces[i][1]}", len(text) - len(rest)
    stood = [words.before(copy.at) for copy in copies]
    stand = [(not copy.left.strip(), not copy.right.strip()) for copy in copies]
    source, s_places = _with_copies(tokenizer.tokens(ids), copies, stood, stand, range(len(copies)))
    target, t_places = _with_copies(writes.tokens(said), copies, gaps, spaces, order)
    both = [(s_places[0][s], t_places[0][t]) for s, t in links] + list(zip(s_places[1], t_places[1], strict=True))
    return Placed(done + rest, source, target, tuple(sorted(both, key=lambda link: link[::-1])))


class _Words:
    """Which tokens of a bare source its words, and its marks, have."""

    def __init__(self, bare: str, tokenizer: Tokenizer, count: int) -> None:
        ends = [(word.start(), word.end()) for word in re.finditer(r"\w+|[^\w\s]+", bare)]
        counts = [len(ids) for ids in tokenizer.encode_batch([bare[:end] for _, end in ends])]
        self.ends = [(start, end, min(count, n)) for (start, end), n in zip(ends, counts, strict=True)]

    def before(self, at: int) -> int:
        """How many tokens stand before a character."""
        return max((n for _, end, n in self.ends if end <= at), default=0)

    def beside(self, at: int) -> tuple[range, range]:
        """The tokens of the word that ends at or before a character, and those of the one after it."""
        last, first = 0, 0
        previous, following = range(0), range(0)
        for start, _, n in self.ends:
            if start < at:
                previous, last = range(first, n), n
            else:
                following = range(last, n)
                break
            first = n
        return previous, following


def _gap(copy: Copy, words: _Words, links: Links, length: int) -> tuple[int, bool]:
    """How many target tokens go before a copy, 0 .. T, and whether it stands at the beginning of a word."""
    previous, following = words.beside(copy.at)
    after = [t + 1 for s, t in links if s in previous]
    before = [t for s, t in links if s in following]
    if after and before:  # words beside one another there too, if there are such
        end, begin = min(((a, b) for a in after for b in before), key=lambda pair: (abs(pair[0] - pair[1]), pair))
        return (begin, True) if copy.opens else (end, False)
    if copy.opens and (before or not copy.at):
        return min(before, default=0), True
    if after:
        return max(after), False
    if before:  # an article, which is often laid to its noun, comes before the noun itself
        return max(before), True
    return max((t + 1 for s, t in links if s < previous.start), default=length), False


def _in_order(copies: Sequence[Copy], gaps: Sequence[int]) -> list[int]:
    """The gaps, with markup that ends nowhere before what it is the end of."""
    placed, open_tags = list(gaps), list[tuple[str, int]]()
    for i, copy in enumerate(copies):
        tag = _TAG.fullmatch(copy.text)
        if tag is None or tag[3]:
            continue
        if not tag[1]:
            open_tags.append((tag[2], i))
        elif begun := [n for n, (name, _) in enumerate(open_tags) if name == tag[2]]:
            first = open_tags.pop(begun[-1])[1]
            placed[i] = max(placed[i], placed[first])
            for inner in range(first + 1, i):  # what the markup holds stays in it
                placed[inner] = min(max(placed[inner], placed[first]), placed[i])
    return placed


def _character(writes: Tokenizer, said: Sequence[int], gap: int, text: str, *, back: bool) -> int:
    """Where in the text a gap between tokens is, moved to an end of the word that it would cut."""
    begins = writes.decode(said[:gap]).rstrip()
    at = len(begins) if text.startswith(begins) else round(len(text) * gap / max(1, len(said)))
    step = -1 if back else 1
    while 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum() and not (
        wide(text[at - 1]) or wide(text[at])
    ):  # fmt: skip
        at += step
    return at


def _spaces(head: str, copy: Copy, rest: str) -> tuple[bool, bool]:
    """Whether a space stands before a copy between these, which have none at their ends there, and after it."""
    last, ahead = head[-1:], rest[:1]
    close = copy.left.strip() and (copy.left.isalnum() or last == copy.left or last in OPENING)
    before = bool(last) and not wide(last) and not close
    if not ahead or wide(ahead) or ahead in CLOSING:
        return before, False
    return before, not (copy.right.strip() and (copy.right.isalnum() or copy.right == ahead))


def _with_copies(
    tokens: Sequence[str], copies: Sequence[Copy], gaps: Sequence[int], spaces: Sequence[tuple[bool, bool]],
    order: Sequence[int],
) -> tuple[tuple[str, ...], tuple[list[int], list[int]]]:  # fmt: skip
    """The tokens with each copy before that of its gap; where each token stands now, and where each copy does."""
    out, own, of = list[str](), list[int](), [0] * len(copies)
    waiting, close = list(order), False
    for place in range(len(tokens) + 1):
        while waiting and gaps[waiting[0]] <= place:
            i = waiting.pop(0)
            of[i] = len(out)
            out.append("▁" * spaces[i][0] + copies[i].text)
            close = not spaces[i][1]
        if place < len(tokens):
            own.append(len(out))
            out.append(tokens[place].removeprefix("▁") if close else tokens[place])
            close = False
    return tuple(out), (own, of)


def wide(char: str) -> bool:
    """Of a script that puts no space between words and sentences."""
    return bool(char) and unicodedata.east_asian_width(char) in "WF"
