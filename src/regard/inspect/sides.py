"""A row of tokens as people read it: each with its text, its place in what was typed, and the word it belongs to.

    text      a café                 tokens   <s>   ▁a   ▁caf   <0xC3>   <0xA9>   </s>
                                     kind     special text text text     text     special
                                     word     -1    0    1      1        1        -1

What is unusual: a piece is always something that can be shown. Half a character is written as its bytes, a line break
as ↵, and what would be invisible, or turn the writing of what follows (U+202E), as its code point; nothing is ever
markup, and who shows a piece need not know what is in it.
What it does not know: models, and where the tokens go.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tokenizers import decoders

from regard.inspect.parts import SideName
from regard.tasks.tagging import words_of
from regard.tasks.windows import Passage
from regard.text import Tokenizer

Kind = Literal["text", "special", "lead"]
"""Of a token: text, a control token around it, or what stands before it as a condition (a target language)."""
HALF = "\ufffd"
"""What the bytes of half a character are decoded to."""
VISIBLE = {"\n": "↵", "\r": "␍", "\t": "⇥"}
NOWHERE = -1
"""The word of what is no text."""


@dataclass(frozen=True)
class Token:
    """A token.

    Attributes:
        text: as it is shown, spaces as `▁`.
        word: tokens of one word share a number; -1 for what is no text.
        start, stop: its characters [start, stop) in its text; None for what is no text.
        part: which of the texts it is in.
    """

    text: str
    id: int
    kind: Kind
    word: int = NOWHERE
    start: int | None = None
    stop: int | None = None
    part: int = 0


@dataclass(frozen=True)
class Written:
    """What a row of tokens is followed by, and what the model thought of it.

    Attributes:
        p: the probability that the model gave it.
        rank: 1 is the likeliest token.
        top: the likeliest tokens: text, id and probability, the likeliest first.
    """

    text: str
    id: int
    kind: Kind
    word: int
    p: float
    rank: int
    top: tuple[tuple[str, int, float], ...]


@dataclass(frozen=True)
class Side:
    """What the encoder reads (source), or what the decoder reads and writes (target).

    Attributes:
        texts: what the tokens of `kind` text are from, as it was typed or written.
        tokens: those read, one for each row.
        writes: of each row what it is followed by, None where nothing is; of a masked language model's source what it
            guesses there. None where nothing is written at all.
    """

    name: SideName
    texts: tuple[str, ...]
    tokens: tuple[Token, ...]
    writes: tuple[Written | None, ...] | None = None

    @property
    def ids(self) -> list[int]:
        """The tokens as ids."""
        return [token.id for token in self.tokens]

    def __len__(self) -> int:
        return len(self.tokens)


def shown(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Each id as a piece that can be shown; see the module."""
    pieces = tokenizer.tokens(ids)
    if isinstance(tokenizer.backend.decoder, decoders.ByteLevel):
        both = zip(ids, pieces, strict=True)
        pieces = [_bytes(tokenizer, index) if HALF in piece else piece for index, piece in both]
    return [_visible(piece) for piece in pieces]


def plain(tokenizer: Tokenizer, ids: Sequence[int], kind: Kind) -> list[Token]:
    """Tokens that are no text."""
    return [Token(text, index, kind) for text, index in zip(shown(tokenizer, ids), ids, strict=True)]


def of_text(tokenizer: Tokenizer, text: str, part: int = 0) -> list[Token]:
    """The tokens of a text that is known."""
    passage = Passage.read(tokenizer, text)
    return _placed(tokenizer, passage.ids.tolist(), [(int(a), int(b)) for a, b in passage.spans], text, part)


