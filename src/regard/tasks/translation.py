"""Translation (chapter 3.1, 4.1): p(y | x) = prod_t p(y_t | y_<t, x), trained on pairs, decoded by search.

What is unusual: the encoder's self-attention, the decoder's masked one and the cross-attention between them are the
model's business; here are only the loss, the examples, and from texts to texts.
What it does not know: files, optimizers, how results are shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data import Batch, Pairs, TokenBatches, collate, deal
from regard.errors import NonFiniteError
from regard.generate import Hypothesis, beam_search
from regard.model import LMHead, Model
from regard.tasks.losses import linear_cross_entropy
from regard.text import Tokenizer

DECODE_TOKENS = 3_000
"""Source tokens decoded together, padding and beams included."""
EVALUATED_TOGETHER = 64
"""Development pairs in one batch; the loss is the same for any number."""


@dataclass(frozen=True)
class TranslationTask:
    """The loss: label-smoothed cross entropy of each target token given those before it and the source."""

    label_smoothing: float = 0.0

    def hidden(self, model: Model, batch: Batch) -> Tensor:
        """The target side under teacher forcing, (B, T, D); its pads are on the right and need no mask."""
        transformer = model.transformer
        memory = transformer.encode(batch.src, real=batch.src_real)
        return transformer.decode(batch.tgt_in, transformer.start(memory, batch.src_real))

    def loss(self, model: Model, hidden: Tensor, batch: Batch) -> Tensor:
        """Sum over the batch's real target tokens."""
        assert isinstance(model.head, LMHead)
        real = hidden[batch.tgt_real]  # (N, D)
        return linear_cross_entropy(
            real if model.head.scale == 1 else real * model.head.scale,
            model.head.projection(model.transformer.tokens.weight),
            batch.tgt_out[batch.tgt_real],
            bias=model.head.bias,
            smoothing=self.label_smoothing,
        )


class TranslationData:
    """Pairs as ids: training batches by step, and the loss on the development pairs.

    Args:
        train, dev: source and target texts as ids without control tokens.
        tokens_per_batch, seed, multiple, max_len: see `TokenBatches`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: tuple[Sequence[list[int]], Sequence[list[int]]],
        dev: tuple[Sequence[list[int]], Sequence[list[int]]],
        *,
        tokens_per_batch: int,
        seed: int,
        multiple: int,
        max_len: int,
    ) -> None:
        self.tokenizer, self.train, self.dev, self.multiple = tokenizer, train, dev, multiple
        lengths = [(len(s) + 1, len(t) + 1) for s, t in zip(*train, strict=True)]
        self.order = TokenBatches(
            lengths, tokens_per_batch=tokens_per_batch, seed=seed, multiple=multiple, max_len=max_len
        )
        self.dev_order = sorted(range(len(dev[0])), key=lambda i: (len(dev[1][i]), len(dev[0][i])))

    @property
    def batches_per_epoch(self) -> int:
        """Steps that see every pair once."""
        return self.order.batches_per_epoch

    @property
    def tokens_per_epoch(self) -> int:
        """Target tokens of one pass over the pairs, ends included."""
        return sum(len(t) + 1 for t in self.train[1])

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """This rank's part of the batch of a step."""
        return self._collate(self.train, deal(self.order.batch(step), rank, world))

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss: nats a target token, ends included, over all development pairs; no smoothing, no dropout."""
        total, count, task = 0.0, 0, TranslationTask()
        was_training = model.training
        model.eval()
        with torch.no_grad():
            for start in range(0, len(self.dev_order), EVALUATED_TOGETHER):
                rows = self.dev_order[start : start + EVALUATED_TOGETHER]
                batch = self._collate(self.dev, rows).to(model.device)
                total += float(task.loss(model, task.hidden(model, batch), batch))
                count += batch.count
        model.train(was_training)
        return {"dev_loss": total / max(1, count)}

    def _collate(self, pairs: tuple[Sequence[list[int]], Sequence[list[int]]], rows: Sequence[int]) -> Batch:
        t = self.tokenizer
        return collate(
            [pairs[0][i] for i in rows], [pairs[1][i] for i in rows],
            pad_id=t.pad_id, bos_id=t.bos_id, eos_id=t.eos_id, multiple=self.multiple,
        )  # fmt: skip


def length_ratio(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> float:
    """The target-to-source length, in tokens with ends, that all but one training pair in a thousand stay under."""
    ratios = [(len(t) + 1) / (len(s) + 1) for s, t in zip(sources, targets, strict=True)]
    return float(np.quantile(ratios, 0.999)) if ratios else 2.0


def search_translations(
    model: Model,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    *,
    ratio: float,
    beam: int,
    n_best: int = 1,
    alpha: float = 1.0,
) -> list[list[Hypothesis]]:
    """The n best outputs of each source (ids without control tokens), in the order given.

    Sources of like length are decoded together. An output may have ratio * source tokens + 10, within max_len.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * (len(sources[order[end]]) + 1) * max(1, beam) <= DECODE_TOKENS:
            end += 1
        rows = order[start:end]
        batch = collate([sources[i] for i in rows], [[] for _ in rows], pad_id=tokenizer.pad_id,
                        bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id).to(model.device)  # fmt: skip
        limits = [min(model.config.max_len, math.ceil(ratio * (len(sources[i]) + 1)) + 10) for i in rows]
        for i, best in zip(rows, _search(model, tokenizer, batch, limits, beam, n_best, alpha), strict=True):
            if not best:
                raise NonFiniteError(
                    "the model gives no finite score to any output", where=f"text {i + 1} of {len(sources)}",
                    mend="its weights are damaged: see regard doctor MODEL",
                )  # fmt: skip
            found[i] = best
        start = end
    return found


