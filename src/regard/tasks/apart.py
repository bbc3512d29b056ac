"""The questions of one set that are not on a text of another, for recipes that train on the one and score on the other.

What is unusual: XQuAD's English questions are some of SQuAD's development set, so whoever trains on that set and scores
on XQuAD has to leave out not only these questions but all on the same texts.
What it does not know: tokens, models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.data.places import find_data
from regard.data.squad import Question, read_questions
from regard.hub.atomic import write_text_atomic


@dataclass(frozen=True, kw_only=True)
class QuestionsApart:
    """Those of `questions` on a text that no question of `without` is on; both by name, for `find_data`."""

    kind: ClassVar[str] = "questions-apart"
    questions: str
    without: str

    def write(self, folder: Path) -> None:
        """Put train.json into `folder`, which is made; raises DataError where a set is absent or bad."""
        known = {question.context for question in read_questions([find_data(self.without)])}
        kept: dict[str, list[dict[str, Any]]] = {}
        for question in read_questions([find_data(self.questions)]):
            if question.context not in known:
                kept.setdefault(question.context, []).append(_record(question))
        paragraphs = [{"context": context, "qas": asked} for context, asked in kept.items()]
        folder.mkdir(parents=True, exist_ok=True)
        document = {"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}
        write_text_atomic(folder / "train.json", json.dumps(document, ensure_ascii=False) + "\n")


def _record(question: Question) -> dict[str, Any]:
    """A question as SQuAD's JSON has it."""
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
    impossible = {"is_impossible": True} if question.impossible else {}
    return {"id": question.id, "question": question.question, "answers": answers, **impossible}
