"""A question and a long text as inputs that a model can read: the text in overlapping windows, each after the question.

    text      t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 t10         11 tokens, overlap 2, question q0 q1
    window    [CLS] q0 q1 [SEP] t0 t1 t2 t3 t4 [SEP]    room for 5 tokens of the text
              [CLS] q0 q1 [SEP] t3 t4 t5 t6 t7 [SEP]
              [CLS] q0 q1 [SEP] t6 t7 t8 t9 t10 [SEP]

An answer of at most `overlap` tokens is whole in one of them.
What is unusual: every token knows which characters of the original text it stands for, through whatever the vocabulary
did to it (accents composed or taken away, case, the bytes of one emoji), so what is cut out of the text is always a
piece of the text itself (transformers #2548, #3804).
What it does not know: models, and what is asked.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data import padded
from regard.errors import ConfigError
from regard.text import Tokenizer
from regard.text.backend import valid

LONGEST_WORD = 32
"""Characters that are taken to make a piece of a word whole."""
_TEXT = -1
"""Stands for the text while the template is filled; no token has this id."""


def _joined(one: str, two: str) -> bool:
    """Whether two characters that follow each other are of one word, or the second is a mark on the first."""
    return bool(unicodedata.combining(two)) or (_is_letter(one) and _is_letter(two))


def _is_letter(char: str) -> bool:
    """A digit, or a letter of an alphabet whose words are parted by spaces and carry no particles: Latin, Greek, ..."""
    european = char < "\u0590" or "\u1e00" <= char < "\u2000"
    return european and (char.isalnum() or bool(unicodedata.combining(char)))


@dataclass(frozen=True, eq=False)
class Passage:
    """A text as tokens.

    Attributes:
        ids: (T,) without what a template puts around.
        spans: (T, 2) of each token the characters [start, stop) of `text` that it stands for. Several tokens may share
            one character, and what no token stands for (an accent that was composed, a control character) belongs to
            the one before it in the same word, or else to the one after it.
    """

    text: str
    ids: np.ndarray
    spans: np.ndarray

    @classmethod
    def read(cls, tokenizer: Tokenizer, text: str) -> Passage:
        """Encode a text."""
        encoded = tokenizer.backend.encode(valid(text), add_special_tokens=False)
        spans, follows = list[tuple[int, int]](), len(text)
        for start, stop in reversed(encoded.offsets):
            while stop < follows and not text[stop].isspace():
                stop += 1
            spans.append((start, stop))
            follows = min(follows, start)
        ended = 0
        for i, (start, stop) in enumerate(spans := spans[::-1]):
            while start > ended and not text[start - 1].isspace():
                start -= 1
            spans[i], ended = (start, stop), max(ended, stop)
        return cls(text, np.array(encoded.ids, np.int32), np.array(spans, np.int32).reshape(-1, 2))

    def __len__(self) -> int:
        return len(self.ids)

    def cut(self, first: int, last: int) -> tuple[int, int]:
        """The characters [start, stop) of tokens `first` to `last`, without white space at either end.

        A word in one of Europe's alphabets is taken whole, up to 32 letters to either side: 1 in 700 of SQuAD's answers
        begins or ends inside one, while a model's guess often does. A mark that combines with the character before it
        is not parted from it.
        """
        text, start, stop = self.text, int(self.spans[first, 0]), int(self.spans[last, 1])
        while start < stop and text[start].isspace():
            start += 1
        while stop > start and text[stop - 1].isspace():
            stop -= 1
        if start == stop:
            return start, stop
        left, right = start, stop
        while left > 0 and start - left < LONGEST_WORD and _joined(text[left - 1], text[left]):
            left -= 1
        while right < len(text) and right - stop < LONGEST_WORD and _joined(text[right - 1], text[right]):
            right += 1
        return left, right

    def tokens(self, start: int, stop: int) -> tuple[int, int] | None:
        """The first and the last token that stand for characters of [start, stop); None: no token does."""
        inside = np.flatnonzero((self.spans[:, 0] < stop) & (self.spans[:, 1] > start))
        return (int(inside[0]), int(inside[-1])) if len(inside) else None


@dataclass(frozen=True)
class Frame:
    """What stands around the text in all windows of a question, its own tokens included, and the text's type."""

    before: list[int]
    after: list[int]
    types_before: list[int]
    types_after: list[int]
    kind: int


