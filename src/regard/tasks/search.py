"""From sources to their likeliest translations (chapter 4.1): encoded, searched, read back as text.

What is unusual: sources of like length are searched together, and nobody can tell from the results (law 29).
What it does not know: training, files, how results are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from regard.data import Batch
from regard.errors import ConfigError, NonFiniteError
from regard.generate import Constraint, Hypothesis, beam_search
from regard.model import DecodeState, Model
from regard.tasks.conventions import Conventions
from regard.tasks.groups import alike
from regard.text import Tokenizer

DECODE_TOKENS = 8_000
"""Source tokens decoded together, padding and beams included: some hundred rows, so that a step's products are large.
The keys and values of a model of 6 layers of width 512 then take some 0.3 GB."""
FREE = Constraint()


def search_translations(
    model: Model,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    *,
    ratio: float,
    beam: int,
    n_best: int = 1,
    alpha: float = 1.0,
    constraints: Sequence[Constraint] = (),
    conventions: Conventions | None = None,
) -> list[list[Hypothesis]]:
    """The n best outputs of each source (ids without control tokens), in the order given.

    Sources of like length are decoded together. An output may have ratio * source tokens + 10, and as many more as its
    constraint prescribes, within max_len.

    Args:
        tokenizer: of the outputs.
        constraints: one for each source; none: no output is constrained.
        conventions: what stands around sources and outputs; None: what does in models trained here.

    Raises:
        ConfigError: what a constraint prescribes is longer than the model, or the conventions lack a start or an end.
        NonFiniteError: the model says NaN.
    """
    kept = constraints or [FREE] * len(sources)
    conventions = conventions or Conventions.read({}, tokenizer)
    most = conventions.most_said(model.config.max_len)
    if longest := [i for i, constraint in enumerate(kept) if constraint.least >= most]:
        raise ConfigError(
            "what must be said is longer than the model writes", where=f"text {longest[0] + 1} of {len(sources)}",
            expected=f"less than {most:,} tokens", got=f"{kept[longest[0]].least:,}",
            mend="shorten the prefix or the glossary's terms",
        )  # fmt: skip
    # An id that is no token's, as in a vocabulary padded to a round size, would be no text either.
    banned = (*conventions.silent, *range(tokenizer.vocab_size, model.config.target_vocab_size))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for rows in _together([len(source) + 1 for source in sources], [constraint.width(beam) for constraint in kept]):
        batch = conventions.batch([sources[i] for i in rows], [[] for _ in rows]).to(model.device)
        limits = [_limit(len(sources[i]), ratio, kept[i].least, most) for i in rows]
        state = _start(model, batch, capacity=max(limits) + batch.tgt_in.size(1))
        several = beam_search(
            model, state, batch.tgt_in, ends=conventions.ends, limits=torch.tensor(limits, device=model.device),
            beam=beam, n_best=n_best, alpha=alpha, banned=banned,
            constraints=[kept[i] for i in rows] if constraints else [],
        )  # fmt: skip
        for i, best in zip(rows, several, strict=True):
            if not best:
                raise NonFiniteError(
                    "the model gives no finite score to any output", where=f"text {i + 1} of {len(sources)}",
                    mend="its weights are damaged: see regard doctor MODEL",
                )  # fmt: skip
            found[i] = best
    return found


def _limit(source: int, ratio: float, prescribed: int, most: int) -> int:
    return min(most, math.ceil(ratio * (source + 1)) + 10 + prescribed)


def _together(lengths: Sequence[int], widths: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of all sources in groups: of one width each, of like length, of at most DECODE_TOKENS tokens."""
    for width in sorted(set(widths)):
        places = [i for i, own in enumerate(widths) if own == width]
        for group in alike([lengths[i] * width for i in places], DECODE_TOKENS):
            yield [places[k] for k in group]


@torch.no_grad()
def _start(model: Model, batch: Batch, *, capacity: int) -> DecodeState:
    """A state to decode with after the sources have been read."""
    real = None if bool(batch.src_real.all()) else batch.src_real
    memory = model.transformer.encode(batch.src, real=real)
    return model.transformer.start(memory, real, capacity=capacity)
