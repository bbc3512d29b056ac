"""Law 14: the fast model says what the formulas of `model/equations.py` say, by the kernel and in the open."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.laws.law import law
from regard.laws.trial import Trial
from regard.model import LMHead, watch
from regard.model.reference import Reference


@law(14, "the formulas, the kernel and attention in the open agree")
def formulas(trial: Trial) -> Iterator[float]:
    """One sequence through the whole model, against NumPy in float64."""
    ids, source = trial.ids(1, 8), trial.source(1)
    expected = _by_formulas(trial, ids, source)

    def run() -> Tensor:
        return (trial.decoded(ids, trial.start(source)) if trial.decodes else trial.encoded(ids))[0]

    yield trial.gap(run(), expected)
    with watch(trial.model, "*.weights"):  # whoever looks at weights sends attention along its open path
        yield trial.gap(run(), expected)


def _by_formulas(trial: Trial, ids: Tensor, source: Tensor | None) -> Tensor:
    weights = {name: weight.cpu() for name, weight in trial.model.state_dict().items()}
    oracle, row = Reference(trial.config, weights), ids[0].tolist()
    memory = None if source is None else oracle.encode(source[0].tolist())
    hidden = oracle.decode(row, memory) if trial.decodes else oracle.encode(row)
    said = oracle.logits(hidden) if isinstance(trial.model.head, LMHead) else hidden
    return torch.as_tensor(said, device=ids.device)
