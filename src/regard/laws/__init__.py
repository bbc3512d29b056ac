"""The laws: what must hold for every model, each a function of a Model; run by the tests and by the doctor.

Those of training, files and scores are functions of more than that: of a `Lesson`, a `Rerun`, or what is `Scored`.
"""

from regard.laws import (  # noqa: F401  each registers its laws
    cache,
    decoding,
    ends,
    equations,
    learning,
    loading,
    masks,
    positions,
    rerun,
    sampling,
    scores,
    wiring,
)
from regard.laws.law import LAWS, OF_PARAMETERS, Law, Subject, Verdict, law, report_card, summary
from regard.laws.lesson import Lesson
from regard.laws.rerun import Rerun
from regard.laws.scores import Scored
from regard.laws.trial import Broken, NotApplicable, Trial, Undecided

__all__ = [
    "LAWS",
    "OF_PARAMETERS",
    "Broken",
    "Law",
    "Lesson",
    "NotApplicable",
    "Rerun",
    "Scored",
    "Subject",
    "Trial",
    "Undecided",
    "Verdict",
    "law",
    "report_card",
    "summary",
]
