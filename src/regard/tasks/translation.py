"""Translation (chapter 3.1, 4.1): p(y | x) = prod_t p(y_t | y_<t, x), trained on pairs, decoded by search.

What is unusual: the encoder's self-attention, the decoder's masked one and the cross-attention between them are the
model's business; here are only the loss, the examples, and from texts to texts.
What it does not know: files, optimizers, how results are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data import Batch, Pairs, TokenBatches, deal
from regard.model import LMHead, Model
from regard.tasks.base import InBatchOrder, evaluating
from regard.tasks.conventions import Conventions
from regard.tasks.losses import linear_cross_entropy
from regard.tasks.metrics import translation_metrics
from regard.tasks.rdrop import symmetric_divergence
from regard.tasks.search import search_translations
from regard.tasks.variation import Variation
from regard.text import Tokenizer

EVALUATED_TOGETHER = 64
"""Development pairs in one batch; the loss is the same for any number."""


@dataclass(frozen=True)
class TranslationTask:
    """The loss: label-smoothed cross entropy of each target token given those before it and the source.

    Attributes:
        rdrop: alpha of R-Drop (Liang et al. 2021). Each batch goes through twice under different dropout; the loss is
            the mean cross entropy of both, and alpha / 4 of their symmetric divergence: the paper's, halved, so that
            it is still a cross entropy a token. 0: once.
    """

    label_smoothing: float = 0.0
    rdrop: float = 0.0

    def hidden(self, model: Model, batch: Batch) -> Tensor:
        """The target side under teacher forcing, (B, T, D); its pads are on the right and need no mask.

        With R-Drop (2 B, T, D): the batch, and the batch again.
        """
        transformer, again = model.transformer, 2 if self.rdrop else 1
        real = batch.src_real.repeat(again, 1)
        memory = transformer.encode(batch.src.repeat(again, 1), real=real)
        return transformer.decode(batch.tgt_in.repeat(again, 1), transformer.start(memory, real))

    def loss(self, model: Model, hidden: Tensor, batch: Batch) -> Tensor:
        """Sum over the batch's real target tokens."""
        assert isinstance(model.head, LMHead)
        weight, bias, scale = (
            model.head.projection(model.transformer.output_embedding),
            model.head.bias,
            model.head.scale,
        )
        passes = [part[batch.tgt_real] for part in hidden.chunk(2 if self.rdrop else 1)]  # (N, D) each
        passes = passes if scale == 1 else [real * scale for real in passes]
        wanted = batch.tgt_out[batch.tgt_real].repeat(len(passes))
        loss = linear_cross_entropy(torch.cat(passes), weight, wanted, bias=bias, smoothing=self.label_smoothing)
        if not self.rdrop:
            return loss
        return loss / 2 + self.rdrop / 4 * symmetric_divergence(passes[0], passes[1], weight, bias=bias)


class TranslationData(InBatchOrder):
    """Pairs as ids: training batches by step, and the loss on the development pairs.

    Args:
        tokenizer: of the targets.
        train, dev: source and target texts as ids without control tokens, what goes before each source included.
        variation: makes the training pairs anew in each epoch; None: they stay what they are.
        conventions: what stands around sources and targets; None: what does in models trained here.
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
        variation: Variation | None = None,
        conventions: Conventions | None = None,
    ) -> None:
        self.tokenizer, self.train, self.dev, self.multiple = tokenizer, train, dev, multiple
        self.variation, self.max_len = variation, max_len
        self.conventions = conventions or Conventions.read({}, tokenizer)
        lengths = list(map(self.conventions.lengths, *train))
        self.order = TokenBatches(
            lengths, tokens_per_batch=tokens_per_batch, seed=seed, multiple=multiple, max_len=max_len
        )
        self.dev_order = sorted(range(len(dev[0])), key=lambda i: (len(dev[1][i]), len(dev[0][i])))

    @property
    def left_out(self) -> str | None:
        """A sentence on pairs that are too long; None where there are none."""
        left = len(self.order.too_long)
        return f"{left:,} pairs are longer than {self.max_len} tokens and left out" if left else None

    @property
    def tokens_per_epoch(self) -> int:
        """Target tokens of one pass over the pairs, ends included."""
        return sum(len(t) + 1 for t in self.train[1])

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """This rank's part of the batch of a step; a variation's pieces may make it longer than it was counted."""
        rows = deal(self.order.batch(step), rank, world)
        if self.variation is None:
            return self._collate(self.train, rows)
        return self._collate(self.variation.ids(rows, step // self.batches_per_epoch), range(len(rows)))

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss: nats a target token, ends included, over all development pairs; no smoothing, no dropout."""
        total, count, task = 0.0, 0, TranslationTask()
        with evaluating(model):
            for start in range(0, len(self.dev_order), EVALUATED_TOGETHER):
                rows = self.dev_order[start : start + EVALUATED_TOGETHER]
                batch = self._collate(self.dev, rows).to(model.device)
                total += float(task.loss(model, task.hidden(model, batch), batch))
                count += batch.count
        return {"dev_loss": total / max(1, count)}

    def _collate(self, pairs: tuple[Sequence[list[int]], Sequence[list[int]]], rows: Sequence[int]) -> Batch:
        sources, targets = ([side[i] for i in rows] for side in pairs)
        return self.conventions.batch(sources, targets, multiple=self.multiple)


def length_ratio(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> float:
    """The target-to-source length, in tokens with ends, that all but one training pair in a thousand stay under."""
    ratios = [(len(t) + 1) / (len(s) + 1) for s, t in zip(sources, targets, strict=True)]
    return float(np.quantile(ratios, 0.999)) if ratios else 2.0


def longest_seen(sources: Sequence[list[int]], most: int) -> int:
    """How many tokens all but one in a thousand of the sources have that a model of `most` tokens is trained on."""
    lengths = [len(source) for source in sources if len(source) < most]
    return int(np.quantile(lengths, 0.999)) if lengths else most


def bleu_on(
    model: Model, data: TranslationData, pairs: Pairs, *, language: str | None, at_most: int
) -> tuple[dict[str, float], dict[str, str]]:
    """sacrebleu's BLEU and chrF, greedy, on up to `at_most` development pairs spread over all, and their signatures.

    Of several target languages, each is scored apart (`dev_bleu_de`) and `dev_bleu` is their mean: a BLEU over all
    would have no one way to cut words.

    Args:
        pairs: the texts of `data.dev`.
        language: the target's, where `pairs.to` does not say it.
    """
    rows = sorted({round(i * (len(pairs) - 1) / max(1, at_most - 1)) for i in range(at_most)})
    sources, ratio = [data.dev[0][i] for i in rows], length_ratio(*data.train)
    model.eval()
    found = search_translations(
        model, data.tokenizer, sources, ratio=ratio, beam=1, conventions=data.conventions
    )  # fmt: skip
    by_language: dict[str | None, list[tuple[str, str]]] = {}
    for i, best in zip(rows, found, strict=True):
        code = language if pairs.to is None else pairs.to[i]
        by_language.setdefault(code, []).append((data.tokenizer.decode(best[0].ids), pairs.target[i]))
    scores, signatures = dict[str, list[float]](), dict[str, str]()
    for code, both in by_language.items():
        outputs, references = zip(*both, strict=True)
        for name, metric in translation_metrics(outputs, references, code).items():
            own = f"dev_{name}_{code}" if len(by_language) > 1 else f"dev_{name}"
            scores.setdefault(f"dev_{name}", []).append(metric["score"])
            scores[own], signatures[own] = [metric["score"]], metric["signature"]
    return {name: round(sum(values) / len(values), 2) for name, values in scores.items()}, signatures
