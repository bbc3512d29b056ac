"""What a law is, and the report card.

    @law(2, "padding changes nothing at real tokens")
    def padding(trial: Trial) -> Iterator[float]:
        yield trial.gap(with_padding, without)          # each gap it finds, in units of the logits' size

    LAWS[2](model)         -> Verdict(2, ..., "pass", measured=3e-7, tolerance=1e-4, ...)
    report_card(model)     -> every law's verdict;  summary(card) -> what they come to, in a sentence

What is unusual: a law yields numbers that ought to be zero and the largest decides, so that a verdict shows how close
it was. What a number cannot say is raised: Broken, NotApplicable, Undecided (never a pass that luck gave).
What it does not know: the laws themselves.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from regard.laws.trial import Broken, NotApplicable, Trial, Undecided
from regard.model import Model

Outcome = Literal["pass", "fail", "undecided", "not applicable"]
Check = Callable[[Trial], Iterator[float]]

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
"""Largest gap, in standard deviations of the logits. In float32 a deep trained model rounds up to some 1e-5, while a
real fault moves logits by 1e-2 and more. Half precision would drown it, so such a model is judged by a float32 copy."""


@dataclass(frozen=True)
class Verdict:
    """What a law found in one model."""

    number: int
    name: str
    outcome: Outcome
    measured: float | None
    """The largest gap; None where there was nothing to measure."""
    tolerance: float | None
    sentence: str


@dataclass(frozen=True)
class Law:
    """A law of laws.md: its number there, what it says, whether not even a last bit may differ, and the check."""

    number: int
    name: str
    exact: bool
    check: Check

    def __call__(self, model: Model, *, seed: int = 0) -> Verdict:
        """Try the law on a model, with token ids drawn by `seed`; the model is left as it was."""
        judged = model if _dtype(model) in TOLERANCE else copy.deepcopy(model).float()
        tolerance = 0.0 if self.exact else TOLERANCE[_dtype(judged)]
        try:
            with _undisturbed(judged):
                # NumPy's maximum, unlike Python's, keeps a NaN, and a NaN is not within any tolerance.
                measured = float(np.max(list(self.check(Trial(judged, seed)))))
        except NotApplicable as reason:
            return Verdict(self.number, self.name, "not applicable", None, None, str(reason))
        except Undecided as reason:
            return Verdict(self.number, self.name, "undecided", None, tolerance, str(reason))
        except Broken as reason:
            return Verdict(self.number, self.name, "fail", None, tolerance, str(reason))
        except Exception as error:  # whatever it is, the model could not do what the law asks of it
            sentence = f"the model stopped with {type(error).__name__}: {error}"
            return Verdict(self.number, self.name, "fail", None, tolerance, sentence)
        outcome: Outcome = "pass" if measured <= tolerance else "fail"
        what = "numbers that differ" if self.exact else "the largest gap"
        sentence = f"{what}: {measured:.2g}; allowed: {tolerance:.2g}"
        return Verdict(self.number, self.name, outcome, measured, tolerance, sentence)


LAWS: dict[int, Law] = {}
"""Every law that needs only a Model, by its number in laws.md."""


def law(number: int, name: str, *, exact: bool = False) -> Callable[[Check], Law]:
    """Register a check as a law; `exact` laws count differing numbers, the others measure gaps."""

    def register(check: Check) -> Law:
        assert number not in LAWS, f"law {number} is registered twice"
        LAWS[number] = Law(number, name, exact, check)
        return LAWS[number]

    return register


def report_card(model: Model, *, numbers: Iterable[int] | None = None, seed: int = 0) -> list[Verdict]:
    """The verdicts of these laws (None: all) on a model, by number."""
    return [LAWS[number](model, seed=seed) for number in sorted(LAWS if numbers is None else numbers)]


def summary(card: Sequence[Verdict]) -> str:
    """How many laws hold, what the other verdicts mean, and which laws a model alone cannot be asked."""
    count = Counter(verdict.outcome for verdict in card)
    told = [f"{count['pass']} laws hold, {count['fail'] or 'none'} broken"]
    if count["undecided"]:
        told.append(f"{count['undecided']} undecided (this model's outputs are too alike to tell; no fault)")
    if count["not applicable"]:
        told.append(f"{count['not applicable']} not applicable (about parts that this model has not)")
    return ", ".join(told) + ". The numbers left out are laws of training, files and scores, which regard's tests run."


def _dtype(model: Model) -> torch.dtype:
    return model.transformer.tokens.weight.dtype


@contextmanager
def _undisturbed(model: Model) -> Iterator[None]:
    """Evaluation mode, no gradients; afterwards modes and random state are as they were."""
    modes = {module: module.training for module in model.modules()}
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        try:
            model.eval()
            yield
        finally:
            for module, mode in modes.items():
                module.training = mode
