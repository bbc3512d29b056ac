"""What tasks of understanding have in common: texts, or pairs of them, as ids, in batches with their targets.

What is unusual: a text that is too long is cut at its end and counted, never left out; of two texts the longer one
gives first. Targets are a tensor whose rows belong to the texts, so a batch is split and moved without asking what they
mean.
What it does not know: what the targets are (classes, numbers, tags), and files.

Shapes: B texts (or pairs), T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data import TokenBatches, deal, padded
from regard.model import Model
from regard.tasks.base import InBatchOrder
from regard.tasks.groups import alike, tokens_together
from regard.text import Tokenizer


class Read(NamedTuple):
    """One text, or pair, as a model reads it."""

    ids: list[int]
    types: list[int]
    """Of each token, which text it belongs to."""


@dataclass(frozen=True)
class Batch:
    """B texts with their targets.

    Attributes:
        ids, real, types: (B, T); `real` is False at padding.
        targets: (B, ..) whatever the task has them mean.
        counts: (B,) how many losses each row has.
        count: their sum.
    """

    ids: Tensor
    real: Tensor
    types: Tensor
    targets: Tensor
    counts: Tensor

    @property
    def count(self) -> int:
        """How many losses it holds."""
        return int(self.counts.sum())

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device; the counts stay where they are looked at."""
        tensors = {name: getattr(self, name).to(device) for name in ("ids", "real", "types", "targets")}
        return replace(self, **tensors)

    def split(self, n: int) -> list[Batch]:
        """At most `n` micro-batches of contiguous rows, together this batch."""
        n = max(1, min(n, len(self.ids)))
        tensors = (self.ids, self.real, self.types, self.targets, self.counts)
        return [Batch(*part) for part in zip(*(tensor.tensor_split(n) for tensor in tensors), strict=True)]


def wrap_texts(tokenizer: Tokenizer, texts: Sequence[Sequence[int]], most: int) -> tuple[Read, int]:
    """One text, or two, as ids with what the vocabulary puts around, of at most so many tokens in all.

    Returns:
        That, and how many tokens were cut off: of two texts, the longer one's until they are as long.
    """
    first, second = texts[0], texts[1] if len(texts) > 1 else None
    around = len(tokenizer.wrap([], None if second is None else [])[0])
    room = max(0, most - around)
    cut = max(0, len(first) + len(second or ()) - room)
    if cut and second is None:
        first = first[:room]
    elif cut and second is not None:
        of_first = min(len(first), max(room - len(second), -(-room // 2)))
        first, second = first[:of_first], second[: room - of_first]
    return Read(*tokenizer.wrap(first, second)), cut


def read_texts(
    tokenizer: Tokenizer, texts: Sequence[Sequence[str]], most: int, encode: Callable[[str], list[int]] | None = None
) -> tuple[list[Read], list[int]]:
    """Texts, or pairs, as a model reads them, and how many tokens of each were cut off.

    Args:
        most: the most tokens that are read.
        encode: another way from a text to ids than the tokenizer's own.
    """
    parts = len(texts[0]) if texts else 1
    flat = [text for row in texts for text in row]
    ids = tokenizer.encode_batch(flat) if encode is None else [encode(text) for text in flat]
    both = [wrap_texts(tokenizer, ids[i : i + parts], most) for i in range(0, len(ids), parts)]
    return [read for read, _ in both], [cut for _, cut in both]


def hidden_states(model: Model, reads: Sequence[Read]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """(which texts, their hidden states (B, T, D), where they are real (B, T)), those of like length together.

    The caller decides on gradients. Padding is masked, so the states do not depend on what is read together.
    """
    for rows in alike([len(read.ids) for read in reads], tokens_together(model.device)):
        ids, real = padded([reads[i].ids for i in rows], 0, 1)
        types, _ = padded([reads[i].types for i in rows], 0, 1)
        ids, real, types = (tensor.to(model.device) for tensor in (ids, real, types))
        yield rows, encode(model, ids, real, types), real


def encode(model: Model, ids: Tensor, real: Tensor, types: Tensor) -> Tensor:
    """Hidden states (B, T, D) of ids (B, T); types are for models that tell texts apart."""
    told = types if model.config.n_token_types else None
    return model.transformer.encode(ids, real=None if bool(real.all()) else real, types=told)


class TextData(InBatchOrder):
    """The examples of a run as ids: training batches by step.

    Args:
        train: how the model reads each training text.
        targets: rows of training examples -> their targets (B, ..) and counts (B,), given the width T of the batch.
        dropout: a training text, by its number, cut otherwise each time; None: as it stands in `train`.
        cut: how many training texts are longer than what is read of them.
        tokens_per_batch, seed, multiple, max_len: see `TokenBatches`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: Sequence[Read],
        targets: Callable[[Sequence[int], int], tuple[Tensor, Tensor]],
        *,
        dropout: Callable[[int, Random], Read] | None,
        cut: int,
        tokens_per_batch: int,
        seed: int,
        multiple: int,
        max_len: int,
    ) -> None:
        self.tokenizer, self.train, self.cut = tokenizer, train, cut
        self.dropout, self._targets, self._seed, self._multiple = dropout, targets, seed, multiple
        self._max_len = max_len
        sizes = [(len(read.ids), len(read.ids)) for read in train]
        self.order = TokenBatches(sizes, tokens_per_batch=tokens_per_batch, seed=seed, multiple=multiple,
                                  max_len=max_len)  # fmt: skip

    @property
    def left_out(self) -> str | None:
        """A sentence on texts that are too long; None where there are none."""
        what = (
            f"{self.cut:,} of {len(self.train):,} training texts are longer than {self._max_len:,} tokens and are cut"
        )
        return what if self.cut else None

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """This rank's part of the batch of a step."""
        rows = deal(self.order.batch(step), rank, world)
        reads = [self.train[i] for i in rows]
        if self.dropout:
            epoch = step // self.batches_per_epoch
            reads = [self.dropout(i, Random(f"{self._seed} {epoch} {i}")) for i in rows]
        ids, real = padded([read.ids for read in reads], self.tokenizer.pad_id, self._multiple)
        types, _ = padded([read.types for read in reads], 0, self._multiple)
        return Batch(ids, real, types, *self._targets(rows, ids.size(1)))
