"""Laws 10 and 12: where a sequence begins and ends, and what order means."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.laws.law import law
from regard.laws.trial import TOLERANCE, Broken, NotApplicable, Trial, replaced
from regard.model import Learned, NoPositions
from regard.model.positions import Positions

LONG = 256
"""How long a sequence is tried where max_len is only a word; learned positions are tried to their end."""


@law(10, "a sequence of exactly max_len works, its first token at position 0; only learned positions end there")
def first_and_last(trial: Trial) -> Iterator[float]:
    """fairseq #1187, transformers #9116. A long prompt beside a short one: both run to their own end."""
    learned = isinstance(trial.config.positions, Learned)
    n = trial.config.max_len if learned else min(trial.config.max_len, LONG)
    longest = trial.ids(1, n + 1)
    if trial.encodes:
        yield _not_finite(trial.transformer.encode(longest[:, : n if learned else n + 1]))
    if trial.decodes:
        source = trial.source(1)
        yield _not_finite(trial.transformer.decode(longest[:, : n if learned else n + 1], trial.start(source)))
        ids, pos = trial.ids(1, 9), torch.arange(9, device=longest.device)[None]
        yield trial.gap(trial.decoded(ids, trial.start(source)), trial.decoded(ids, trial.start(source), pos=pos))
        yield from _to_their_own_end(trial)
    if learned:
        _must_refuse(trial, longest)


def _not_finite(x: Tensor) -> float:
    return float((~x.isfinite()).sum())


def _must_refuse(trial: Trial, ids: Tensor) -> None:
    """One token too many, for each stack."""
    runs = [lambda: trial.transformer.encode(ids)] if trial.encodes else []
    runs += [lambda: trial.transformer.decode(ids, trial.start(trial.source(1)))] if trial.decodes else []
    for run in runs:
        try:
            run()
        except ConfigError as error:
            if "max_len" not in str(error):
                raise Broken("the refusal of max_len + 1 tokens does not name max_len") from error
        else:
            raise Broken("learned positions accept max_len + 1 tokens")


def _to_their_own_end(trial: Trial) -> Iterator[float]:
    """A row of all but two of the places beside a row of three: columns run beyond the end, tokens must not."""
    end = min(trial.config.max_len, 24)
    rows, source = trial.ids(2, end), trial.source(2)
    state = trial.start(source, capacity=end)
    prompt = [end - 2, 3]
    said = [trial.decoded(rows[:, : end - 2], state, real=trial.real(prompt, end - 2))[1:, :3]]
    for step in range(end - 3):
        places = [min(prompt[0] + step, end - 1), prompt[1] + step]
        ids = rows[torch.arange(2, device=rows.device), torch.tensor(places, device=rows.device)][:, None]
        going = torch.tensor([[step < 2], [True]], device=rows.device)  # the long row has ended after two more
        said.append(trial.decoded(ids, state, real=going)[1:])
    alone = trial.decoded(rows[1:], trial.start(None if source is None else source[1:]))
    yield trial.gap(torch.cat(said, 1), alone)


@law(12, "without positions an encoder cannot tell order, and with them it can")
def order(trial: Trial) -> Iterator[float]:
    """Permuting the tokens permutes what is said (chapter 2.6), once the position scheme is taken away."""
    encoder = trial.transformer.encoder
    if encoder is None:
        raise NotApplicable("the model has no encoder; a decoder's mask tells it order")
    ids = trial.ids(2, 9)
    shuffled = torch.randperm(9, generator=trial.random).to(ids.device)

    def unlike() -> float:
        return trial.gap(trial.encoded(ids[:, shuffled]), trial.encoded(ids)[:, shuffled])

    with replaced(encoder, "positions", Positions(trial.config, causal=False)):
        yield unlike()
    if not isinstance(trial.config.positions, NoPositions) and unlike() <= TOLERANCE[torch.float32]:
        raise Broken("the position scheme does not tell the encoder any order")
