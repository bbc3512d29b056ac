"""What a translator says of a translation that is given: how probable it is, and which source token each token is from.

What is unusual: both come from one pass under teacher forcing (chapter 4.1), so nothing is searched. The alignment is
read off the cross-attention, as chapter 18 does: the row of weights that predicted a token, averaged over heads and
layers; its largest entry is the token's source. That is a habit of trained models, not a promise.
What it does not know: texts, files, how the translation was found.

Shapes: B pairs, T target tokens, S source tokens, H heads, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from regard.data import Batch
from regard.model import Model, watch
from regard.tasks.conventions import Conventions
from regard.tasks.groups import alike
from regard.tasks.translation import TranslationTask
from regard.text import Tokenizer

TOGETHER = 4_000
"""Tokens of one pass, on the longer side, padding included."""

IdPairs = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Source and target texts as ids without control tokens."""


@torch.no_grad()
def score_tokens(
    model: Model, tokenizer: Tokenizer, pairs: IdPairs, *, conventions: Conventions | None = None
) -> list[list[float]]:
    """log p of each target token given those before it and the source, the end last; natural logarithm.

    Args:
        conventions: what stands around sources and targets; None: what does in models trained here. What every output
            is forced to begin with is given, and not scored.

    Raises:
        ConfigError: the model has learned positions, and a text is longer than those.
    """
    conventions = conventions or Conventions.read({}, tokenizer)
    given = len(conventions.forced)
    scores: list[list[float]] = [[]] * len(pairs)
    for rows, batch in _batches(model, conventions, pairs):
        hidden = TranslationTask().hidden(model, batch)  # (B, T, D)
        for i, states, real, targets in zip(rows, hidden, batch.tgt_real, batch.tgt_out, strict=True):
            log_p = model.logits(states[real]).double().log_softmax(-1)  # (T, V)
            scores[i] = log_p.gather(1, targets[real][:, None])[given:, 0].tolist()
    return scores


@torch.no_grad()
def align_pairs(
    model: Model,
    tokenizer: Tokenizer,
    pairs: IdPairs,
    leads: Sequence[int] = (),
    *,
    conventions: Conventions | None = None,
) -> list[tuple[tuple[int, int], ...]]:
    """For each pair, (source token, target token) for every target token in turn; both count from 0, ends left out.

    A source must have a token of its own. Raises ConfigError as `score_tokens`.

    Args:
        leads: how many first tokens of each source are not its own (`tasks.prefix`): they are not counted, and
            nobody's origin. None are, when it is empty.
        conventions: see `score_tokens`.
    """
    conventions = conventions or Conventions.read({}, tokenizer)
    given, before = len(conventions.forced), len(conventions.lead)
    links: list[tuple[tuple[int, int], ...]] = [()] * len(pairs)
    for rows, batch in _batches(model, conventions, pairs):
        with watch(model, "decoder.layers.*.cross_attn.weights") as seen:
            TranslationTask().hidden(model, batch)
        weights = torch.stack(list(seen.values())).mean((0, 2))  # (layers, B, H, T, S) -> (B, T, S)
        for i, row in zip(rows, weights, strict=True):
            source, target = pairs[i]
            lead = leads[i] if leads else 0
            # what stands around a source, as its </s>, is nobody's origin
            own = row[given : given + len(target), before + lead : before + len(source)]
            links[i] = tuple((s, t) for t, s in enumerate(own.argmax(-1).tolist()))
    return links


def _batches(model: Model, conventions: Conventions, pairs: IdPairs) -> Iterator[tuple[list[int], Batch]]:
    """Pairs of like length together, with their places in `pairs`."""
    for rows in alike([1 + max(map(len, pair)) for pair in pairs], TOGETHER):
        sources, targets = zip(*(pairs[i] for i in rows), strict=True)
        yield rows, conventions.batch(sources, targets).to(model.device)
