"""What stands around a text's own tokens in one model's eyes: how a source begins and ends, an output too.

    source    [lead] a b [tail]                 BART: <s> a b </s>           here, Marian, T5: a b </s>
    output    [start] [forced] x y [one of ends]

What is unusual: every published family has these otherwise, so they are read from the model's own files (`about` in
config.json, and the vocabulary's template), and nothing else knows of them. Models trained here say nothing: <s>
begins an output, and </s> ends a source and an output.
What it does not know: texts; what a family is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.data import Batch, padded
from regard.errors import CheckpointError, ConfigError
from regard.text import Tokenizer
from regard.text.chat import ChatTemplate, Turn


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """Token ids with a meaning of their own. Of a decoder alone `lead` stands before its prompt, and `start` is None.

    Attributes:
        start: the first token that the decoder of a translator is given.
        ends: each ends an output; the first is the one that a given output is scored with.
        lead, tail: before and after the tokens of a source.
        forced: what every output begins with; part of the question, not of the answer.
        opening: what a text begins with where no template says so: <s>, else what ends the text before it (GPT-2).
        silent: what no text is written with, and no output therefore may hold: control tokens, and ids without a token.
        pads: of sources and of outputs; never looked at.
        turn: of a model that answers, what stands before a user's words, and between them and an answer.
    """

    start: int | None
    ends: tuple[int, ...]
    lead: tuple[int, ...] = ()
    tail: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    opening: int | None = None
    silent: tuple[int, ...] = ()
    pads: tuple[int, int] = (0, 0)
    turn: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @classmethod
    def read(cls, about: Mapping[str, Any], tokenizer: Tokenizer, target: Tokenizer | None = None) -> Conventions:
        """Those of a model with these facts (config.json) and these vocabularies; one for both sides without `target`.

        Raises:
            CheckpointError: what config.json says of them cannot be.
        """
        said, said_by = about.get("conventions"), target or tokenizer
        before, after = around(tokenizer)
        bos, eos = (said_by.role(name) for name in ("bos", "eos"))
        if said is None:
            said = {"start": bos, "ends": [eos] if eos is not None else []}
        start, ends, lead, forced = (_ids(said, name) for name in ("start", "ends", "lead", "forced"))
        end = tokenizer.role("eos")
        kept = {said_by.role("unk"), *ends}  # <unk> stands for text
        controls = {said_by.token_id(token) for token in said_by.specials}
        found = cls(
            start=start[0] if start else None,
            ends=tuple(ends),
            lead=tuple(lead) or before,
            tail=after if before or after else () if end is None else (end,),
            forced=tuple(forced),
            opening=eos if bos is None else bos,
            silent=tuple(sorted(token for token in controls - kept if token is not None)),
            pads=(tokenizer.pad_id, said_by.pad_id),
        )
        return found.answering(ChatTemplate.read(about["chat"]), tokenizer) if "chat" in about else found

    def answering(self, template: ChatTemplate, tokenizer: Tokenizer) -> Conventions:
        """The same for a model that takes a prompt for a user's words, and answers."""
        before, _, after = template.encode(tokenizer, Turn("user", ""))
        return replace(self, turn=(tuple(before), (*after, *template.question(tokenizer, []))))

    def most_read(self, max_len: int) -> int:
        """How many tokens of its own a source may have."""
        return max_len - len(self.lead) - len(self.tail)

    def most_said(self, max_len: int) -> int:
        """How many tokens an output may have, its end included."""
        return max_len - len(self.forced)

    @property
    def first(self) -> list[int]:
        """What a decoder is given before an output. Raises ConfigError when nothing begins one."""
        return [_there(self.start, "begins with", "start"), *self.forced]

    @property
    def end(self) -> int:
        """The end that a given output is scored with. Raises ConfigError when nothing ends one."""
        return _there(next(iter(self.ends), None), "ends with", "ends")

    @property
    def beginning(self) -> int:
        """What a text of nothing begins with. Raises ConfigError when the vocabulary has no such token."""
        if self.opening is None:
            raise ConfigError("nothing says how a text begins", where="an empty prompt", expected="a prompt",
                              got="a vocabulary without tokens for a beginning and an end")  # fmt: skip
        return self.opening

    def lengths(self, source: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
        """How many tokens a pair has in a batch, on either side."""
        return len(self.lead) + len(source) + len(self.tail), len(self.forced) + len(target) + 1

    def batch(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, multiple: int = 1) -> Batch:
        """B sources and B outputs, as their own tokens, with all that stands around them.

        The first tokens of `tgt_out` are the forced ones. Widths are rounded up to a multiple of `multiple`.
        """
        src, src_real = padded([[*self.lead, *ids, *self.tail] for ids in sources], self.pads[0], multiple)
        tgt_in, tgt_real = padded([[*self.first, *ids] for ids in targets], self.pads[1], multiple)
        tgt_out, _ = padded([[*self.forced, *ids, self.end] for ids in targets], self.pads[1], multiple)
        return Batch(src, src_real, tgt_in, tgt_out, tgt_real, count=int(tgt_real.sum()))


def around(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the vocabulary's template puts before and after a text; nothing, where it has none."""
    specials = {tokenizer.token_id(token) for token in tokenizer.specials}
    plain = next(index for index in range(tokenizer.vocab_size) if index not in specials)
    whole = tokenizer.wrap([plain])[0]
    return tuple(whole[: whole.index(plain)]), tuple(whole[whole.index(plain) + 1 :])


def _there(token: int | None, does: str, field: str) -> int:
    if token is None:
        raise ConfigError(f"nothing says what an output {does}", where=f"config.json: conventions.{field}",
                          expected="the id of a token")  # fmt: skip
    return token


def _ids(said: Any, name: str) -> list[int]:
    """A field of the conventions in config.json: a list of ids, or for `start` one or null."""
    ids = said.get(name) if isinstance(said, Mapping) else said
    ids = [] if ids is None else [ids] if name == "start" else ids
    if not isinstance(ids, list) or any(type(token) is not int or token < 0 for token in ids):
        raise CheckpointError("what the model says of its control tokens cannot be", got=repr(ids)[:80],
                              where=f"config.json: conventions.{name}", expected="token ids")  # fmt: skip
    return ids
