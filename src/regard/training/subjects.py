"""What can be trained, by the recipe's task."""

from __future__ import annotations

from regard.training.answering import Answering
from regard.training.language_models import LanguageModelling, MaskedLanguageModelling
from regard.training.start import Origin
from regard.training.subject import Subject
from regard.training.translating import Translating
from regard.training.understanding import Classifying, Tagging

SUBJECTS: dict[str, Subject] = {
    "translation": Translating(), "language-model": LanguageModelling(), "masked-lm": MaskedLanguageModelling(),
    "classification": Classifying(), "question-answering": Answering(), "tagging": Tagging(),
}  # fmt: skip
"""task -> what training must know of it."""


def going_on(task: str, origin: Origin) -> Subject:
    """The subject as it goes on from a model, whose conventions it keeps where they are part of the examples."""
    match task:
        case "translation":
            return Translating(origin)
        case "language-model":
            return LanguageModelling(origin)
    return SUBJECTS[task]
