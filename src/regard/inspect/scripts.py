"""What is asked of a model, and the tokens that it will read for it: for every task, before anything is computed.

    translation        source  <to:de> A man </s>         target   <s> Ein Mann          (given, or to be written)
    language-model                                        target   <s> Once upon a time  (and what is to be written)
    the others         source  [CLS] A man [SEP]

What is unusual: nothing is cut off. A text that is longer than the model reads, or than anybody could look at, is
refused with the reason, since a picture of half a text would be a picture of another text.
What it does not know: how outputs are written (`inspect.writing`), and what is seen (`inspect.views`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from regard.errors import ConfigError
from regard.inspect.edits import Edit
from regard.inspect.sides import Kind, Side, Token, in_row, of_text, plain
from regard.loaded import Loaded
from regard.machine import check_seed
from regard.tasks.extractive_qa import Rules
from regard.tasks.prefix import source_prefix
from regard.text import Tokenizer

LIMIT = 512
"""Tokens a side: the square of it is as many cells as can be looked at, tile by tile."""
Mode = Literal["greedy", "beam", "sample"]
_TEXT = (-1, -2)
"""Stand for the texts while a template is filled; no tokens have these ids."""


class TooLong(ConfigError):
    """A text has more tokens than the model reads, or than can be looked at."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of a model.

    Attributes:
        texts: one; two for a question with its context, and for a classifier of pairs.
        to: the target language, of a model with several.
        target: what is to be written, token by token as if the model had (teacher forcing); of a language model what
            follows its text, the space between them included. None: the model writes.
        prefix: ids that the output begins with; the model goes on from there.
        mode: how it writes: the likeliest token each time, by a beam of `beam`, or drawn at `temperature` by `seed`.
        max_tokens: the most that a language model writes.
        edits: changes to the model (`inspect.edits`).

    Raises:
        ConfigError: a number that cannot be.
    """

    texts: tuple[str, ...]
    to: str | None = None
    target: str | None = None
    prefix: tuple[int, ...] = ()
    mode: Mode = "greedy"
    beam: int = 4
    temperature: float = 1.0
    seed: int = 0
    max_tokens: int = 40
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ConfigError("there is no such way to write", where="mode", expected=" or ".join(get_args(Mode)),
                              got=self.mode)  # fmt: skip
        for name, value, least, most in (("beam", self.beam, 1, 64), ("max_tokens", self.max_tokens, 0, LIMIT)):
            if not least <= value <= most:
                raise ConfigError("the number is out of range", where=name, expected=f"{least} to {most}", got=value)
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError("the number cannot be sampled with", where="temperature", expected="above 0, and finite",
                              got=self.temperature, mend="for the likeliest token each time, ask for mode greedy",
                              )  # fmt: skip
        check_seed(self.seed)
        if self.target is not None and self.prefix:
            raise ConfigError("an output that is given has no beginning of its own", where="prefix",
                              mend="give the target, or the prefix")  # fmt: skip


@dataclass(frozen=True)
class Script:
    """A run before it is run.

    Attributes:
        source, types: what the encoder reads, and of each token which segment it is in.
        target: what the decoder reads, as far as it is known.
        opening: how many first tokens of `target` are no output: what it begins with, and a prompt.
        says: of each row of `target` the id that it is followed by, None where it is not known.
    """

    source: Side | None
    types: tuple[int, ...]
    target: Side | None
    opening: int
    says: tuple[int | None, ...]


def script_of(loaded: Loaded, request: Request) -> Script:
    """What a model will read of a request.

    Raises:
        ConfigError: it is not what such a model takes, or too long.
    """
    _refuse(loaded, request)
    for edit in request.edits:
        edit.check(loaded.model.config)
    if loaded.task == "translation":
        return _translation(loaded, request)
    if loaded.task == "language-model":
        return _text(loaded, request)
    source, types = _reading(loaded, request.texts)
    return Script(source, types, None, 0, ())


def continued(script: Script, tokens: Sequence[Token], text: str, last: int | None) -> Script:
    """The script with an output behind its opening; `last` is the end that follows it, None for none."""
    assert script.target is not None
    row = in_row([script.target.tokens[: script.opening], tokens])
    side = Side("target", (*script.target.texts[:-1], text), row)
    return Script(script.source, script.types, side, script.opening, (*side.ids[1:], last))


def _refuse(loaded: Loaded, request: Request) -> None:
    """Raise ConfigError for what such a model does not take."""
    parts: int | None = 1
    if loaded.task == "question-answering":
        parts = 2
    elif loaded.task == "classification":
        parts = loaded.classifier.parts
    if len(request.texts) not in ((1, 2) if parts is None else (parts,)):
        wanted = {1: "one", 2: "two, as a question and its context", None: "one or two"}
        raise ConfigError("this is not how many texts the model reads", where="texts", expected=wanted[parts],
                          got=len(request.texts))  # fmt: skip
    if loaded.task in ("translation", "language-model"):
        known = loaded.model.config.target_vocab_size
        if wrong := [index for index in request.prefix if not 0 <= index < known]:
            raise ConfigError("no token has this id", where="prefix", expected=f"0 to {known - 1}", got=wrong[0])
    elif request.target is not None or request.prefix:
        raise ConfigError("this model writes nothing", where="target", got=f"a model of the task {loaded.task}",
                          mend="leave out the target")  # fmt: skip
    if request.to is not None and loaded.task != "translation":
        raise ConfigError("only a translator has target languages", where="to", got=request.to, mend="leave it out")


def _translation(loaded: Loaded, request: Request) -> Script:
    around, reads, writes = loaded.conventions, loaded.tokenizer, loaded.target_tokenizer
    lead = source_prefix(reads, request.to, only=loaded.languages[1])
    row = in_row([plain(reads, around.lead, "special"), plain(reads, lead, "lead"), of_text(reads, request.texts[0]),
                  plain(reads, around.tail, "special")])  # fmt: skip
    source = Side("source", request.texts, row)
    _fits(source, loaded.model.config.max_len)
    start, *forced = around.first
    first = in_row([plain(writes, [start], "special"), plain(writes, forced, "lead")])
    opening = Side("target", ("",), first)
    script = Script(source, (0,) * len(source), opening, len(first), (*forced, None))
    if request.target is None:
        return script
    script = continued(script, of_text(writes, request.target), request.target, around.end)
    _fits(script.target, loaded.model.config.max_len)
    return script


def _text(loaded: Loaded, request: Request) -> Script:
    """A prompt as `tasks.continuation` reads it, and what is to follow."""
    around, tokenizer, text = loaded.conventions, loaded.tokenizer, request.texts[0]
    lead, reply = list(around.lead), list[int]()
    if around.turn:
        text = text.strip()
        lead, reply = map(list, around.turn)
    given = of_text(tokenizer, text)
    if not lead and not given:
        lead = [around.beginning]
    kind: Kind = "lead" if around.turn else "special"
    row = in_row([plain(tokenizer, lead, kind), given, plain(tokenizer, reply, kind)])
    script = Script(None, (), Side("target", (text, ""), row), len(row), (*(token.id for token in row[1:]), None))
    if request.target is not None:
        script = _given(tokenizer, script, text, request.target, apart=bool(reply))
    _fits(script.target, loaded.model.config.max_len)
    return script


def _given(tokenizer: Tokenizer, script: Script, text: str, target: str, *, apart: bool) -> Script:
    """The script with a given continuation: tokens of both texts as one, unless something stands between them."""
    assert script.target is not None
    if apart:
        return continued(script, of_text(tokenizer, target, 1), target, None)
    lead = [token for token in script.target.tokens if token.kind != "text"]
    row = in_row([lead, [_parted(token, len(text)) for token in of_text(tokenizer, text + target)]])
    opening = sum(token.part == 0 for token in row)
    return Script(None, (), Side("target", (text, target), row), opening, (*(token.id for token in row[1:]), None))


def _parted(token: Token, border: int) -> Token:
    """A token of two texts put together, as one of the text that it begins in."""
    if token.start is None or token.stop is None or token.start < border:
        return token if token.stop is None else replace(token, stop=min(token.stop, border))
    return replace(token, start=token.start - border, stop=token.stop - border, part=1)


def _reading(loaded: Loaded, texts: tuple[str, ...]) -> tuple[Side, tuple[int, ...]]:
    """What an encoder alone reads, and the type of each token."""
    tokenizer, most = loaded.tokenizer, loaded.model.config.max_len
    if loaded.task == "question-answering":
        most = Rules.read(loaded.about, most).length
    ids, types = tokenizer.wrap([_TEXT[0]], [_TEXT[1]] if len(texts) == 2 else None)
    groups, kinds = list[list[Token]](), list[int]()
    for index, kind in zip(ids, types, strict=True):
        part = _TEXT.index(index) if index in _TEXT else None
        tokens = plain(tokenizer, [index], "special") if part is None else of_text(tokenizer, texts[part], part)
        groups.append(tokens)
        kinds += [kind] * len(tokens)
    source = Side("source", texts, in_row(groups))
    _fits(source, most)
    return source, tuple(kinds)


def _fits(side: Side | None, longest: int) -> None:
    """Raise ConfigError for a side with no token, or too many."""
    assert side is not None
    if not side.tokens:
        raise ConfigError("there is nothing to look at: this text has no token", where=side.name,
                          expected="a word at least")  # fmt: skip
    most = min(longest, LIMIT)
    if len(side) > most:
        why = "more could not be looked at" if most == LIMIT else "more the model does not read"
        raise TooLong("the text is too long to look into", where=side.name, got=f"{len(side):,} tokens",
                      expected=f"at most {most:,} tokens; {why}", mend="take a part of it")  # fmt: skip
