"""What a head over classes tells apart, in the words of Hugging Face's config.json: id2label, problem_type.

    BertForSequenceClassification    one class of several, any number of them, or a number     cls-classifier
    BertForTokenClassification       a tag for each token                                      tagger
    BertForQuestionAnswering         where an answer begins and ends                           span

What is unusual: fields that equal the library's default are not in a file, so a model of two classes names none: they
are LABEL_0 and LABEL_1, as there.
What it does not know: families, and what tags are used for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from regard.errors import ConfigError
from regard.hub.fields import CORRECT, Fields
from regard.model import LABELLED, ClsClassifierHead, Model, TransformerConfig

PURPOSES = {
    "SequenceClassification": "classification",
    "TokenClassification": "tagging",
    "QuestionAnswering": "question-answering",
}
"""How the name of an architecture ends, after "For", and the task it is for."""
KINDS = {"single_label_classification": "one", "multi_label_classification": "several", "regression": "number"}
"""problem_type -> what we call it."""
NUMBER = "number"
LONGEST_WINDOW, OVERLAP, LONGEST_ANSWER = 384, 128, 30
"""Tokens of a window, of its overlap with the next, and of an answer: what BERT's line answers with."""


def read_labels(fields: Fields, head: str, config: TransformerConfig) -> dict[str, Any]:
    """The facts of a folder whose model has this head, for those that use it; nothing for a head of no task.

    Raises:
        ConfigError: id2label is no table of different names by their numbers, or the problem is of no known type.
    """
    if head == "span":
        length = min(LONGEST_WINDOW, config.max_len)
        rules = {"length": length, "overlap": min(OVERLAP, length // 4), "longest": LONGEST_ANSWER, "null": False}
        return {"answering": rules}
    if head not in LABELLED:
        return {}
    labels = _names(fields)
    if head == "tagger":
        return {"labels": labels}
    usual = "regression" if len(labels) == 1 else "single_label_classification"
    kind = fields.chosen(KINDS, "problem_type", default=usual)
    if kind == NUMBER and len(labels) > 1:
        raise ConfigError("regard learns one number of a text", where="config.json: problem_type",
                          expected="one label", got=f"regression with {len(labels)} labels")  # fmt: skip
    return {"labels": [NUMBER] if kind == NUMBER else labels, "label_kind": kind}


def write_labels(about: Mapping[str, Any], head: str) -> dict[str, Any]:
    """The same in their words."""
    if head not in LABELLED:
        return {}
    labels = about["labels"]
    told: dict[str, Any] = {"id2label": {str(i): name for i, name in enumerate(labels)},
                            "label2id": {name: i for i, name in enumerate(labels)}}  # fmt: skip
    if head == "tagger":
        return told
    types = {ours: theirs for theirs, ours in KINDS.items()}
    return told | {"problem_type": types[about.get("label_kind", "one")]}


@torch.no_grad()
def settle_units(model: Model, about: dict[str, Any]) -> None:
    """Have a model that was trained on a number give it in the user's units, since their files have no words for ours.

    y = scale (w h + b) + mean is one linear layer of other numbers. Other models are left as they are.
    """
    mean, scale = about.pop("label_units", (0.0, 1.0))
    if (mean, scale) != (0.0, 1.0) and isinstance(model.head, ClsClassifierHead):
        model.head.out.weight *= scale
        model.head.out.bias.mul_(scale).add_(mean)


def _names(fields: Fields) -> list[str]:
    table = fields.table("id2label")
    if table is None:
        return [f"LABEL_{i}" for i in range(fields.get_or(2, "num_labels", "_num_labels"))]
    by_number = {str(number): name for number, name in table.values.items()}
    names = [by_number.get(str(i)) for i in range(len(by_number))]
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ConfigError("the labels are no table of different names", where="config.json: id2label",
                          expected='{"0": "negative", "1": "positive"}', got=repr(dict(table.values))[:80],
                          mend=CORRECT)  # fmt: skip
    return [str(name) for name in names]
