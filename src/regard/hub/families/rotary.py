"""How the families with rotary positions write them: today's `rope_parameters`, and the older fields beside it.

    "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, ..}      transformers 5
    "rope_theta": 500000.0, "rope_scaling": {"rope_type" or "type": "llama3", "factor": 8.0}   before

What is unusual: both are read, and both are written, so that old readers open what is saved here.
What it does not know: the angles (`model/scaling.py`), and which family reads or writes.
"""

from __future__ import annotations

import math
from typing import Any

from regard.errors import ConfigError
from regard.hub.fields import CORRECT, USE_OTHERS, Fields
from regard.model import LinearScaling, Llama3Scaling, Rope, YarnScaling
from regard.model.scaling import Scaling

_WHERE = "config.json: rope_parameters or rope_scaling"


def read_rope(fields: Fields, *, theta: str = "rope_theta", fraction: str | None = None, share: float = 1.0) -> Rope:
    """Their rotary settings to ours.

    Args:
        theta: the older field's name for the base.
        fraction: the older field's name for the share of a head that is turned; None: the family turns all of it.
        share: the share where no field says it.

    Raises:
        ConfigError: a way of scaling that regard does not have, or one that lacks a number.
    """
    table = fields.table("rope_scaling", "rope_parameters") or Fields({})
    told = table.get(float, "rope_theta")
    base = fields.get_or(10_000.0, theta) if told is None else told
    turned = table.get(float, "partial_rotary_factor")
    if fraction is None and turned not in (None, 1.0):
        raise ConfigError("this family turns whole heads", where=f"{_WHERE}: partial_rotary_factor", got=turned,
                          mend=USE_OTHERS)  # fmt: skip
    if turned is None:
        turned = fields.get_or(share, fraction) if fraction else share
    if not 1 < base < math.inf or not 0 < turned <= 1:
        raise ConfigError("rotary positions that cannot be meant", where=f"config.json: {theta}, or in rope_parameters",
                          expected="base > 1, 0 < share <= 1",
                          got=f"base {base}, share {turned}", mend=CORRECT)  # fmt: skip
    return Rope(theta=base, fraction=turned, scaling=_read_scaling(table, fields))


def write_rope(rope: Rope) -> dict[str, Any]:
    """Ours to theirs: the fields of the new form, and those of the old one that are the same in all families."""
    kind, numbers = _write_scaling(rope.scaling)
    scaling = {"rope_type": kind, **numbers}
    return {
        "rope_parameters": {"rope_theta": rope.theta, **scaling},
        "rope_theta": rope.theta,
        "rope_scaling": {"type": kind, **scaling} if rope.scaling is not None else None,
    }


def _read_scaling(table: Fields, fields: Fields) -> Scaling:
    kind = table.get(str, "rope_type", "type") or "default"
    if kind == "default":
        for name, value in table.values.items():
            if isinstance(value, dict):
                raise ConfigError("rotary positions differ from layer to layer", where=f"{_WHERE}: {name}",
                                  expected="the same settings for all layers", mend=USE_OTHERS)  # fmt: skip
        return None
    if kind not in ("linear", "llama3", "yarn"):
        raise ConfigError("regard has no such scaling of rotary positions", where=f"{_WHERE}: rope_type",
                          expected="default, linear, llama3 or yarn", got=kind, mend=USE_OTHERS)  # fmt: skip
    length = "original_max_position_embeddings"
    told = next((n for n in (fields.get(int, length), table.get(int, length)) if n is not None), None)
    before = fields.need(int, "max_position_embeddings") if told is None else told
    factor = table.need(float, "factor")
    if not 0 < factor < math.inf or before <= 0:
        raise ConfigError("a number of the scaling of rotary positions is not above 0", where=_WHERE,
                          expected=f"factor and {length} above 0", got=f"{factor} and {before}",
                          mend=CORRECT)  # fmt: skip
    if kind == "linear":
        return LinearScaling(factor=factor)
    if kind == "yarn":
        return _read_yarn(table, factor, before)
    low, high = table.need(float, "low_freq_factor"), table.need(float, "high_freq_factor")
    if high <= low:
        raise ConfigError("the fast pairs of rotary positions must turn more often than the slow ones", where=_WHERE,
                          expected="low_freq_factor < high_freq_factor", got=f"{low} and {high}",
                          mend=CORRECT)  # fmt: skip
    return Llama3Scaling(factor=factor, original_len=before, low=low, high=high)


def _read_yarn(table: Fields, factor: float, before: int) -> YarnScaling:
    table.only("truncate", True)
    growth, ends = table.get(float, "attention_factor"), [table.get(float, m) for m in ("mscale", "mscale_all_dim")]
    if growth is None and ends[0] and ends[1]:  # DeepSeek's form: the quotient of two growths
        over, under = (0.1 * end * math.log(max(factor, 1.0)) + 1 for end in ends if end)
        growth = over / under
    return YarnScaling(
        factor=factor,
        original_len=before,
        fast=table.get_or(32.0, "beta_fast"),
        slow=table.get_or(1.0, "beta_slow"),
        growth=growth,
    )


def _write_scaling(scaling: Scaling) -> tuple[str, dict[str, Any]]:
    """Their name for a scaling, and its numbers."""
    match scaling:
        case None:
            return "default", {}
        case LinearScaling(factor=factor):
            return "linear", {"factor": factor}
        case Llama3Scaling(factor=factor, original_len=before, low=low, high=high):
            numbers: dict[str, Any] = {"low_freq_factor": low, "high_freq_factor": high}
            kind = "llama3"
        case YarnScaling(factor=factor, original_len=before, fast=fast, slow=slow, growth=growth):
            numbers, kind = {"beta_fast": fast, "beta_slow": slow}, "yarn"
            numbers |= {} if growth is None else {"attention_factor": growth}
    return kind, {"factor": factor, "original_max_position_embeddings": before, **numbers}
