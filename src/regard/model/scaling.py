"""How the angles of rotary positions are changed for texts longer than those of the first training.

    linear   every pair turns `factor` times as slowly                                  (Chen et al. 2023)
    llama3   slow pairs do, fast ones do not, those between do in part, by their turns  (Llama 3.1)
    yarn     the same with a ramp over the pairs' number; q and k grow a little         (Peng et al. 2023)

A pair's turns are how often it goes round within the `original_len` tokens of the first training: what never went round
would meet angles that nobody has seen, what went round often tells near neighbours apart and must stay as it is.
What is unusual: a scaling is a function of the frequencies alone, so it costs nothing per token and keeps no table.
What it does not know: schemes whose angles depend on the length of the text at hand (dynamic NTK, LongRoPE).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.model.config import LinearScaling, Llama3Scaling, YarnScaling

Scaling = LinearScaling | Llama3Scaling | YarnScaling | None


def growth(scaling: Scaling) -> float:
    """What turned queries and keys are multiplied by; 1 but for yarn."""
    if not isinstance(scaling, YarnScaling):
        return 1.0
    return 0.1 * math.log(max(scaling.factor, 1)) + 1 if scaling.growth is None else scaling.growth


def rescaled(speed: Tensor, theta: float, scaling: Scaling) -> Tensor:
    """The angle a pair turns by from one token to the next, (d/2,), as the scaling changes it."""
    match scaling:
        case None:
            return speed
        case LinearScaling(factor=factor):
            return speed / factor
        case Llama3Scaling(factor=factor, original_len=length, low=low, high=high):
            turns = length * speed / (2 * math.pi)
            kept = ((turns - low) / (high - low)).clamp(0, 1)
        case YarnScaling(factor=factor):
            kept = 1 - _ramp(speed, theta, scaling)
    return kept * speed + (1 - kept) * speed / factor


def _ramp(speed: Tensor, theta: float, scaling: YarnScaling) -> Tensor:
    """0 for the pairs that turn more than `fast` times, 1 for those that turn less than `slow`, linear between."""
    half = speed.numel()

    def pair(turns: float) -> float:
        """The number i of the pair that turns so often: theta ** (-i / half) * original_len = 2 pi turns."""
        return half * math.log(scaling.original_len / (2 * math.pi * turns)) / math.log(theta)

    first, last = max(math.floor(pair(scaling.fast)), 0), min(math.ceil(pair(scaling.slow)), 2 * half - 1)
    number = torch.arange(half, dtype=speed.dtype, device=speed.device)
    return ((number - first) / max(last - first, 1e-3)).clamp(0, 1)
