"""A text all in capitals, read as if it were not: models know small letters, and take capitals for rare strings.

    A MAN RIDES HIS BICYCLE.   ->   A man rides his bicycle.   ->   Ein Mann fährt ..   ->   EIN MANN FÄHRT ..

What is unusual: a single word stays, which may well be a name (NATO), and so does what must be copied.
What it does not know: languages, beside the English word I; whether a model knows capitals (`tasks.texts` asks it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

WORD = re.compile(r"[^\W\d_]{2,}")
FEWEST = 2
"""Words of two letters and more that a text in capitals has at least."""
Spans = Sequence[tuple[int, int]]


def in_capitals(text: str, kept: Spans = ()) -> bool:
    """No letter of the text is small but those in the pieces kept, and it is more than a name."""
    rest = apart(text, kept, lambda piece: piece, lambda piece: " ")
    words = WORD.findall(rest)
    return rest == rest.upper() != rest.lower() and sum(word != word.lower() for word in words) >= FEWEST


def small(text: str, kept: Spans = ()) -> str:
    """The text in small letters, but for its first one, the word I, and the pieces kept."""
    lowered = apart(text, kept, lambda piece: re.sub(r"\b(?!I\b)\w+", lambda word: word[0].lower(), piece))
    first = re.search(r"[^\W\d_]", apart(lowered, kept, lambda piece: piece, lambda piece: " " * len(piece)))
    return lowered if first is None else lowered[: first.start()] + first[0].upper() + lowered[first.end() :]


def capitals(text: str, kept: Spans = ()) -> str:
    """The text in capitals, but for the pieces kept."""
    return apart(text, kept, str.upper)


def apart(
    text: str, kept: Spans, change: Callable[[str], str], change_kept: Callable[[str], str] = lambda piece: piece
) -> str:
    """The text with all but the pieces kept changed, and those too by a rule of their own."""
    out, after = list[str](), 0
    for start, end in kept:
        out += [change(text[after:start]), change_kept(text[start:end])]
        after = end
    return "".join([*out, change(text[after:])])
