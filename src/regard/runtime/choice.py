"""Up to how many rows the compiled kernels are quicker than torch's products on this machine, by form.

What is unusual: it is timed, once (a second), and kept in the cache beside the other speeds; a machine without the
kernels is not asked. `regard doctor --speed` measures anew.
What it does not know: models. The matrix that is timed is one of theirs in size, and comes from memory, not the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from regard.machine import remembered
from regard.runtime.products import FORMS, FastLinear, Form, quantise_rows
from regard.runtime.rows import absence

ROWS = (1, 2, 4, 8)
OUTPUTS, INPUTS = 2_304, 768
BYTES = 100 * 2**20
"""Of all copies of the matrix: more than most caches hold."""
SIZES = {"fp32": 4, "bf16": 2, "int8": 1}
ROUNDS = 3


@dataclass(frozen=True)
class FewRows:
    """The greatest of `ROWS` for which the kernels won, by form; 0: for none."""

    fp32: int
    bf16: int
    int8: int


def few_rows(form: Form) -> int:
    """How many rows are few; 0: none, for there are no kernels."""
    return getattr(_table(torch.get_num_threads()), form) if absence() is None else 0


@cache
def _table(threads: int) -> FewRows:
    """Read once a process for so many threads."""
    return measured_few_rows()


def measured_few_rows(*, refresh: bool = False) -> FewRows:
    """The table of this machine, from the cache or measured; only where `absence` is None."""
    return remembered("rows", [ROWS, OUTPUTS, INPUTS, BYTES], FewRows, _measure, refresh=refresh)


@torch.no_grad()
def _measure() -> FewRows:
    return FewRows(**{form: _crossing(form) for form in FORMS})


def _crossing(form: Form) -> int:
    """The greatest number of rows before the first that torch is quicker with."""
    plain = torch.randn(OUTPUTS, INPUTS, generator=torch.Generator().manual_seed(0))  # nobody else's numbers
    copies = -(-BYTES // (plain.numel() * SIZES[form]))
    few, many = ([_layer(plain, form, most) for _ in range(copies)] for most in (ROWS[-1], 0))
    dtype, won = torch.bfloat16 if form == "bf16" else torch.float32, 0
    for rows in ROWS:
        x = plain[:rows].to(dtype)
        if _seconds(few, x) > _seconds(many, x):
            break
        won = rows
    return won


def _layer(weight: Tensor, form: Form, few: int) -> FastLinear:
    if form == "int8":
        whole, scale = quantise_rows(weight)
        return FastLinear(whole, None, scale=scale, few=few)
    return FastLinear(weight.to(torch.bfloat16 if form == "bf16" else torch.float32, copy=True), None, few=few)


def _seconds(layers: list[FastLinear], x: Tensor) -> float:
    """The quickest of some rounds over all copies, after one that sets up."""
    return min([_once(lambda: [layer(x) for layer in layers]) for _ in range(1 + ROUNDS)][1:])


def _once(run: Callable[[], object]) -> float:
    before = time.perf_counter()
    run()
    return time.perf_counter() - before
