"""Law 14: the fast model says what the formulas of `model/equations.py` say, by the kernel and in the open.

What is unusual: not only what the model says in the end is compared but whatever its attention offers to those who
look (`watch`), each against the formulas given what this attention itself read, so that an error does not hide among
those of the layers before it.
What it does not know: how the formulas are put together (`model.reference`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from regard.laws.law import law
from regard.laws.trial import Broken, Trial, Undecided
from regard.model import HIDDEN_BELOW, LMHead, Seen, watch
from regard.model import equations as eq
from regard.model.reference import Reference


@law(14, "the formulas, the kernel and attention in the open agree")
def formulas(trial: Trial) -> Iterator[float]:
    """One sequence through the whole model, against NumPy in float64."""
    ids, source = trial.ids(1, 8), trial.source(1)
    expected = _by_formulas(trial, ids, source)

    def run() -> Tensor:
        return (trial.decoded(ids, trial.start(source)) if trial.decodes else trial.encoded(ids))[0]

    yield trial.gap(run(), expected)
    with watch(trial.model, "*") as seen:  # whoever looks at scores or weights sends attention along its open path
        yield trial.gap(run(), expected)
    yield from _attention(trial, seen)


def _attention(trial: Trial, seen: Seen) -> Iterator[float]:
    """The gaps of all that each attention offered."""
    oracle = _oracle(trial)
    for name in [name.removesuffix(".q") for name in seen if name.endswith(".q")]:
        layer, _, sublayer = name.rpartition(".")
        before = {"self_attn": "resid_in", "cross_attn": "resid_cross"}[sublayer]
        reads = f"{layer}.{before}" if trial.config.norm_order == "post" else f"{name}_norm.out"
        keys = reads if sublayer == "self_attn" else "encoder.norm"
        offered = {leaf: _numpy(seen[f"{name}.{leaf}"]) for leaf in ("scores", "weights", "v")}
        expected = oracle.seen(name, _numpy(seen[reads]), _numpy(seen[keys]))
        # From here on by what was offered: where one weight is nearly all, a score's last bit would show in it.
        hidden = np.where(offered["scores"] < HIDDEN_BELOW, -np.inf, offered["scores"])
        share = trial.config.n_heads // trial.config.kv_heads
        expected["weights"] = np.stack([eq.softmax(S) for S in hidden])
        expected["z"] = np.stack([A @ offered["v"][h // share] for h, A in enumerate(offered["weights"])])
        for leaf, value in expected.items():
            if f"{name}.{leaf}" not in seen:
                raise Broken(f"{name} does not offer {leaf}")
            yield _gap(trial, seen[f"{name}.{leaf}"][0], torch.as_tensor(value, device=trial.model.device))


def _gap(trial: Trial, ours: Tensor, theirs: Tensor) -> float:
    """The gap where a formula says a number; where it says -inf, a score must be very low."""
    shown = torch.isfinite(theirs)
    if not bool((ours[~shown] < HIDDEN_BELOW).all()):
        raise Broken("a score is shown that should be hidden")
    try:
        return trial.gap(ours[shown], theirs[shown])
    except Undecided:  # one key alone has the weight 1, which does not vary
        return float((ours[shown] - theirs[shown]).abs().max())


def _numpy(x: Tensor) -> eq.Array:
    return x[0].double().cpu().numpy()


def _oracle(trial: Trial) -> Reference:
    return Reference(trial.config, {name: weight.cpu() for name, weight in trial.model.state_dict().items()})


def _by_formulas(trial: Trial, ids: Tensor, source: Tensor | None) -> Tensor:
    oracle, row = _oracle(trial), ids[0].tolist()
    memory = None if source is None else oracle.encode(source[0].tolist())
    hidden = oracle.decode(row, memory) if trial.decodes else oracle.encode(row)
    said = oracle.logits(hidden) if isinstance(trial.model.head, LMHead) else hidden
    return torch.as_tensor(said, device=ids.device)
