"""A text cut into pieces that a translator can take one by one, with the white space between them.

    "  One. Two?\n\nThree"  ->  ("", "  ") ("One.", " ") ("Two?", "\n\n") ("Three", "")

What is unusual: pieces and white space put together again are the text, to the last character. A cut is made at an end
of line, and after . ! ? … where white space and no small letter or digit follows, or after 。！？ at once; not after an
abbreviation, an initial or a short number (Dr. J. Smith, z. B., 3. Mai), and nowhere inside a placeholder or an address
(`text.placeholders`). Only a sentence too long for the model is cut further: after , ; : or a dash, if need be between
any two words, and at last between any two characters of scripts without spaces (Chinese, Japanese, Thai); as many parts
as fit stay together. What then is still too long is left whole.
What it does not know: languages (one list of abbreviations serves all), and what a model can read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from regard.text.placeholders import find

Piece = tuple[str, str]
"""A piece of text, and the white space after it."""
Cost = Callable[[Sequence[str]], Sequence[float]]
"""What share of the most that a model can take each text is; that of two together is at most the sum."""

Kept = Callable[[str], Sequence[tuple[int, int]]]
"""Where the parts of a text that must stay whole stand: (first character, character after the last), in order."""

CLOSERS = r"""["'”’»›)\]}」』）】》]"""
LINE_END = r"[\n\r\x0b\x0c\x85\u2028\u2029]"
ENDS = re.compile(
    rf"""
    {LINE_END} \s*+
  | (?<= [.!?…] ) {CLOSERS}{{0,4}}+ \s++ (?! \d )
  | (?<= [。！？｡] ) (?! [。！？｡] ) {CLOSERS}{{0,4}}+ \s*+
    """,
    re.VERBOSE,
)
CLAUSES = re.compile(r"(?<=[,;:—–])\s++(?=\S)|(?<=[，；：、])\s*+(?=\S)")
WORDS = re.compile(r"(?<=\S)\s++(?=\S)")
# Thai to Myanmar, Khmer, then kana and Han with their half-width and rare forms; no vowel that is written before its
# consonant ends a part, and none begins with a mark.
CHARACTERS = re.compile(
    r"(?<=[\u0e01-\u0e3f\u0e45-\u0ebf\u0ec5-\u109f\u1780-\u17ff々〇\u3041-\u312f\u31f0-\u9fff\uf900-\ufaff"
    r"\uff66-\uff9f\U00020000-\U0003ffff])(?=\w)"
)
ABBREVIATIONS = frozenset(
    re.findall(
        r"\w+",
        """
    Mr Mrs Ms Dr Prof Rev Hon Gen Col Sgt Lt Capt Gov Sen Rep Pres St Mt Ft Jr Sr vs etc al approx dept est fig no nos
    vol pp ed eds Inc Ltd Co Corp Bros cf ca Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur
    Thurs Fri Sat Sun Nr bzw usw Hr Fr Str Abb Bd Mio Mrd inkl evtl ggf vgl sog Abs Art Mme Mlle MM env p art
    """,
    )
)
LONGEST_WORD = 24
"""Characters before a full stop that are looked at."""


def split(text: str, cost: Cost | None = None, kept: Kept = find) -> list[Piece]:
    """The pieces of a text in order; put together again they are the text. An empty one holds white space before it.

    Args:
        cost: a sentence of more than 1 is cut further; None: none is.
        kept: where no cut may be made.
    """
    pieces = list(_cut(text, ENDS, _ends_sentence, kept))
    for finer in (CLAUSES, WORDS, CHARACTERS) if cost else ():
        assert cost is not None
        pieces = list(_finer(pieces, finer, cost, kept))
    return pieces


def _cut(text: str, at: re.Pattern[str], ends: Callable[[str, int, int], bool], kept: Kept) -> Iterable[Piece]:
    """The text between the white space that `at` finds and `ends` accepts, never inside what is kept whole."""
    spans = kept(text)
    firsts = [first for first, _ in spans]
    start = len(text) - len(text.lstrip())
    if start:
        yield "", text[:start]
    for found in at.finditer(text, start):
        end, following = found.start() + len(found[0].rstrip()), found.end()
        nearest = bisect_right(firsts, end - 1) - 1
        inside = nearest >= 0 and spans[nearest][1] > end
        if not inside and following < len(text) and ends(text, end, following):
            piece = text[start:end].rstrip()
            yield piece, text[start + len(piece) : following]
            start = following
    if start < len(text):
        yield _piece(text[start:])


def _ends_sentence(text: str, end: int, following: int) -> bool:
    if re.search(LINE_END, text[end:following]):
        return True
    if text[following].islower():
        return False
    before = text[max(0, end - LONGEST_WORD) : end]
    if not before.endswith("."):
        return True
    word = re.split(r"[\s(\[\"'“„«]", before[:-1])[-1]
    initial, ordinal = re.fullmatch("[A-Za-z]", word), word.isdecimal() and len(word) <= 2
    return not (initial or ordinal or word in ABBREVIATIONS or re.fullmatch(r"(?:\w\.)+\w", word))


def _finer(pieces: Sequence[Piece], at: re.Pattern[str], cost: Cost, kept: Kept) -> Iterable[Piece]:
    """Pieces that cost more than 1, cut at all places and put together again as far as they fit."""
    for (text, white), whole in zip(pieces, cost([text for text, _ in pieces]), strict=True):
        if whole <= 1:
            yield text, white
            continue
        parts = list(_cut(text, at, lambda *_: True, kept))
        parts[-1] = parts[-1][0], white
        total, held = 0.0, ""
        for (part, after), share in zip(parts, cost([part + after for part, after in parts]), strict=True):
            if held and total + share > 1:
                yield _piece(held)
                total, held = 0.0, ""
            total, held = total + share, held + part + after
        yield _piece(held)


def _piece(text: str) -> Piece:
    bare = text.rstrip()
    return bare, text[len(bare) :]
