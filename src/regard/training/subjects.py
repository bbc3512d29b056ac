"""What can be trained, by the recipe's task."""

from __future__ import annotations

from regard.training.subject import Subject
from regard.training.translating import Translating

SUBJECTS: dict[str, Subject] = {"translation": Translating()}
"""task -> what training must know of it."""
