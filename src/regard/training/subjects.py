"""What can be trained, by the recipe's task."""

from __future__ import annotations

from regard.training.subject import Subject
from regard.training.translating import Translating
from regard.training.writing import Guessing, Writing

SUBJECTS: dict[str, Subject] = {"translation": Translating(), "language-model": Writing(), "masked-lm": Guessing()}
"""task -> what training must know of it."""