def of_ids(
    tokenizer: Tokenizer, ids: Sequence[int], before: Sequence[int] = (), part: int = 0
) -> tuple[str, list[Token]]:
    """The text of ids that follow on others, and its tokens; a place that several write together is that of each."""
    whole = [*before, *ids]
    border = len(tokenizer.decode(before))
    ends = list[int]()  # how many characters are certain after each token, the first `before`
    for count in range(len(before), len(whole) + 1):
        certain = len(tokenizer.decode(whole[:count]).rstrip(HALF)) - border
        ends.append(max(certain, ends[-1] if ends else 0))
    text = tokenizer.decode(whole)[border:]
    ends[-1] = len(text)
    spans = [(start, next((end for end in ends[i + 1 :] if end > start), start)) for i, start in enumerate(ends[:-1])]
    return text, _placed(tokenizer, ids, spans, text, part)


def in_row(parts: Sequence[Sequence[Token]]) -> tuple[Token, ...]:
    """Groups of tokens as one row, the words of each counted on from those before."""
    row, first = list[Token](), 0
    for tokens in parts:
        row += [token if token.word == NOWHERE else replace(token, word=token.word + first) for token in tokens]
        first = 1 + max((token.word for token in row), default=NOWHERE)
    return tuple(row)


def _placed(
    tokenizer: Tokenizer, ids: Sequence[int], spans: Sequence[tuple[int, int]], text: str, part: int
) -> list[Token]:
    specials = {tokenizer.token_id(token) for token in tokenizer.specials} - {tokenizer.unk_id}
    words, found = _word_of_each(text), list[Token]()
    follows = max(words, default=NOWHERE) + 1
    for index, piece, (start, stop) in reversed(list(zip(ids, shown(tokenizer, ids), spans, strict=True))):
        if index in specials:
            found.append(Token(piece, index, "special", part=part))
            continue
        # A space that is a token of its own is part of the word that it stands before.
        follows = next((words[at] for at in range(start, stop) if words[at] != NOWHERE), follows)
        found.append(Token(piece, index, "text", follows, start, stop, part))
    return found[::-1]


def _word_of_each(text: str) -> list[int]:
    """The number of the word that each character is in; -1 for white space."""
    numbers, number, ended = [NOWHERE] * len(text), -1, -1
    for start, stop in words_of(text):
        if start != ended or not (_mark(text[start]) or _mark(text[start - 1])):
            number += 1
        numbers[start:stop], ended = [number] * (stop - start), stop
    return numbers


def _mark(char: str) -> bool:
    """Whether a character is written onto the one before it, or joins two."""
    return unicodedata.category(char)[0] == "M" or char == "\u200d"


def _bytes(tokenizer: Tokenizer, index: int) -> str:
    """A piece of bytes that are no whole characters: those that are, and the others as <0x9F>."""
    raw = bytes(BYTE_OF[char] for char in tokenizer.backend.id_to_token(index) or "" if char in BYTE_OF)
    pieces = re.split("([\udc80-\udcff])", raw.decode("utf-8", errors="surrogateescape"))
    return "".join(f"<0x{ord(piece) - 0xDC00:02X}>" if i % 2 else piece for i, piece in enumerate(pieces)).replace(
        " ", "▁"
    )


def _visible(piece: str) -> str:
    """The piece with what cannot be seen, or changes what is seen around it, spelled out."""
    spelled = "".join(VISIBLE.get(char) or (f"<U+{ord(char):04X}>" if _hidden(char) else char) for char in piece)
    if any(unicodedata.category(char)[0] not in "MCZ" for char in spelled):
        return spelled
    return "".join(f"<U+{ord(char):04X}>" for char in piece)  # a joiner or an accent alone, or nothing


def _hidden(char: str) -> bool:
    """A control or format character, as those that turn the direction of writing, but for the joiners."""
    return unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in "\u200c\u200d"


def _byte_letters() -> Iterator[tuple[str, int]]:
    """How GPT-2's vocabulary writes bytes: those of visible characters as these, the others from U+0100 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    yield from ((chr(byte), byte) for byte in seen)
    yield from ((chr(256 + i), byte) for i, byte in enumerate(sorted(set(range(256)) - set(seen))))


BYTE_OF = dict(_byte_letters())
"""The byte of each letter of such a vocabulary."""
