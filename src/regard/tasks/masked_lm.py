"""Masked language modelling (Devlin et al. 2019; chapter 4.2): guess the tokens that were hidden from both sides.

Of each text's tokens 15 % are chosen; of these 80 % become <mask>, 10 % another token, 10 % stay, and the loss is over
the chosen ones alone (law 20).
What is unusual: what is hidden is a function of seed, step and text, so a resumed run hides the same, on any number of
ranks; the vocabulary is projected for chosen tokens only, a seventh of the whole.
What it does not know: files, and what the guesses are for.

Shapes: B rows, T tokens, N chosen tokens, D d_model, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from regard.data import TokenBatches, deal, padded
from regard.data.corpus import Corpus
from regard.model import MaskedLMHead, Model
from regard.tasks.base import InBatchOrder, evaluating
from regard.tasks.losses import linear_cross_entropy
from regard.text import Tokenizer

CHOSEN, HIDDEN, CHANGED = 0.15, 0.8, 0.1
EVALUATED_TOGETHER = 32


@dataclass(frozen=True)
class MaskedBatch:
    """Texts with tokens hidden.

    Attributes:
        ids: (B, T) what the model reads.  real: (B, T) False at padding.
        chosen: (B, T) bool, where to guess.  targets: (B, T) the true ids.
        count: how many are chosen.
    """

    ids: Tensor
    real: Tensor
    chosen: Tensor
    targets: Tensor
    count: int

    def to(self, device: torch.device | str) -> MaskedBatch:
        """The same batch on another device."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "count"}
        return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})

    def split(self, n: int) -> list[MaskedBatch]:
        """At most `n` micro-batches of contiguous rows, together this batch."""
        n = max(1, min(n, len(self.ids)))
        tensors = (self.ids, self.real, self.chosen, self.targets)
        ids, real, chosen, targets = (tensor.tensor_split(n) for tensor in tensors)
        return [MaskedBatch(*part, count=int(part[2].sum())) for part in zip(ids, real, chosen, targets, strict=True)]


def hide(
    ids: Sequence[int], random: np.random.Generator, *, mask_id: int, plain: np.ndarray
) -> tuple[list[int], list[bool]]:
    """One text with tokens hidden, and where.

    Args:
        ids: T tokens, control tokens included.
        plain: (V,) True for tokens that are text: only these are chosen, and only these stand in for others.
    """
    now = np.array(ids, dtype=np.int64)
    chosen = (random.random(len(now)) < CHOSEN) & plain[now]
    fate = random.random(len(now))
    others = np.flatnonzero(plain)[random.integers(plain.sum(), size=len(now))]
    now = np.where(chosen & (fate < HIDDEN), mask_id, now)
    now = np.where(chosen & (fate >= HIDDEN) & (fate < HIDDEN + CHANGED), others, now)
    return now.tolist(), chosen.tolist()


@dataclass(frozen=True)
class MaskedLMTask:
    """Cross entropy of the chosen tokens."""

    def hidden(self, model: Model, batch: MaskedBatch) -> Tensor:
        """What the encoder makes of the texts, (B, T, D)."""
        return model.transformer.encode(batch.ids, real=None if bool(batch.real.all()) else batch.real)

    def loss(self, model: Model, hidden: Tensor, batch: MaskedBatch) -> Tensor:
        """Sum over the batch's chosen tokens."""
        head = model.head
        assert isinstance(head, MaskedLMHead)
        guessing = head.transform(hidden[batch.chosen]) * head.scale  # (N, D)
        weight = head.projection(model.transformer.output_embedding)
        return linear_cross_entropy(guessing, weight, batch.targets[batch.chosen], bias=head.bias)


class MaskedData(InBatchOrder):
    """Texts as ids: training batches by step, and the loss on the development texts.

    Args:
        train, dev: texts as ids with their control tokens.
        tokens_per_batch, seed, multiple, max_len: see `TokenBatches`.
    """

    def __init__(
        self, tokenizer: Tokenizer, train: Sequence[list[int]], dev: Sequence[list[int]], *, vocab_size: int,
        tokens_per_batch: int, seed: int, multiple: int, max_len: int,
    ) -> None:  # fmt: skip
        self.tokenizer, self.train, self.dev = tokenizer, train, dev
        self.seed, self.multiple = seed, multiple
        self.plain = np.ones(vocab_size, dtype=bool)
        known = tokenizer.vocab_size
        self.plain[known:] = False  # rows that pad the vocabulary
        self.plain[[index for token in tokenizer.specials if (index := tokenizer.token_id(token)) is not None]] = False
        self.order = TokenBatches(
            [(len(ids), len(ids)) for ids in train],
            tokens_per_batch=tokens_per_batch, seed=seed, multiple=multiple, max_len=max_len,
        )  # fmt: skip
        self.dev_order = sorted(range(len(dev)), key=lambda i: len(dev[i]))

    @property
    def left_out(self) -> str | None:
        """A sentence on texts that are too long; None where there are none."""
        left = len(self.order.too_long)
        return f"{left:,} pieces of text are longer than the model and left out" if left else None

    def batch(self, step: int, rank: int = 0, world: int = 1) -> MaskedBatch:
        """This rank's part of the batch of a step."""
        return self._collate(self.train, deal(self.order.batch(step), rank, world), step)

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss: nats a hidden token, over the same hidden tokens each time; dev_accuracy: the share guessed."""
        total, right, count, task = 0.0, 0, 0, MaskedLMTask()
        with evaluating(model):
            for start in range(0, len(self.dev_order), EVALUATED_TOGETHER):
                batch = self._collate(self.dev, self.dev_order[start : start + EVALUATED_TOGETHER], -1).to(model.device)
                if not batch.count:
                    continue
                hidden = task.hidden(model, batch)
                total += float(task.loss(model, hidden, batch))
                guesses = model.logits(hidden[batch.chosen]).argmax(-1)
                right += int((guesses == batch.targets[batch.chosen]).sum())
                count += batch.count
        return {"dev_loss": total / count if count else math.nan, "dev_accuracy": right / max(1, count)}

    def _collate(self, texts: Sequence[list[int]], rows: Sequence[int], step: int) -> MaskedBatch:
        mask_id = self.tokenizer.mask_id
        both = [
            hide(texts[i], np.random.default_rng([self.seed, step + 1, i]), mask_id=mask_id, plain=self.plain)
            for i in rows
        ]
        ids, real = padded([now for now, _ in both], self.tokenizer.pad_id, self.multiple)
        targets, _ = padded([texts[i] for i in rows], self.tokenizer.pad_id, self.multiple)
        chosen, _ = padded([[int(c) for c in where] for _, where in both], 0, self.multiple)
        return MaskedBatch(ids, real, chosen.bool(), targets, count=int(chosen.sum()))


def pieces(corpus: Corpus, most: int, tokenizer: Tokenizer) -> list[list[int]]:
    """Each document in pieces of at most so many tokens, with what the vocabulary puts around a text."""
    found = list[list[int]]()
    for number in range(len(corpus)):
        ids = corpus.document(number).tolist()
        found += [tokenizer.wrap(ids[start : start + most])[0] for start in range(0, len(ids), most)]
    return found
