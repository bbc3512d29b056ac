"""Whether an exported model computes what ours does: both run on the same real text, and are compared (laws, 38).

    logits             of every real token, the largest difference; allowed in proportion to how far logits spread
    log-probabilities  the same, for an engine that tells no logits
    bleu, loss         of quantized weights, which compute something else: how much worse they are
    outputs            greedy ones, of both, which must be the same

What is unusual: where two tokens are as good as one another to within the measured difference, either may be said, so
outputs that part at such a tie count as ties, not as different.
What it does not know: how the other engine is asked (`peers`), and files.

Shapes: N texts, T tokens, V vocabulary or classes, D width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.generate import beam_search
from regard.hub.export import Ids
from regard.model import ClsClassifierHead, LMHead, Model, Pooler, SpanHead, TaggerHead
from regard.tasks.metrics import translation_metrics
from regard.tasks.parity_cases import Case, Question, padded

TOLERANCES = {"logits": 1e-4, "hidden states": 1e-4, "log-probabilities": 1e-3, "bleu": 0.5, "loss": 0.05}
"""The greatest difference allowed of each quantity, unless another is asked for. The first three are for a spread of 1,
and grow with it; BLEU is in points, the loss in nats a token."""
TOGETHER = 8
"""Texts computed at once, whose logits are all kept for a moment."""
ASKED = 32
"""Questions answered at once."""


class Peer(Protocol):
    """Another engine, with the exported model."""

    name: str
    """With its version."""
    opened_by: str
    """The class of its library that opens the model."""
    quantity: str
    """What `values` gives, a key of TOLERANCES."""
    known: int
    """How many ids it knows, the first ones; of Marian's, CTranslate2 leaves out the last, <pad>."""

    def values(self, cases: Sequence[Case]) -> list[Tensor]:
        """Of each case (T, V) logits or (T, D) hidden states, (V,) or (D,) of a head over whole texts, or (T - 1,)
        log p of each target token but the first."""
        ...

    def outputs(self, questions: Sequence[Question]) -> list[list[int]]:
        """What it says to each, as `answers`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Parity:
    """What was measured. Numbers of `quantity` are differences, those of `outputs` are counts."""

    peer: str
    opened_by: str
    texts: int
    tokens: int
    quantity: str
    """What `largest`, `mean` and `spread` are of."""
    largest: float
    mean: float
    """How much greater ours are on the average, where they are log-probabilities."""
    spread: float
    """Standard deviation of ours."""
    outputs: int = 0
    same: int = 0
    ties: int = 0
    judged: str
    """The quantity that decides."""
    difference: float
    allowed: float
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Metric -> {"ours", "exported", "signature"}, where there are references."""

    @property
    def passed(self) -> bool:
        """Whether the exported model may be given away."""
        exact = self.judged not in ("bleu", "loss")
        return self.difference <= self.allowed and (not exact or self.same + self.ties == self.outputs)


@torch.no_grad()
def measure(
    model: Model,
    ids: Ids,
    peer: Peer,
    cases: Sequence[Case],
    questions: Sequence[Question],
    *,
    quantized: bool = False,
    tolerance: float | None = None,
) -> tuple[Parity, list[list[int]], list[list[int]]]:
    """Compare the two; also what ours and theirs said to each question, ends included.

    Args:
        cases: texts to compute on, besides what ours says to the questions.
        quantized: the exported weights are rounded, so that only how good they are is judged, here by their loss.
        tolerance: in place of the usual one.
    """
    ours = answers(model, ids, questions)
    said = [replace(q.case, target=(*q.case.target, *out)) for q, out in zip(questions, ours, strict=True)]
    kept = [replace(case, target=case.target[: model.config.max_len]) for case in (*cases, *said)]
    sums, tokens = _Sums(), 0
    for some in _batches(kept):
        mine = values(model, some)
        for case, one, other in zip(some, mine, peer.values(some), strict=True):
            sums.add(_chosen(one[:, : peer.known], case) if peer.quantity == "log-probabilities" else one, other)
            tokens += len(case.target or case.source)
    theirs = peer.outputs(questions) if questions else []
    judged = "loss" if quantized else peer.quantity
    usual = TOLERANCES[judged] if tolerance is None else tolerance
    allowed = usual if quantized else usual * max(1.0, sums.spread)
    parted = [(q, a, b) for q, a, b in zip(questions, ours, theirs, strict=True) if a != b]
    margin = 2 * min(sums.largest, allowed)
    ties = 0 if quantized else sum(_tied(model, ids, q, a, b, margin) for q, a, b in parted)
    found = Parity(
        peer=peer.name, opened_by=peer.opened_by, texts=max(len(cases), len(questions)), tokens=tokens,
        quantity=peer.quantity, largest=sums.largest, mean=sums.mean, spread=sums.spread, outputs=len(ours),
        same=len(ours) - len(parted), ties=ties, judged=judged, allowed=allowed,
        difference=sums.mean if quantized else sums.largest,
    )  # fmt: skip
    return found, ours, theirs


