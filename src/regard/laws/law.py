"""What a law is, and the report card.

    @law(2, "padding changes nothing at real tokens")
    def padding(trial: Trial) -> Iterator[float]:
        yield trial.gap(with_padding, without)          # each gap it finds, in units of the logits' size

    LAWS[2](model)         -> Verdict(2, ..., "pass", measured=3e-7, tolerance=1e-4, ...)
    LAWS[15](Lesson(...))  -> the same for a law of training; `law(15, ..., on=Lesson)` says what it is tried on
    report_card(model)     -> the verdict of every law on a Model;  summary(card) -> what they come to, in a sentence

What is unusual: a law yields numbers that ought to be zero and the largest decides, so that a verdict shows how close
it was. What a number cannot say is raised: Broken, NotApplicable, Undecided (never a pass that luck gave).
What it does not know: the laws themselves, and of their subjects (`Subject`) only how they are made ready.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from regard.laws.trial import Broken, NotApplicable, Trial, Undecided
from regard.model import Model

Outcome = Literal["pass", "fail", "undecided", "not applicable"]
Check = Callable[[Any], Iterator[float]]


class Subject(Protocol):
    """What a law is tried on: a class, which makes what it is given ready."""

    @property
    def tolerance(self) -> float:
        """The largest number that counts as zero, where a law is not exact."""
        ...

    @classmethod
    def ready(cls, given: Any, seed: int) -> AbstractContextManager[Any]:
        """The subject, with what is drawn drawn by `seed`; afterwards all is as it was."""
        ...


@dataclass(frozen=True)
class Verdict:
    """What a law found in one subject."""

    number: int
    name: str
    outcome: Outcome
    measured: float | None
    """The largest gap; None where there was nothing to measure."""
    tolerance: float | None
    sentence: str


@dataclass(frozen=True)
class Law:
    """A law of laws.md.

    Attributes:
        number, name: its number there, and what it says.
        on: what it is tried on; a `Trial` is made of a Model.
        exact: not even a last bit may differ.
    """

    number: int
    name: str
    on: type[Subject]
    exact: bool
    check: Check

    def __call__(self, given: Any, *, seed: int = 0) -> Verdict:
        """Try the law on a Model, or on what else it is about; what is drawn is drawn by `seed`."""
        tolerance = None
        try:
            with self.on.ready(given, seed) as subject:
                tolerance = 0.0 if self.exact else subject.tolerance
                # NumPy's maximum, unlike Python's, keeps a NaN, and a NaN is not within any tolerance.
                measured = float(np.max(list(self.check(subject))))
        except NotApplicable as reason:
            return Verdict(self.number, self.name, "not applicable", None, None, str(reason))
        except Undecided as reason:
            return Verdict(self.number, self.name, "undecided", None, tolerance, str(reason))
        except Broken as reason:
            return Verdict(self.number, self.name, "fail", None, tolerance, str(reason))
        except Exception as error:  # whatever it is, the subject could not do what the law asks of it
            sentence = f"the model stopped with {type(error).__name__}: {error}"
            return Verdict(self.number, self.name, "fail", None, tolerance, sentence)
        outcome: Outcome = "pass" if measured <= tolerance else "fail"
        what = "numbers that differ" if self.exact else "the largest gap"
        sentence = f"{what}: {measured:.2g}; allowed: {tolerance:.2g}"
        return Verdict(self.number, self.name, outcome, measured, tolerance, sentence)


LAWS: dict[int, Law] = {}
"""Every law that is a function, by its number in laws.md."""


def law(number: int, name: str, *, on: type[Subject] = Trial, exact: bool = False) -> Callable[[Check], Law]:
    """Register a check as a law; `exact` laws count differing numbers, the others measure gaps."""

    def register(check: Check) -> Law:
        assert number not in LAWS, f"law {number} is registered twice"
        LAWS[number] = Law(number, name, on, exact, check)
        return LAWS[number]

    return register


OF_PARAMETERS = (6, 8, 14, 35, 36)
"""Laws that ask for gradients too, or for saved parameters; what is made fast for use has neither."""


def report_card(model: Model, *, numbers: Iterable[int] | None = None, seed: int = 0) -> list[Verdict]:
    """The verdicts of these laws (None: all that need only a Model) on a model, by number."""
    of_models = [number for number, each in LAWS.items() if each.on is Trial]
    return [LAWS[number](model, seed=seed) for number in sorted(of_models if numbers is None else numbers)]


def summary(card: Sequence[Verdict]) -> str:
    """How many laws hold, what the other verdicts mean, and which laws a model alone cannot be asked."""
    count = Counter(verdict.outcome for verdict in card)
    told = [f"{count['pass']} laws hold, {count['fail'] or 'none'} broken"]
    if count["undecided"]:
        told.append(f"{count['undecided']} undecided (this model's outputs are too alike to tell; no fault)")
    if count["not applicable"]:
        told.append(f"{count['not applicable']} not applicable (about parts that this model has not)")
    left = "The numbers left out are laws of training, scores and single tasks, which regard's tests run."
    return f"{', '.join(told)}. {left}"
