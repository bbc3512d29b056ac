"""Laws 1, 3, 4, 5: decoding with a cache, step by step, in rows of different lengths, is the full pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from regard.laws.law import law
from regard.laws.trial import NotApplicable, Trial, Undecided
from regard.model import LMHead

MARGIN = 1e-3
"""By how much, in standard deviations, the best token must lead at each step for "the same tokens" to mean anything:
matrix products of other batch sizes differ in their last bits."""


@law(1, "prompts generated in one batch give the same tokens as one by one", exact=True)
def prompts_in_a_batch(trial: Trial) -> Iterator[float]:
    """Prompts of 1, 3 and 9 tokens, sources of 4, 2 and 6, continued greedily (transformers #26569, #25790)."""
    trial.needs_decoder()
    if not isinstance(trial.model.head, LMHead):
        raise NotApplicable("the head does not say tokens")
    prompts = [trial.ids(1, n)[0] for n in (1, 3, 9)]
    sources = [source[0] for n in (4, 2, 6) if (source := trial.source(1, n)) is not None]
    together, margins = greedy(trial, prompts, sources)
    singles = [greedy(trial, prompts[i : i + 1], sources[i : i + 1]) for i in range(3)]
    if not torch.cat([margins, *(leads for _, leads in singles)]).min() >= MARGIN:  # nor if it is not a number
        raise Undecided("two tokens are almost equally likely at some step")
    yield trial.differing(together, torch.cat([tokens for tokens, _ in singles]))


def greedy(trial: Trial, prompts: Sequence[Tensor], sources: Sequence[Tensor], steps: int = 6) -> tuple[Tensor, Tensor]:
    """Each prompt's likeliest continuation, (B, steps), and by how much its tokens led at least, (steps,)."""
    ids, real = trial.padded(prompts)
    state = trial.start(*trial.padded(sources) if sources else (None,), capacity=ids.size(1) + steps)
    last = real.sum(-1) - 1
    said = trial.decoded(ids, state, real=real)[torch.arange(len(ids), device=ids.device), last]  # (B, V)
    tokens, leads = [], []
    for _ in range(steps):
        best = said.topk(2).values
        leads.append((best[:, 0] - best[:, 1]).min() / said.std())
        tokens.append(said.argmax(-1, keepdim=True))
        said = trial.decoded(tokens[-1], state)[:, -1]
    return torch.cat(tokens, 1), torch.stack(leads)


@law(3, "step by step with a cache is the full pass")
def cached_is_full(trial: Trial) -> Iterator[float]:
    """At every position, from the first token on and after a prompt (x-transformers #219)."""
    trial.needs_decoder()
    ids, source = trial.ids(2, 12), trial.source(2)
    full = trial.decoded(ids, trial.start(source))
    for prompt in (1, 5):
        state = trial.start(source, capacity=12)
        pieces = [ids[:, :prompt], *ids[:, prompt:].split(1, 1)]
        yield trial.gap(torch.cat([trial.decoded(piece, state) for piece in pieces], 1), full)


@law(4, "a chunk of queries after a cache sees what it sees in the full pass")
def chunk_on_a_cache(trial: Trial) -> Iterator[float]:
    """1 or 3 queries on 7 keys: causal where T != S (pytorch #108108, #144858)."""
    trial.needs_decoder()
    ids, source = trial.ids(2, 10), trial.source(2)
    full = trial.decoded(ids, trial.start(source))
    for width in (1, 3):
        state = trial.start(source, capacity=10)
        trial.decoded(ids[:, :7], state)
        yield trial.gap(trial.decoded(ids[:, 7 : 7 + width], state), full[:, 7 : 7 + width])


@law(5, "rows with prompts of different lengths continue as if each were alone")
def ragged_rows(trial: Trial) -> Iterator[float]:
    """Prompts of 2, 5 and 9 tokens, five more each (transformers #22161, CTranslate2 #1572)."""
    trial.needs_decoder()
    rows, prompts = [trial.ids(1, n + 5)[0] for n in (2, 5, 9)], (2, 5, 9)
    source = trial.source(3)
    ids, real = trial.padded([row[:n] for row, n in zip(rows, prompts, strict=True)])
    state = trial.start(source, capacity=14)
    steps = [trial.decoded(ids, state, real=real)]
    for step in range(5):
        nexts = [row[n + step] for row, n in zip(rows, prompts, strict=True)]
        steps.append(trial.decoded(torch.stack(nexts)[:, None], state))
    for i, (row, n) in enumerate(zip(rows, prompts, strict=True)):
        alone = trial.decoded(row[None], trial.start(None if source is None else source[i : i + 1]))
        yield trial.gap(torch.cat([steps[0][i : i + 1, :n], *(said[i : i + 1] for said in steps[1:])], 1), alone)
