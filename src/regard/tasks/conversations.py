"""Learning to answer (instruction fine-tuning): next tokens of conversations, of which only the answers are learned.

    <s>user Who was here?</s> <s>assistant A dog.</s>        the loss is over:  A dog. </s>

What is unusual: a conversation is never cut inside a turn. One that is too long loses its first exchanges, whole, its
system message aside; where its last exchange alone is too long, it is left out; both are counted.
What it does not know: the form of a file (`data.chat`), what stands between the turns (`text.chat`).

Shapes: B conversations, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data import Finding, TokenBatches, deal, padded
from regard.data.chat import Chat, read_chats
from regard.data.documents import Document
from regard.data.packing import TokenBatch
from regard.errors import ConfigError, DataError
from regard.model import Model
from regard.tasks.base import InBatchOrder, evaluating
from regard.tasks.conventions import Conventions
from regard.tasks.documents import BYTES_A_TOKEN, overlap, parted
from regard.tasks.language_modeling import LanguageModelTask
from regard.text import Tokenizer
from regard.text.chat import ChatTemplate, Turn

EVALUATED_TOGETHER = 32


@dataclass(frozen=True)
class Exchange:
    """A conversation as ids.

    Attributes:
        ids: all of it; learned: whether each of them is part of an answer, or the end after one.
        cut: how many of its turns were left out to make room.
    """

    ids: list[int]
    learned: list[bool]
    cut: int = 0


def template_of(about: Mapping[str, Any], tokenizer: Tokenizer, conventions: Conventions) -> ChatTemplate:
    """The template of a model that answers already, else one with the control tokens that its texts begin and end with.

    Raises:
        CheckpointError: the one it has cannot be.
        ConfigError: it has no such tokens, or a user could write them.
    """
    if "chat" in about:
        return ChatTemplate.read(about["chat"])
    names = [str(tokenizer.backend.id_to_token(token)) for token in (conventions.beginning, conventions.end)]
    if not {*names} <= {*tokenizer.specials}:
        raise ConfigError("nothing but a control token can part what is said", where="the vocabulary",
                          expected="a token before and one after a text", got=" ".join(names))  # fmt: skip
    return ChatTemplate.between(*names)


def exchange(tokenizer: Tokenizer, template: ChatTemplate, turns: Sequence[Turn], most: int) -> Exchange | None:
    """A conversation of at most `most` predictions, without its first exchanges if need be; None if that is not enough.

    Args:
        turns: the last one is an answer.
    """
    parts = [_turn(tokenizer, template, turn) for turn in turns]
    fixed = 1 if turns[0].role == "system" else 0
    begins = [i for i in range(fixed, len(turns)) if i == fixed or turns[i].role == "user"]
    for first in begins:
        kept = [*parts[:fixed], *parts[first:]]
        if sum(len(ids) for ids, _ in kept) - 1 <= most:
            ids, learned = ([value for part in side for value in part] for side in zip(*kept, strict=True))
            return Exchange([int(i) for i in ids], [bool(value) for value in learned], cut=first - fixed)
    return None


def _turn(tokenizer: Tokenizer, template: ChatTemplate, turn: Turn) -> tuple[list[int], list[bool]]:
    before, words, after = template.encode(tokenizer, turn)
    answers = turn.role == "assistant"
    # Of what stands after an answer the first token ends it; what follows is said by nobody.
    learned = [*[False] * len(before), *[answers] * (len(words) + 1), *[False] * (len(after) - 1)]
    return [*before, *words, *after], learned[: len(before) + len(words) + len(after)]


@dataclass(frozen=True)
class Conversations:
    """Conversations to train on and conversations to look at.

    Attributes:
        bad_lines: how many records were left out.
    """

    train: list[Chat]
    dev: list[Chat]
    findings: list[Finding]
    hashes: dict[str, str]
    held_out: bool
    bad_lines: int = 0

    def told(self) -> list[str]:
        """What the user should hear of them."""
        said = ["read as conversations: the loss is over the assistant's answers"]
        said += [f"bad lines left out: {self.bad_lines:,}"] * bool(self.bad_lines)
        held = f"{len(self.dev):,} conversations are held out for development (no --dev was given)"
        return said + [held] * self.held_out

    def where(self, index: int) -> str:
        """`file:line` of one training conversation."""
        return f"{self.train[index].path}:{self.train[index].line}"

    def amount(self) -> tuple[float, float]:
        """No source tokens, and about how many tokens one pass has."""
        return 0.0, sum(len(text.encode("utf-8", "surrogatepass")) for text in self._said()) / BYTES_A_TOKEN

    def counts(self) -> dict[str, int]:
        """Conversations for training and for development."""
        return {"train_conversations": len(self.train), "dev_conversations": len(self.dev)}

    def tokenizer(self, recipe: Any) -> Tokenizer:
        """A vocabulary of what is said in training, as the recipe's [tokenizer] says."""
        return Tokenizer.train(self._said(), kind=recipe.kind, vocab_size=recipe.vocab_size)

    def _said(self) -> list[str]:
        return [turn.content for chat in self.train for turn in chat.turns]


