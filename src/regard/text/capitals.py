"""A text all in capitals, read as if it were not: models know small letters, and take capitals for rare strings.

    A MAN RIDES HIS BICYCLE.   ->   A man rides his bicycle.   ->   Ein Mann fährt ..   ->   EIN MANN FÄHRT ..

What is unusual: a single word stays, which may well be a name (NATO), and so does what must be copied. Which words
begin with a capital all the same, the vocabulary says that the text is read with.
What it does not know: languages, beside the English word I; whether a model knows capitals (`tasks.texts` asks it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

WORD = re.compile(r"[^\W\d_]{2,}")
FEWEST = 2
"""Words of two letters and more that a text in capitals has at least."""
Spans = Sequence[tuple[int, int]]
Pieces = Callable[[Sequence[str]], Sequence[int]]


def in_capitals(text: str, kept: Spans = ()) -> bool:
    """No letter of the text is small but those in the pieces kept, and it is more than a name."""
    rest = apart(text, kept, lambda piece: piece, lambda piece: " ")
    words = WORD.findall(rest)
    return rest == rest.upper() != rest.lower() and sum(word != word.lower() for word in words) >= FEWEST


def small(text: str, pieces: Pieces, kept: Spans = ()) -> str:
    """The text in small letters, but for its first one, the word I, names that are known as such, and the pieces kept.

    Args:
        pieces: in how many pieces a vocabulary has each of some words. A word begins with a capital, or stays, where
            that makes fewer of it: Tom, and in German every noun.
    """
    words = sorted({word for piece in parts(text, kept) for word in re.findall(r"\w+", piece)})
    forms = {word: list(dict.fromkeys((word.lower(), word.capitalize(), word))) for word in words}
    counts = iter(pieces([form for word in words for form in forms[word]]))
    best = {word: min(forms[word], key=lambda form: next(counts)) for word in words} | {"I": "I"}
    lowered = apart(text, kept, lambda piece: re.sub(r"\w+", lambda word: best[word[0]], piece))
    first = re.search(r"[^\W\d_]", apart(lowered, kept, lambda piece: piece, lambda piece: " " * len(piece)))
    return lowered if first is None else lowered[: first.start()] + first[0].upper() + lowered[first.end() :]


def capitals(text: str, kept: Spans = ()) -> str:
    """The text in capitals, but for the pieces kept."""
    return apart(text, kept, str.upper)


def apart(
    text: str, kept: Spans, change: Callable[[str], str], change_kept: Callable[[str], str] = lambda piece: piece
) -> str:
    """The text with all but the pieces kept changed, and those too by a rule of their own."""
    others = parts(text, kept)
    pieces = [change_kept(text[start:end]) for start, end in kept]
    return "".join(both for pair in zip(map(change, others), [*pieces, ""], strict=True) for both in pair)


def parts(text: str, kept: Spans) -> list[str]:
    """What stands before, between and after the pieces kept: one more than there are."""
    edges = [0, *(place for span in kept for place in span), len(text)]
    return [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