@dataclass(frozen=True)
class Window:
    """What a model reads at once: some tokens of a passage in their frame.

    Attributes:
        first, size: the number, in the passage, of its first token here, and how many there are.
        target: places in `ids` where the answer begins and ends; (0, 0), the first token, where it is not in here.
    """

    frame: Frame
    passage: Passage
    first: int
    size: int
    target: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self.frame.before) + self.size + len(self.frame.after)

    @property
    def before(self) -> int:
        """The place in `ids` of its first token of the passage."""
        return len(self.frame.before)

    @property
    def ids(self) -> list[int]:
        """All its tokens."""
        own = self.passage.ids[self.first : self.first + self.size].tolist()
        return [*self.frame.before, *own, *self.frame.after]

    @property
    def types(self) -> list[int]:
        """The type of each."""
        return [*self.frame.types_before, *[self.frame.kind] * self.size, *self.frame.types_after]


@dataclass(frozen=True)
class Cutter:
    """How questions and texts become windows.

    Args:
        length: tokens of a window, all included.
        overlap: how many tokens of the text two neighbours share, but at most half of those there is room for.
    """

    tokenizer: Tokenizer
    length: int
    overlap: int

    def windows(
        self, question: str, passage: Passage, answer: tuple[int, int] | None = None
    ) -> tuple[list[Window], int]:
        """The windows of a passage, one at least; and how many tokens of the question did not fit.

        A question may take half of a window; the rest of it is left out.

        Args:
            answer: its first and last token in the passage.

        Raises:
            ConfigError: the windows have no room for two tokens.
        """
        asked = self.tokenizer.encode(question)
        around = len(self.tokenizer.wrap([], [])[0])
        most = (self.length - around) // 2
        if most < 1:
            raise ConfigError("the windows are too short for a question and a text", where="max_len", got=self.length,
                              expected=f"at least {around + 2} tokens")  # fmt: skip
        frame = _frame(self.tokenizer, asked[:most])
        room = self.length - around - len(asked[:most])
        overlap = min(self.overlap, room // 2)
        found = list[Window]()
        for first in range(0, max(1, len(passage) - overlap), room - overlap):
            size = min(room, len(passage) - first)
            found.append(Window(frame, passage, first, size, _target(answer, first, size, len(frame.before))))
        return found, max(0, len(asked) - most)


def _frame(tokenizer: Tokenizer, question: Sequence[int]) -> Frame:
    ids, types = tokenizer.wrap(question, [_TEXT])
    place = ids.index(_TEXT)
    return Frame(ids[:place], ids[place + 1 :], types[:place], types[place + 1 :], types[place])


def _target(answer: tuple[int, int] | None, first: int, size: int, before: int) -> tuple[int, int]:
    """Where the answer is in a window that has all of it."""
    if answer is None or answer[0] < first or answer[1] >= first + size:
        return 0, 0
    return before + answer[0] - first, before + answer[1] - first


def window_tensors(windows: Sequence[Window], pad_id: int, multiple: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """B windows, padded on the right: ids, real and types, (B, T); and places (B, T), where an answer may begin or end.

    These are the tokens of the text, and the first token of all, which stands for no answer.
    """
    ids, real = padded([window.ids for window in windows], pad_id, multiple)
    types, _ = padded([window.types for window in windows], 0, multiple)
    place = torch.arange(ids.size(1))
    start, size = torch.tensor([[window.before, window.size] for window in windows]).reshape(-1, 2, 1).unbind(1)
    return ids, real, types, ((place >= start) & (place < start + size)) | (place == 0)