def read_conversations(train: Sequence[str], dev: Sequence[str], *, skip_bad: int, seed: int) -> Conversations:
    """Read and check the conversations of a run; without `dev` a seeded share is held out.

    Raises:
        DataError: a file or a line is bad, or there is one conversation alone and no `dev`.
    """
    read = read_chats([Path(path) for path in train], skip_bad=skip_bad)
    texts = list(map(_as_document, read.chats))
    turns = sum(turn.role == "assistant" for chat in read.chats for turn in chat.turns)
    findings = [Finding("conversations", 0, "ok", f"{len(texts):,} conversations, {turns:,} answers")]
    if dev:
        held = read_chats([Path(path) for path in dev], skip_bad=skip_bad)
        findings.append(overlap(texts, list(map(_as_document, held.chats))))
        hashes, bad = read.sha256 | held.sha256, len(read.skipped) + len(held.skipped)
        return Conversations(read.chats, held.chats, findings, hashes, held_out=False, bad_lines=bad)
    if len(texts) < 2:
        raise DataError("one conversation cannot be parted", where=" ".join(train), expected="two, or --dev FILE")
    places = {(text.path, text.line) for text in parted(texts, seed)[1]}
    apart = [(chat.path, chat.line) in places for chat in read.chats]
    kept, put = ([chat for chat, is_held in zip(read.chats, apart, strict=True) if is_held == side]
                 for side in (False, True))  # fmt: skip
    return Conversations(kept, put, findings, read.sha256, held_out=True, bad_lines=len(read.skipped))


def _as_document(chat: Chat) -> Document:
    return Document("\n".join(f"{turn.role} {turn.content.strip()}" for turn in chat.turns), chat.path, chat.line)


class ChatData(InBatchOrder):
    """Conversations as ids: training batches by step, and the loss on the development ones' answers.

    Args:
        train, dev: conversations.
        conventions: what begins and ends a text to the model.
        tokens_per_batch, seed, multiple, max_len: see `TokenBatches`.

    Raises:
        ConfigError: no conversation is short enough.
    """

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, train: Sequence[Chat], dev: Sequence[Chat], *,
        conventions: Conventions, tokens_per_batch: int, seed: int, multiple: int, max_len: int,
    ) -> None:  # fmt: skip
        self.tokenizer, self.template, self.conventions = tokenizer, template, conventions
        self.chats, self.multiple, self.max_len = dev, multiple, max_len
        self.train, self.dev = (
            [exchange(tokenizer, template, chat.turns, max_len) for chat in side] for side in (train, dev)
        )
        lengths = [max_len + 1 if one is None else len(one.ids) - 1 for one in self.train]
        self.order = TokenBatches(
            [(length, length) for length in lengths], tokens_per_batch=tokens_per_batch, seed=seed, multiple=multiple,
            max_len=max_len,
        )  # fmt: skip

    @property
    def left_out(self) -> str | None:
        """A sentence on conversations that are too long; None where there are none."""
        cut = sum(one is not None and one.cut > 0 for one in self.train)
        gone = len(self.order.too_long)
        if not cut + gone:
            return None
        long = f"{cut + gone:,} conversations are longer than {self.max_len} tokens"
        return f"{long}: {cut:,} lose their first turns, {gone:,} are left out"

    def batch(self, step: int, rank: int = 0, world: int = 1) -> TokenBatch:
        """This rank's part of the batch of a step."""
        rows = deal(self.order.batch(step), rank, world)
        return answers([one for i in rows if (one := self.train[i])], self.tokenizer.pad_id, self.multiple)

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss, nats a token of the answers, and dev_perplexity."""
        loss, _ = read_answers(model, [one for one in self.dev if one], self.tokenizer.pad_id)
        return {"dev_loss": loss, "dev_perplexity": math.exp(loss) if loss < 700 else math.inf}


def answers(exchanges: Sequence[Exchange], pad_id: int, multiple: int = 1) -> TokenBatch:
    """B conversations in rows of T predictions; `real` is where an answer is predicted, which is what counts."""
    ids, _ = padded([one.ids[:-1] for one in exchanges], pad_id, multiple)
    targets, _ = padded([one.ids[1:] for one in exchanges], pad_id, multiple)
    learned, _ = padded([[int(value) for value in one.learned[1:]] for one in exchanges], 0, multiple)
    return TokenBatch(ids, targets, learned.bool(), None, None, count=int(learned.sum()))


def read_answers(model: Model, exchanges: Sequence[Exchange], pad_id: int) -> tuple[float, int]:
    """(nats a token, how many tokens) of all answers; NaN where there are none. The model's mode is left as it was."""
    total, count, task = 0.0, 0, LanguageModelTask()
    order = sorted(exchanges, key=lambda one: len(one.ids))
    with evaluating(model):
        for start in range(0, len(order), EVALUATED_TOGETHER):
            batch = answers(order[start : start + EVALUATED_TOGETHER], pad_id).to(model.device)
            total += float(task.loss(model, task.hidden(model, batch), batch))
            count += batch.count
    return (total / count if count else math.nan), count