def with_scores(
    found: Parity, ours: Sequence[str], theirs: Sequence[str], references: Sequence[str], language: str | None,
    tolerance: float | None = None,
) -> Parity:  # fmt: skip
    """The same with BLEU and chrF of both outputs; of quantized weights BLEU is then what is judged."""
    before, after = (translation_metrics(outputs, references, language) for outputs in (ours, theirs))
    scores = {
        name: {"ours": before[name]["score"], "exported": after[name]["score"], "signature": before[name]["signature"]}
        for name in before
    }
    if found.judged != "loss":
        return replace(found, scores=scores)
    return replace(
        found, scores=scores, judged="bleu", difference=scores["bleu"]["ours"] - scores["bleu"]["exported"],
        allowed=TOLERANCES["bleu"] if tolerance is None else tolerance,
    )  # fmt: skip


def values(model: Model, cases: Sequence[Case]) -> list[Tensor]:
    """What our model makes of each case: logits (T, V) or (V,), hidden states (T, D), or a pooled vector (D,)."""
    transformer, memory, real = model.transformer, None, None
    lengths = [len(case.target or case.source) for case in cases]
    if transformer.encoder is not None:
        source, real = padded([case.source for case in cases])
        types = padded([case.types for case in cases])[0] if model.config.n_token_types else None
        memory = transformer.encode(source, real=real, types=types)
    if transformer.decoder is not None:
        target, mask = padded([case.target for case in cases])
        memory = transformer.decode(target, transformer.start(memory, real), real=mask)
    assert memory is not None
    if isinstance(model.head, Pooler):
        return [*model.head(memory)]
    if isinstance(model.head, ClsClassifierHead):
        return [*model.head(memory, real)]
    of_tokens = isinstance(model.head, TaggerHead | SpanHead)
    rows = model.logits(memory) if isinstance(model.head, LMHead) else model.head(memory) if of_tokens else memory
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def answers(model: Model, ids: Ids, questions: Sequence[Question]) -> list[list[int]]:
    """What our model says greedily to each question, and no more; where it ended, the first of the ends comes last."""
    transformer, found = model.transformer, dict[int, list[int]]()
    order = sorted(range(len(questions)), key=lambda i: (len(questions[i].case.target), len(questions[i].case.source)))
    for rows in _runs(order, [len(question.case.target) for question in questions]):
        some = [questions[i] for i in rows]
        target = torch.tensor([question.case.target for question in some])
        memory, real = None, None
        if transformer.encoder is not None:
            source, real = padded([question.case.source for question in some])
            memory = transformer.encode(source, real=real)
        limits = [question.limit for question in some]
        state = transformer.start(memory, real, capacity=target.size(1) + max(limits))
        best = beam_search(
            model, state, target, ends=ids.ends, limits=torch.tensor(limits), beam=1, banned=ids.banned
        )  # fmt: skip
        found |= {i: [*one[0].ids, *ids.ends[: one[0].finished]] for i, one in zip(rows, best, strict=True)}
    return [found[i] for i in range(len(questions))]


class _Sums:
    """Differences of tensors that come one by one."""

    def __init__(self) -> None:
        self.largest, self.mean = 0.0, 0.0
        self._count, self._difference, self._sum, self._squares = 0, 0.0, 0.0, 0.0

    def add(self, ours: Tensor, theirs: Tensor) -> None:
        assert ours.shape == theirs.shape, f"{tuple(ours.shape)} of ours and {tuple(theirs.shape)} of theirs"
        difference, ours = (ours - theirs).double(), ours.double()
        largest = float(difference.abs().max())
        self.largest = math.inf if math.isnan(largest) else max(self.largest, largest)
        self._count += ours.numel()
        self._difference += float(difference.sum())
        self._sum += float(ours.sum())
        self._squares += float(ours.square().sum())
        self.mean = self._difference / self._count
        self.spread = math.sqrt(max(0.0, self._squares / self._count - (self._sum / self._count) ** 2))


def _chosen(logits: Tensor, case: Case) -> Tensor:
    """log p of each target token but the first, (T, V) -> (T - 1,)."""
    wanted = torch.tensor(case.target[1:])[:, None]
    return logits[:-1].log_softmax(-1).gather(1, wanted)[:, 0]


def _tied(model: Model, ids: Ids, question: Question, ours: list[int], theirs: list[int], margin: float) -> bool:
    """Whether the two part where our model finds both tokens as good, to within `margin`."""
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if place is None:
        return False
    case = replace(question.case, target=(*question.case.target, *ours[:place]))
    logits = values(model, [case])[0][-1]
    return bool(theirs[place] not in ids.banned and abs(logits[ours[place]] - logits[theirs[place]]) <= margin)


def _batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    ordered = sorted(cases, key=lambda case: case.length)
    return (ordered[start : start + TOGETHER] for start in range(0, len(ordered), TOGETHER))


def _runs(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Up to ASKED of them with prompts of one length, in that order."""
    run: list[int] = []
    for i in order:
        if run and (len(run) == ASKED or lengths[i] != lengths[run[0]]):
            yield run
            run = []
        run.append(i)
    if run:
        yield run
