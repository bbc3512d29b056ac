"""What rounding a model's matrices changes: the logits on real text, and the score that decides (laws, 38).

    translation       BLEU, in points     classification       accuracy; of several micro F1; of numbers Spearman's
    language-model    loss, as a share    tagging              F1 of spans
    masked-lm         loss, as a share    question-answering   F1 of answers, in points
    embedding         cosine with the vector of before

What is unusual: how far logits move says little of how good a model still is, so it is told and does not decide. Texts
are computed one by one, so that nothing but the matrices differs.
What it does not know: how scores are computed (`regard evaluate`), and files.

Shapes: T tokens, V vocabulary or classes, D width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.corpus import Corpus
from regard.model import CLASSIFIERS, LMHead, Model, NoHead, head_name
from regard.tasks.parity_cases import Case

TOLERANCES = {
    "bleu": 0.5, "loss": 0.01, "accuracy": 0.01, "micro_f1": 0.01, "spearman": 0.01, "span_f1": 0.01, "f1": 1.0,
    "cosine": 0.005,
}  # fmt: skip
"""How much worse a score may become. A loss: as a share of what it was; BLEU and the F1 of answers are in points."""
DECIDES = {
    "translation": ("bleu",), "language-model": ("loss",), "masked-lm": ("loss",),
    "classification": ("accuracy", "micro_f1", "spearman"), "tagging": ("span_f1",), "question-answering": ("f1",),
    "embedding": ("cosine",),
}  # fmt: skip
"""By task, the score that decides: of a classifier the first that its kind of labels begins with."""
COMPARED = 100
"""Texts whose logits are compared, spread over the data."""
LONGEST = 256
"""Tokens of each, at most."""


@dataclass(frozen=True)
class Verdict:
    """Whether a rounded model may take the place of the one it was made of.

    Attributes:
        judged: the score that decides.
        difference: by how much it is worse; below 0: better. Of a loss, as a share of what it was.
        allowed: the most that it may be.
    """

    judged: str
    difference: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether it may; never where a score is not a number."""
        return self.difference <= self.allowed

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        if self.judged == "loss":
            return f"loss: {abs(self.difference):.2%} {'higher' if self.difference >= 0 else 'lower'}"
        return f"{self.judged}: {abs(self.difference):.3g} {'lower' if self.difference >= 0 else 'higher'}"

    @property
    def limit(self) -> str:
        """What is allowed, in words."""
        return f"{self.allowed:.2%} higher" if self.judged == "loss" else f"{self.allowed:.3g} lower"


@dataclass(frozen=True)
class Change:
    """How far what a model says moves: the largest difference of one number, and how far such numbers spread."""

    texts: int
    quantity: str
    largest: float
    spread: float


def judge(
    task: str, before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]],
    tolerance: float | None = None,
) -> Verdict:  # fmt: skip
    """Compare the metrics that `regard evaluate` gives of both: name -> {"score": ..}.

    Args:
        tolerance: in place of the usual one.
    """
    name = next(name for name in before if name in DECIDES[task])
    one, other = float(before[name]["score"]), float(after[name]["score"])
    worse = one - other
    if name == "loss":
        worse = -worse / one if one else math.copysign(math.inf, -worse) if worse else 0.0
    return Verdict(name, worse, TOLERANCES[name] if tolerance is None else tolerance)


@torch.no_grad()
def compare_outputs(before: Model, after: Model, cases: Iterable[Case]) -> Change:
    """What both say of the same texts: logits, or hidden states and the like under another head."""
    count, texts, largest, total, squares = 0, 0, 0.0, 0.0, 0.0
    for case in cases:
        one, other = (said(model, case).double() for model in (before, after))
        gap = float((one - other).abs().max()) if one.numel() else 0.0
        largest = math.nan if math.isnan(gap) else max(largest, gap)
        texts, count = texts + 1, count + one.numel()
        total, squares = total + float(one.sum()), squares + float(one.square().sum())
    mean = total / max(1, count)
    spread = math.sqrt(max(0.0, squares / max(1, count) - mean**2))
    labelled = head_name(before) not in ("pooler", "none")
    return Change(texts, "logits" if labelled else "vectors", largest, spread)


def said(model: Model, case: Case) -> Tensor:
    """What a model says of one text: logits (T, V) or (V,), hidden states (T, D), a pooled vector (D,)."""
    transformer, hidden = model.transformer, None
    if transformer.encoder is not None:
        types = torch.tensor([case.types]) if model.config.n_token_types else None
        hidden = transformer.encode(torch.tensor([case.source]), types=types)  # (1, S, D)
    if transformer.decoder is not None:
        hidden = transformer.decode(torch.tensor([case.target]), transformer.start(hidden))  # (1, T, D)
    assert hidden is not None
    if isinstance(model.head, LMHead):
        return model.logits(hidden)[0]
    if isinstance(model.head, NoHead):
        return hidden[0].float()
    if head_name(model) in CLASSIFIERS:
        return model.head(hidden, torch.ones(hidden.shape[:2], dtype=torch.bool))[0].float()
    return model.head(hidden)[0].float()


def spread_over(count: int) -> list[int]:
    """Numbers of the texts to compare, out of so many."""
    return sorted({i * count // COMPARED for i in range(COMPARED)}) if count else []


def windows_of(corpus: Corpus, most: int) -> list[list[int]]:
    """Stretches of at most so many tokens of the documents, spread over all of them."""
    places = [
        (number, start) for number in range(len(corpus))
        for start in range(0, len(corpus.document(number)), most)
    ]  # fmt: skip
    chosen = [places[i] for i in spread_over(len(places))]
    return [corpus.document(number)[start : start + most].tolist() for number, start in chosen]


def cosines(one: Tensor, other: Tensor) -> float:
    """The mean cosine between the vectors of N texts, both (N, D); a text without a vector is like itself."""
    both = (one.norm(dim=-1) > 0) | (other.norm(dim=-1) > 0)
    found = torch.nn.functional.cosine_similarity(one.double(), other.double(), dim=-1)
    return float(torch.where(both, found, torch.ones_like(found)).mean())
