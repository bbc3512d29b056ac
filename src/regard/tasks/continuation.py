"""From prompts to what a language model makes of them (chapter 4.3): encoded, continued, read back as text.

What is unusual: a prompt is text and nothing else (`</s>` is four characters), and what the vocabulary's template puts
before a text is put before it. Prompts of like length go on together, and nobody can tell from the results (law 29).
An empty prompt begins as a document does. The pieces of a stream, put together, are the text of a `Generation`.
What it does not know: files, how results are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypedDict

from regard.errors import ConfigError, NonFiniteError
from regard.generate import Finish, Prompt, Said, Sampler, TokenStream, context
from regard.model import Model
from regard.model.cache import CHUNK
from regard.tasks.conventions import Conventions
from regard.tasks.groups import alike
from regard.tasks.pieces import Reader
from regard.text import Tokenizer

TOGETHER = 8_000
"""Tokens of prompts and continuations kept at a time: for GPT-2's smallest model, 0.6 GB of keys and values."""


@dataclass(frozen=True)
class Generation:
    """What a language model said after a prompt."""

    text: str
    """To be put right behind the prompt; a space that parts the two is its first character."""
    tokens: tuple[str, ...]
    """As the vocabulary writes them, spaces as `▁`: all that was said, with those of a string it stopped at, but no
    end."""
    logprobs: tuple[float, ...]
    """log p of each token after those before it, natural logarithm: as the model says, before penalties and filters."""
    finish_reason: Literal["stop", "length"]
    """"stop": by an end, or one of the strings asked for; "length": no more tokens were asked for, or there was no room
    for more."""
    ids: tuple[int, ...] = field(default=(), repr=False)
    """The tokens as ids."""
    alternatives: tuple[Generation, ...] = ()
    """The other samples, when more than one was asked for."""
    left_out: int = 0
    """Tokens of the prompt that the model is too short to read, its first ones."""


