"""From sources to their likeliest translations (chapter 4.1): encoded, searched, read back as text.

What is unusual: sources of like length are searched together, and nobody can tell from the results (law 29).
What it does not know: training, files, how results are shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from regard.data import Batch, collate
from regard.errors import ConfigError, NonFiniteError
from regard.generate import Constraint, Hypothesis, beam_search
from regard.model import Model
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
) -> list[list[Hypothesis]]:
    """The n best outputs of each source (ids without control tokens), in the order given.

    Sources of like length are decoded together. An output may have ratio * source tokens + 10, and as many more as its
    constraint prescribes, within max_len.

    Args:
        constraints: one for each source; none: no output is constrained.

    Raises:
        ConfigError: what a constraint prescribes is longer than the model.
        NonFiniteError: the model says NaN.
    """
    kept = constraints or [FREE] * len(sources)
    if longest := [i for i, constraint in enumerate(kept) if constraint.least >= model.config.max_len]:
        raise ConfigError(
            "what must be said is longer than the model writes", where=f"text {longest[0] + 1} of {len(sources)}",
            expected=f"less than {model.config.max_len:,} tokens", got=f"{kept[longest[0]].least:,}",
        )  # fmt: skip
    width = [constraint.width(beam) for constraint in kept]
    order = sorted(range(len(sources)), key=lambda i: (width[i], len(sources[i])))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    start = 0
    while start < len(order):
        end = start + 1
        while (
            end < len(order)
            and width[order[end]] == width[order[start]]
            and (end + 1 - start) * (len(sources[order[end]]) + 1) * width[order[end]] <= DECODE_TOKENS
        ):
            end += 1
        rows = order[start:end]
        batch = collate([sources[i] for i in rows], [[] for _ in rows], pad_id=tokenizer.pad_id,
                        bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id).to(model.device)  # fmt: skip
        limits = [
            min(model.config.max_len, math.ceil(ratio * (len(sources[i]) + 1)) + 10 + kept[i].least) for i in rows
        ]
        ours = [kept[i] for i in rows] if constraints else []
        for i, best in zip(rows, _search(model, tokenizer, batch, limits, beam, n_best, alpha, ours), strict=True):
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
    model: Model,
    tokenizer: Tokenizer,
    batch: Batch,
    limits: list[int],
    beam: int,
    n_best: int,
    alpha: float,
    constraints: Sequence[Constraint],
) -> list[list[Hypothesis]]:
    transformer = model.transformer
    real = None if bool(batch.src_real.all()) else batch.src_real
    memory = transformer.encode(batch.src, real=real)
    state = transformer.start(memory, real, capacity=max(limits) + 1)
    first = torch.full((len(limits),), tokenizer.bos_id, device=model.device)
    # No text is written with a special token. <unk> stands for text, and </s> ends it.
    ids = {tokenizer.token_id(token) or 0 for token in tokenizer.specials}
    banned = tuple(sorted(ids - {tokenizer.unk_id, tokenizer.eos_id}))
    return beam_search(
        model, state, first, eos_id=tokenizer.eos_id, limits=torch.tensor(limits, device=model.device),
        beam=beam, n_best=n_best, alpha=alpha, banned=banned, constraints=constraints,
    )  # fmt: skip
