"""What the laws of training must know of the batches and the data of each task: who is in them, and their padding.

What is unusual: all of it is said again here, in the plainest way, so that a law holds a task against something else
than the task itself.
What it does not know: any law, and losses.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data import Batch as PairBatch
from regard.data.packing import TokenBatch
from regard.laws.trial import NotApplicable, Undecided
from regard.tasks.classification import ClassificationData
from regard.tasks.conversations import ChatData, answers
from regard.tasks.language_modeling import LanguageData
from regard.tasks.masked_lm import MaskedBatch, MaskedData, hide
from regard.tasks.quiz import QuestionData
from regard.tasks.reading import Batch as TextBatch
from regard.tasks.reading import Read, TextData
from regard.tasks.spans import WindowBatch
from regard.tasks.tagging import IGNORED, TaggingData
from regard.tasks.translation import TranslationData


def rows_of(batch: Any) -> int:
    """B."""
    return len(batch.src if isinstance(batch, PairBatch) else batch.ids)


def samples(batch: Any) -> list[Any]:
    """Who is in a batch: each row by its own tokens; of packed documents each prediction, (given, said)."""

    def of(ids: Tensor, real: Tensor) -> list[tuple[int, ...]]:
        return [tuple(row[kept].tolist()) for row, kept in zip(ids, real, strict=True)]

    match batch:
        case PairBatch():
            said = of(batch.tgt_in, batch.tgt_real), of(batch.tgt_out, batch.tgt_real)
            return list(zip(of(batch.src, batch.src_real), *said, strict=True))
        case TokenBatch():
            return list(zip(batch.ids[batch.real].tolist(), batch.targets[batch.real].tolist(), strict=True))
        case MaskedBatch():
            return of(batch.targets, batch.real)
        case WindowBatch():
            return list(zip(of(batch.ids, batch.real), map(tuple, batch.targets.tolist()), strict=True))
    return of(batch.ids, batch.real)


def expected(data: Any) -> Counter[Any]:
    """What an epoch must consist of, as `samples` has it: every example once, as it stands in the data."""
    match data:
        case LanguageData():
            own = data.conventions
            documents = [[own.beginning, *data.train.document(i).tolist(), own.end] for i in range(len(data.train))]
            return Counter(pair for document in documents for pair in pairwise(document))
        case ChatData():
            return Counter(samples(answers([one for one in data.train if one], data.tokenizer.pad_id)))
        case QuestionData():
            return Counter((tuple(window.ids), tuple(window.target)) for window in data.windows)
    if (data.variation if isinstance(data, TranslationData) else getattr(data, "dropout", None)) is not None:
        raise NotApplicable("the examples are drawn anew in each epoch")
    left_out = set(data.order.too_long.tolist())
    match data:
        case TranslationData():
            return Counter(_pair(data, i) for i in range(len(data.train[0])) if i not in left_out)
        case TextData():
            return Counter(tuple(read.ids) for i, read in enumerate(data.train) if i not in left_out)
    return Counter(tuple(ids) for i, ids in enumerate(data.train) if i not in left_out)


def _pair(data: TranslationData, number: int) -> tuple[tuple[int, ...], ...]:
    """For the target "a b": the source, [start a b] and [a b end]."""
    own, source, target = data.conventions, data.train[0][number], data.train[1][number]
    return (*own.lead, *source, *own.tail), (*own.first, *target), (*own.forced, *target, own.end)


def widened(batch: Any, more: int) -> Any:
    """The same batch with so many columns of padding more, on both sides of a translation."""

    def wide(x: Tensor, value: int = 0) -> Tensor:
        return torch.cat([x, x.new_full((len(x), more), value)], 1)

    def of(*names: str) -> Any:
        return replace(batch, **{name: wide(getattr(batch, name)) for name in names})

    match batch:
        case PairBatch():
            return of("src", "src_real", "tgt_in", "tgt_out", "tgt_real")
        case TokenBatch():
            # As the packing does: the padding is one document more, and counts from 0.
            none = torch.zeros_like(batch.ids) if batch.documents is None else batch.documents
            pos = torch.arange(batch.ids.size(1)).expand(batch.ids.shape) if batch.pos is None else batch.pos
            return replace(batch, ids=wide(batch.ids), targets=wide(batch.targets), real=wide(batch.real),
                           documents=wide(none, int(none.max()) + 1), pos=wide(pos))  # fmt: skip
        case MaskedBatch():
            return of("ids", "real", "chosen", "targets")
        case WindowBatch():
            return of("ids", "real", "types", "places")
    tags = batch.targets.ndim == 2 and batch.targets.dtype == torch.long
    targets = wide(batch.targets, IGNORED) if tags else batch.targets
    return replace(batch, ids=wide(batch.ids), real=wide(batch.real), types=wide(batch.types), targets=targets)


def scribbled(batch: Any, token: int) -> Any:
    """The same batch with this token wherever there is padding, among what is read and what is to be said."""
    match batch:
        case PairBatch():
            return replace(
                batch, src=batch.src.masked_fill(~batch.src_real, token),
                tgt_in=batch.tgt_in.masked_fill(~batch.tgt_real, token),
                tgt_out=batch.tgt_out.masked_fill(~batch.tgt_real, token),
            )  # fmt: skip
        case TokenBatch():  # after the last prediction of its row; a question before an answer is no padding
            after = batch.real.flip(1).cumsum(1).flip(1) == 0
            return replace(batch, ids=batch.ids.masked_fill(after, token),
                           targets=batch.targets.masked_fill(~batch.real, token))  # fmt: skip
    return replace(batch, ids=batch.ids.masked_fill(~batch.real, token))


def alone(data: Any) -> Iterator[Any]:
    """Each development example (a window, a piece) as a batch of its own, without padding."""
    match data:
        case TranslationData():
            for source, target in zip(*data.dev, strict=True):
                yield data.conventions.batch([source], [target])
        case LanguageData():
            yield from _documents_alone(data)
        case ChatData():
            yield from (answers([one], data.tokenizer.pad_id) for one in data.dev if one)
        case MaskedData():
            for i, ids in enumerate(data.dev):
                drawn = np.random.default_rng([data.seed, 0, i])
                now, where = hide(ids, drawn, mask_id=data.tokenizer.mask_id, plain=data.plain)
                shown, chosen = torch.tensor([now]), torch.tensor([where])
                yield MaskedBatch(shown, torch.ones_like(chosen), chosen, torch.tensor([ids]), sum(where))
        case QuestionData():
            windows = [window for asked in data.dev for window in asked.windows]
            yield from (WindowBatch.of([window], data.tokenizer.pad_id) for window in windows)
        case ClassificationData():
            for i, read in enumerate(data.dev):
                yield _text(read, torch.from_numpy(data.dev_targets[i : i + 1]), 1)
        case TaggingData():
            for pieces, targets in zip(data.dev_pieces, data.dev_targets, strict=True):
                if sum(len(piece.words) for piece in pieces) < len(targets):
                    raise Undecided("no token stands for some word of the development part")
                for piece in pieces:
                    row = torch.full((1, len(piece.read.ids)), IGNORED)
                    row[0, piece.places] = torch.from_numpy(targets[piece.words])
                    yield _text(piece.read, row, len(piece.words))


def _documents_alone(data: LanguageData) -> Iterator[TokenBatch]:
    """Each window of each development document, with the last token before it for a beginning."""
    for number in range(len(data.dev)):
        ids = data.dev.document(number).tolist()
        given, said = [data.conventions.beginning, *ids], [*ids, data.conventions.end]
        for first in range(0, len(said), data.length):
            window = slice(first, first + data.length)
            yield documents([given[window]], [said[window]])


def documents(given: Sequence[Sequence[int]], said: Sequence[Sequence[int]]) -> TokenBatch:
    """Rows of one document each: what is given, and what is to be said."""
    lengths = torch.tensor([len(row) for row in given])
    real = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, T)
    both = [torch.zeros(real.shape, dtype=torch.long) for _ in range(2)]
    for filled, side in zip(both, (given, said), strict=True):
        filled[real] = torch.tensor([token for row in side for token in row])
    return TokenBatch(both[0], both[1], real, None, None, count=int(real.sum()))


def _text(read: Read, targets: Tensor, count: int) -> TextBatch:
    ids = torch.tensor([read.ids])
    return TextBatch(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([read.types]), targets,
                     torch.tensor([count]))  # fmt: skip