class Options(TypedDict, total=False):
    """The types of what may be asked of a language model, by name; `regard.Loaded.generate` says what each means."""

    max_tokens: int
    temperature: float | None
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    stop: str | Sequence[str]
    seed: int | None
    n: int
    truncate: bool
    raw: bool


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked of a language model beside the prompts; `regard.Loaded.generate` says what each field means.

    Raises:
        ConfigError: a number that cannot be, an empty stop string.
    """

    max_tokens: int = 256
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    stop: str | Sequence[str] = ()
    seed: int | None = None
    n: int = 1
    truncate: bool = False
    raw: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (("max_tokens", self.max_tokens, 0), ("n", self.n, 1)):
            if value < least:
                raise ConfigError("the number is too small", where=name, expected=f"{least} or more", got=value)
        if "" in self.stops:
            raise ConfigError("a string to stop at is empty", where="stop", expected="a character at least",
                              mend="leave it out, to end where the model does")  # fmt: skip
        greedy = self.sampler.temperature == 0
        if self.n > 1 and greedy:
            raise ConfigError("there is only one likeliest text", where="n", got=self.n,
                              mend="raise temperature above 0, or ask for one")  # fmt: skip

    @cached_property
    def sampler(self) -> Sampler:
        """How tokens are chosen. Raises ConfigError for a number that cannot be."""
        draws = self.n > 1 or self.top_k or self.top_p != 1 or self.min_p
        temperature = self.temperature if self.temperature is not None else 1.0 if draws else 0.0
        return Sampler(
            temperature=temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p, seed=self.seed,
            repetition_penalty=self.repetition_penalty, presence_penalty=self.presence_penalty,
        )  # fmt: skip

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings to stop at."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


@dataclass(frozen=True)
class _Part:
    """A prompt on its way through the model."""

    ids: list[int]
    limit: int
    left_out: int
    where: str


@dataclass
class _Draft:
    """One continuation as it grows."""

    part: _Part
    reader: Reader
    text: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Finish | None = None

    def add(self, said: Said) -> str:
        """Take what was said; the text that has become certain. Raises NonFiniteError when it was no number."""
        if said.finish == "nonfinite":
            raise NonFiniteError("the model says NaN", where=self.part.where,
                                 mend="its weights are damaged: see regard doctor MODEL")  # fmt: skip
        piece = ""
        if said.token is not None:
            self.ids.append(said.token)
            self.logprobs.append(said.logprob)
            piece = self.reader.add(said.token)
        if said.finish:
            piece += self.reader.end()
        self.finish = "stop" if self.reader.stopped else said.finish
        self.text += piece
        return piece

    def closed(self, tokenizer: Tokenizer) -> Generation:
        """The whole of it."""
        assert self.finish == "stop" or self.finish == "length"
        tokens = tuple(tokenizer.tokens(self.ids))
        return Generation(
            self.text, tokens, tuple(self.logprobs), self.finish, tuple(self.ids), left_out=self.part.left_out
        )


@dataclass(frozen=True)
class Writer:
    """A language model with what turns text into its ids, and back."""

    model: Model
    tokenizer: Tokenizer
    conventions: Conventions

    def generate(self, prompts: Sequence[str], wish: Wish) -> list[Generation]:
        """What comes after each prompt.

        Raises:
            ConfigError: a prompt is longer than the model's context, and may not be cut; or an empty one cannot begin.
            NonFiniteError: the model says NaN after one of them.
        """
        parts = [self._part(prompt, wish, f"prompt {i + 1} of {len(prompts)}") for i, prompt in enumerate(prompts)]
        found: dict[int, Generation] = {}
        for places in self._together(parts, wish.n):
            drafts = [self._draft(parts[i], wish) for i in places for _ in range(wish.n)]
            for _ in self._run(drafts, wish):
                pass
            samples = iter([draft.closed(self.tokenizer) for draft in drafts])
            for i in places:
                first, *others = (next(samples) for _ in range(wish.n))
                found[i] = replace(first, alternatives=tuple(others))
        return [found[i] for i in range(len(prompts))]

    def stream(self, prompt: str, wish: Wish) -> tuple[int, Iterator[str]]:
        """How many of the prompt's first tokens are left out, and what comes after it, in pieces that are certain.

        Raises ConfigError at once, and NonFiniteError in the iterator, as `generate`.
        """
        draft = self._draft(self._part(prompt, wish, "the prompt"), wish)
        return draft.part.left_out, (piece for piece in self._run([draft], wish) if piece)

    def _part(self, prompt: str, wish: Wish, where: str) -> _Part:
        """The prompt as ids with what stands before it, and how much may follow."""
        own, lead, reply = self.tokenizer.encode(prompt), list(self.conventions.lead), list[int]()
        if self.conventions.turn and not wish.raw:  # a question, and the answer is to come
            own = self.tokenizer.encode(prompt.strip())
            lead, reply = map(list, self.conventions.turn)
        elif not own and not lead:
            lead = [self.conventions.beginning]
        ids, room = [*lead, *own, *reply], context(self.model.config)
        if room is None:
            return _Part(ids, wish.max_tokens, 0, where)
        left_out = 0
        if len(ids) > room:
            if not wish.truncate:
                raise ConfigError("the prompt is longer than what the model looks back on", where=where,
                                  expected=f"at most {room:,} tokens", got=f"{len(ids):,}",
                                  mend="shorten it, or have its beginning cut off by --truncate")  # fmt: skip
            kept = min(room, max(room // 2, room + 1 - wish.max_tokens)) - len(lead) - len(reply)
            left_out = len(own) - max(1, kept)
            ids = [*lead, *own[left_out:], *reply]
        # A token needs a position when it is read, so the last one said needs none.
        return _Part(ids, min(wish.max_tokens, room - len(ids) + 1), left_out, where)

    def _together(self, parts: Sequence[_Part], n: int) -> Iterator[list[int]]:
        """The numbers of all parts in groups of like length that take at most TOGETHER tokens, or one part."""
        window, capacity = self.model.config.window, [len(part.ids) + part.limit for part in parts]
        return alike([n * (size if window is None else min(size, window.size + CHUNK)) for size in capacity], TOGETHER)

    def _draft(self, part: _Part, wish: Wish) -> _Draft:
        return _Draft(part, Reader(self.tokenizer, part.ids, wish.stops))

    def _run(self, drafts: Sequence[_Draft], wish: Wish) -> Iterator[str]:
        """Let the drafts grow to their ends, n of a part in a row; yields each piece of text that becomes certain."""
        parts = [draft.part for draft in drafts[:: wish.n]]
        capacity = max(len(part.ids) + part.limit for part in parts)
        # An id that is no token's, as in a vocabulary padded to a round size, would be no text.
        banned = (*self.conventions.silent, *range(self.tokenizer.vocab_size, self.model.config.target_vocab_size))
        stream = TokenStream(
            self.model, self.model.transformer.start(capacity=capacity),
            [Prompt(part.ids, part.limit, wish.sampler) for part in parts],
            n=wish.n, ends=self.conventions.ends, banned=banned,
        )  # fmt: skip
        for step in stream:
            for said in step:
                draft = drafts[said.row]
                yield draft.add(said)
                if draft.finish:
                    stream.stop(said.row)
