"""The laws: what must hold for every model, each a function of a Model; run by the tests and by the doctor."""

from regard.laws import cache, decoding, equations, masks, positions, sampling, wiring  # noqa: F401  each registers its laws
from regard.laws.law import LAWS, Law, Verdict, law, report_card, summary
from regard.laws.trial import Broken, NotApplicable, Trial, Undecided

__all__ = ["LAWS", "Broken", "Law", "NotApplicable", "Trial", "Undecided", "Verdict", "law", "report_card", "summary"]
