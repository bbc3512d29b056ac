"""Token ids that come one after another, read as pieces of text that nothing later can change.

    reader = Reader(tokenizer, prompt_ids, stops=["\\n\\n"])
    print(reader.add(17), end="")          # "" for as long as it could still be part of something
    print(reader.end(), end="")

What is unusual: the pieces put together are what the vocabulary makes of all the ids at once, after the prompt's: half
a Chinese character, a space before a word that the vocabulary leaves out at the start of a text, and bytes that turn
out to be no text are all a matter of what stands beside them. So a piece is held back while a character is not whole,
while a run of byte tokens (`<0xE4>`) goes on, since of a run that is not UTF-8 nothing is kept, and while it is
what a stop string begins with. What it does not know: models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.text import Tokenizer

UNFINISHED = "\ufffd"
"""What half a character is decoded to; it may be a whole one after the next token."""
BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Reader:
    """Reads the tokens of one continuation.

    Args:
        prompt: what they continue, as ids.
        stops: strings that end the text, before them; none empty.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stops: Sequence[str] = ()) -> None:
        self.tokenizer, self.stops, self.stopped = tokenizer, tuple(stops), False
        self.silent = {tokenizer.token_id(token) for token in tokenizer.specials}
        # Ids from some border on that has been read already: those before it cannot matter any more.
        self.window, self.read = list(prompt), len(prompt)
        self.told = len(tokenizer.decode(prompt))  # characters of the window's text that are in `held` or were given
        self.held = ""  # what may be the beginning of a stop string

    def add(self, token: int) -> str:
        """The text that has become certain with one more token."""
        self.window.append(token)
        if token in self.silent or BYTE.fullmatch(self.tokenizer.tokens([token])[0]):
            return ""  # a run of bytes goes on where a token stood in it that is not written
        return self._give(self._decoded(final=False))

    def end(self) -> str:
        """The rest, as there are no more tokens."""
        if self.stopped:
            return ""
        given = self._give(self._decoded(final=True))
        rest, self.held = "" if self.stopped else self.held, ""
        return given + rest

    def _decoded(self, *, final: bool) -> str:
        """What the window's text has more of than was told; the window then begins at the last border."""
        whole = self.tokenizer.decode(self.window)
        before = self.tokenizer.decode(self.window[: self.read])
        unfinished = not final and whole.endswith(UNFINISHED)
        if not whole.startswith(before):  # the bytes before and those after are no text together
            whole = before + self.tokenizer.decode(self.window[self.read :])
        certain = whole[: len(whole) - unfinished]
        fresh, self.told = certain[self.told :], max(self.told, len(certain))
        if fresh and not unfinished:
            self.window, self.read = self.window[self.read :], len(self.window) - self.read
            self.told = len(self.tokenizer.decode(self.window))
        return fresh

    def _give(self, fresh: str) -> str:
        """What can be given of the held text and the fresh one: up to the stop string that is complete first."""
        text = self.held + fresh
        found = [(at + len(stop), at) for stop in self.stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self.held = True, ""
            return text[: min(found)[1]]
        kept = max((_overlap(text, stop) for stop in self.stops), default=0)
        given, self.held = text[: len(text) - kept], text[len(text) - kept :]
        return given


def _overlap(text: str, stop: str) -> int:
    """How many of the text's last characters a stop string begins with."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
