"""Which token comes next: from a row of logits to one id, by settings that each row has for itself.

The order is fixed, and it is that of `transformers`:

    1  penalties     repetition: a logit z of a token that the prompt or the output holds becomes z / r, or z r below 0;
                     presence: one that the output holds loses p
    2  temperature   z / T; at 0 the greatest is taken, and 3 to 5 have nothing to say
    3  top-k         the k greatest stay
    4  top-p         of these the fewest that hold a share p of the probability stay, and at least one
    5  min-p         of these stay those at least m times as probable as the likeliest
    6  the draw      by the row's own random number, from what is left

(vLLM puts 5 before 3: with min-p and top-p both in use, top-p is then a share of less.)
What is unusual: a draw takes one random number in [0, 1), from a generator that only its row has. So the same logits
and seed give the same text whatever else is in the batch, on whatever device. In float32 the logits are the same for
this purpose; in bfloat16 and int8 products of several rows round otherwise than those of one, and a draw that falls
between two tokens may take the other. What it does not know: models, text.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.generate.beam import greatest
from regard.machine import check_seed

NOTHING = -1
"""In place of a token: every one is ruled out."""
LOOKED_AT = 128
"""How many of the greatest logits are sorted to find those that top-p keeps; 8 times as many where they fall short."""


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """How the tokens of one row are chosen; the module says in which order.

    Attributes:
        temperature: 0 is greedy; 1 draws from what the model says; above 1 is bolder.
        top_k: how many of the likeliest tokens to draw from; 0: all.
        top_p: the share of the probability to draw from, in [0, 1]; 1: all.
        min_p: the least probability of a token as a share of the likeliest one's, in [0, 1].
        repetition_penalty: above 1 makes tokens of the prompt and the output less likely.
        presence_penalty: what a token of the output loses, in logits.
        seed: of the row's random numbers; None: from torch's own generator.

    Raises:
        ConfigError: a number that cannot be.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _must("temperature", self.temperature, "0 or more", lambda x: x >= 0)
        _must("top_k", self.top_k, "a whole number, 0 or more", lambda x: x >= 0 and x == int(x))
        _must("top_p", self.top_p, "from 0 to 1", lambda x: 0 <= x <= 1)
        _must("min_p", self.min_p, "from 0 to 1", lambda x: 0 <= x <= 1)
        _must("repetition_penalty", self.repetition_penalty, "above 0", lambda x: x > 0)
        _must("presence_penalty", self.presence_penalty, "a finite number", lambda x: True)
        if self.seed is not None:
            check_seed(self.seed)

    @property
    def remembers(self) -> bool:
        """Whether it matters what has been said."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0

    def generator(self, copy: int) -> torch.Generator:
        """The random numbers of a row; copy k of a prompt has those of seed + k."""
        seed = int(torch.randint(2**63 - 1, ())) if self.seed is None else (self.seed + copy) % 2**63
        return torch.Generator().manual_seed(seed)


def _must(name: str, value: float, expected: str, holds: Callable[[float], bool]) -> None:
    if not (math.isfinite(value) and holds(value)):
        raise ConfigError("the number cannot be sampled with", where=name, expected=expected, got=value)


@dataclass
class History:
    """Which tokens each row has been given and has said, (R, V) bool each; for penalties."""

    given: Tensor
    said: Tensor

    @classmethod
    def of(cls, prompts: Sequence[Sequence[int]], vocabulary: int, device: torch.device) -> History:
        """Of rows that have said nothing yet."""
        given = torch.zeros(len(prompts), vocabulary, dtype=torch.bool)
        for row, ids in enumerate(prompts):
            given[row, list(ids)] = True
        given = given.to(device)
        return cls(given, torch.zeros_like(given))

    def add(self, tokens: Tensor) -> None:
        """Each row has said one more, (R,)."""
        self.said[torch.arange(len(tokens), device=tokens.device), tokens] = True

    def keep(self, rows: Tensor) -> None:
        """Only these rows go on."""
        self.given, self.said = self.given[rows], self.said[rows]


def choose(
    logits: Tensor, samplers: Sequence[Sampler], draws: Sequence[float], history: History | None = None
) -> Tensor:
    """The next token of each row, (R,); NOTHING where all its logits (R, V) are -inf.

    Args:
        logits: no NaN, no +inf.
        draws: a random number in [0, 1) for each row; of greedy ones it is not looked at.
        history: needed when a sampler `remembers`.
    """
    if history is not None:
        logits = penalised(logits, samplers, history)
    greatest_logit, tokens = logits.max(-1)
    drawing = [row for row, sampler in enumerate(samplers) if sampler.temperature > 0]
    if drawing:
        left = allowed(logits[drawing], [samplers[row] for row in drawing])
        tokens[drawing] = draw(left, [draws[row] for row in drawing])
    return tokens.masked_fill(greatest_logit == -torch.inf, NOTHING)


def penalised(logits: Tensor, samplers: Sequence[Sampler], history: History) -> Tensor:
    """Step 1, (R, V)."""
    times = _column([sampler.repetition_penalty for sampler in samplers], logits)
    minus = _column([sampler.presence_penalty for sampler in samplers], logits)
    again = torch.where(logits > 0, logits / times, logits * times)
    return torch.where(history.given | history.said, again, logits) - minus * history.said


def allowed(logits: Tensor, samplers: Sequence[Sampler]) -> Tensor:
    """Steps 2 to 5 for temperatures above 0: log p of each token but for a constant, the greatest 0; the others -inf.

    In float64 where the device has it: a sum over 10^5 tokens is to be the same alone and in a batch.
    """
    x = logits.to(torch.float32 if logits.device.type == "mps" else torch.float64)
    x = x - x.amax(-1, keepdim=True)  # before the division: 10^9 z would overflow, and 10^9 (z - z_max) only vanishes
    x = x / _column([sampler.temperature for sampler in samplers], x)
    vocabulary = x.size(-1)
    cutting = [row for row, one in enumerate(samplers) if 0 < one.top_k < vocabulary or one.top_p < 1]
    if cutting:
        x[cutting] = _cut(x[cutting], [samplers[row] for row in cutting])
    least = [math.log(sampler.min_p) if sampler.min_p > 0 else -math.inf for sampler in samplers]
    return x.masked_fill(x < _column(least, x), -torch.inf)


def _cut(x: Tensor, samplers: Sequence[Sampler]) -> Tensor:
    """Steps 3 and 4. Only so many of the greatest are sorted as the rows turn out to need."""
    vocabulary = x.size(-1)
    most = _column([min(one.top_k or vocabulary, vocabulary) for one in samplers], x)
    share = _column([one.top_p if one.top_p < 1 else math.inf for one in samplers], x)
    k = min(vocabulary, max([LOOKED_AT, *(one.top_k for one in samplers)]))
    while True:
        values, places = greatest(x, k)  # (R, k), the greatest first
        within = torch.arange(k, device=x.device) < most
        p = values.exp().masked_fill(~within, 0)
        whole = torch.where(most < vocabulary, p.sum(-1, keepdim=True), x.exp().sum(-1, keepdim=True))
        stays = within & (p.cumsum(-1) - p < share * whole)
        stays[:, 0] = True
        if k == vocabulary or not bool((stays[:, -1:] & (most > k)).any()):
            return torch.full_like(x, -torch.inf).scatter(-1, places, values.masked_fill(~stays, -torch.inf))
        k = min(vocabulary, 8 * k)


def draw(x: Tensor, draws: Sequence[float]) -> Tensor:
    """A token of each row by p ~ exp(x), (R, V) -> (R,): the first at which the sum of p passes its number's share."""
    sums = x.exp().cumsum(-1)
    whole = sums[:, -1:]
    reached = torch.minimum((sums <= _column(draws, x) * whole).sum(-1), (sums < whole).sum(-1))
    return reached.clamp(max=x.size(-1) - 1)


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