@torch.no_grad()
def _search(
    model: Model, tokenizer: Tokenizer, batch: Batch, limits: list[int], beam: int, n_best: int, alpha: float
) -> list[list[Hypothesis]]:
    transformer = model.transformer
    real = None if bool(batch.src_real.all()) else batch.src_real
    memory = transformer.encode(batch.src, real=real)
    state = transformer.start(memory, real, capacity=max(limits) + 1)
    first = torch.full((len(limits),), tokenizer.bos_id, device=model.device)
    banned = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.mask_id)
    return beam_search(
        model, state, first, eos_id=tokenizer.eos_id, limits=torch.tensor(limits, device=model.device),
        beam=beam, n_best=n_best, alpha=alpha, banned=banned,
    )  # fmt: skip


def translate_texts(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], *, ratio: float, beam: int, n_best: int = 1
) -> list[list[tuple[str, Hypothesis]]]:
    """The n best translations of each text, as texts, with the hypotheses they were read from."""
    found = search_translations(model, tokenizer, tokenizer.encode_batch(texts), ratio=ratio, beam=beam, n_best=n_best)
    return [[(tokenizer.decode(h.ids), h) for h in best] for best in found]


def bleu_on(model: Model, tokenizer: Tokenizer, pairs: Pairs, *, ratio: float, at_most: int) -> dict[str, float]:
    """sacrebleu's BLEU and chrF, greedy, on up to `at_most` pairs spread over all; for a run's own log."""
    from sacrebleu import corpus_bleu, corpus_chrf

    some = pairs.take(sorted({round(i * (len(pairs) - 1) / max(1, at_most - 1)) for i in range(at_most)}))
    model.eval()
    outputs = [best[0][0] for best in translate_texts(model, tokenizer, some.source, ratio=ratio, beam=1)]
    bleu, chrf = corpus_bleu(outputs, [some.target]), corpus_chrf(outputs, [some.target])
    return {"dev_bleu": round(bleu.score, 2), "dev_chrf": round(chrf.score, 2)}
