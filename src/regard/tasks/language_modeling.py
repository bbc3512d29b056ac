"""Language modelling (chapter 3.2, 4.3): log p(x) = sum_t log p(x_t+1 | x_1 .. x_t), on rows packed out of documents.

What is unusual: losses are sums over predictions, so perplexity is exp(total nats / predictions) whatever the batches
(law 33), and bits per byte count the text's raw UTF-8 bytes, with every document's end predicted too. Models with
different vocabularies compare by the second alone.
What it does not know: files, generation.

Shapes: B rows, T predictions in a row, N real predictions, D d_model, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import padded
from regard.data.corpus import Corpus
from regard.data.packing import PackedBatches, TokenBatch, windows
from regard.model import LMHead, Model
from regard.tasks.base import evaluating
from regard.tasks.baselines import bits_per_unit
from regard.tasks.conventions import Conventions
from regard.tasks.groups import alike
from regard.tasks.losses import CHUNK_BYTES, linear_cross_entropy
from regard.text import Tokenizer

EVALUATED_TOKENS = 8_192
"""Predictions in one batch of an evaluation, about."""


@dataclass(frozen=True)
class LanguageModelTask:
    """Cross entropy of each token after those before it in its document."""

    def hidden(self, model: Model, batch: TokenBatch) -> Tensor:
        """What the decoder makes of the rows, (B, T, D); the pads of the last row are on the right."""
        transformer = model.transformer
        return transformer.decode(batch.ids, transformer.start(), pos=batch.pos, documents=batch.documents)

    def loss(self, model: Model, hidden: Tensor, batch: TokenBatch) -> Tensor:
        """Sum over the batch's predictions."""
        assert isinstance(model.head, LMHead)
        weight, scale = model.head.projection(model.transformer.output_embedding), model.head.scale
        whole = batch.count == batch.targets.numel()
        said, wanted = (hidden.flatten(0, 1), batch.targets.flatten()) if whole else (
            hidden[batch.real], batch.targets[batch.real]
        )  # fmt: skip
        return linear_cross_entropy(said if scale == 1 else said * scale, weight, wanted, bias=model.head.bias)


@dataclass(frozen=True)
class Reading:
    """How well a model foretold a text.

    Attributes:
        nats: - log p of all predictions, natural logarithm.
        predictions: tokens and documents' ends.
        n_bytes: of the text in UTF-8.
        by_position: (T, 2) nats and predictions at each place of a window.
    """

    nats: float
    predictions: int
    n_bytes: int
    by_position: np.ndarray

    @property
    def loss(self) -> float:
        """Nats a prediction."""
        return self.nats / self.predictions if self.predictions else math.nan

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that is beyond what a float holds."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Bits for each byte of the text, ends paid for as well."""
        return bits_per_unit(self.nats, self.n_bytes)


def read_corpus(model: Model, corpus: Corpus, *, length: int, bos_id: int, eos_id: int, pad_id: int) -> Reading:
    """The loss over every prediction of a corpus once, in windows of `length`, each blind to those before it.

    The model is left in the mode it was in.
    """
    batches = windows(
        corpus, length=length, rows=max(1, EVALUATED_TOKENS // length), bos_id=bos_id, eos_id=eos_id, pad_id=pad_id
    )
    sums = np.zeros((length, 2))
    with evaluating(model):
        for places, nats in _each(model, batches):
            np.add.at(sums[:, 0], places, nats)
            np.add.at(sums[:, 1], places, 1)
    return Reading(float(sums[:, 0].sum()), int(sums[:, 1].sum()), corpus.bytes, sums)


@torch.no_grad()
def _each(model: Model, batches: Iterable[TokenBatch]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """(places in their window, nats) of each batch's predictions."""
    for batch in batches:
        moved = batch.to(model.device)
        hidden = LanguageModelTask().hidden(model, moved)
        pos = torch.arange(batch.ids.size(1)).expand(batch.ids.shape) if batch.pos is None else batch.pos
        yield pos[batch.real].numpy(), _nats(model, hidden[moved.real], moved.targets[moved.real]).cpu().numpy()


@torch.no_grad()
def score_texts(model: Model, texts: Sequence[Sequence[int]], *, before: Sequence[int], end: int) -> list[list[float]]:
    """log p of each token of each text after those before it, the end last; natural logarithm.

    Args:
        texts: as ids without control tokens.
        before: what each begins with, one token at least; it is given, and not scored.
    """
    scores: list[list[float]] = [[]] * len(texts)
    for rows in alike([len(before) + len(ids) for ids in texts], EVALUATED_TOKENS):
        given, real = padded([[*before, *texts[i]] for i in rows], end, 1)
        wanted, _ = padded([[*before[1:], *texts[i], end] for i in rows], end, 1)
        real[:, : len(before) - 1] = False
        hidden = model.transformer.decode(given.to(model.device), model.transformer.start())  # (B, T, D)
        there = real.to(model.device)
        nats = _nats(model, hidden[there], wanted.to(model.device)[there]).split(real.sum(1).tolist())
        for i, own in zip(rows, nats, strict=True):
            scores[i] = (-own.double()).tolist()
    return scores


def _nats(model: Model, hidden: Tensor, targets: Tensor) -> Tensor:
    """- log p of each of N targets, (N,), with the logits of some at a time."""
    rows = max(1, CHUNK_BYTES // (4 * model.config.target_vocab_size))
    parts = zip(hidden.split(rows), targets.split(rows), strict=True)
    losses = [F.cross_entropy(_wide(model.logits(h)), t, reduction="none") for h, t in parts]
    return torch.cat(losses) if losses else hidden.new_zeros(0)


def _wide(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


class LanguageData:
    """Documents as ids: training batches by step, and the loss on the development documents.

    Args:
        train, dev: the documents.
        length: T, the predictions in a row: how far back the model learns to look.
        tokens_per_batch: predictions in a step.
        seed: of the order.
        conventions: what begins and ends a text; None: what does in models trained here.
    """

    def __init__(
        self, tokenizer: Tokenizer, train: Corpus, dev: Corpus, *, length: int, tokens_per_batch: int, seed: int,
        conventions: Conventions | None = None,
    ) -> None:  # fmt: skip
        self.tokenizer, self.train, self.dev, self.length = tokenizer, train, dev, length
        self.conventions = conventions or Conventions.read({}, tokenizer)
        begin, end = self.conventions.beginning, self.conventions.end
        self.control = {"bos_id": begin, "eos_id": end, "pad_id": tokenizer.pad_id}
        rows = max(1, tokens_per_batch // length)
        self.order = PackedBatches(train, length=length, rows=rows, seed=seed, **self.control)

    @property
    def batches_per_epoch(self) -> int:
        """Steps that see every token once."""
        return self.order.batches_per_epoch

    @property
    def left_out(self) -> None:
        """Nothing is: a long document goes on in another row."""
        return None

    def examples(self, step: int) -> list[int]:
        """The documents that a step's batch is made of."""
        return self.order.documents(step)

    def batch(self, step: int, rank: int = 0, world: int = 1) -> TokenBatch:
        """This rank's part of the batch of a step."""
        return self.order.batch(step, rank, world)

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss, nats a prediction; dev_perplexity; dev_bits_per_byte."""
        read = read_corpus(model, self.dev, length=self.length, **self.control)
        return {"dev_loss": read.loss, "dev_perplexity": read.perplexity, "dev_bits_per_byte": read.bits_per_byte}
