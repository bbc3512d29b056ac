"""Which way of a product is the quickest on this machine, by form.

    few rows     up to how many of them the compiled kernels are quicker than torch's products
    many rows    whether those of bfloat16 and int8 are quicker in float32, the matrix widened on the way

What is unusual: it is timed when a form is first asked for (about a second), and kept in the cache beside the other
speeds. `regard doctor --speed` measures anew.
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
from regard.runtime.products import FastLinear, Form, quantise_rows
from regard.runtime.rows import absence

ROWS, MANY = (1, 2, 4, 8), 64
"""Rows that may be few; and as many as a batch has in a step of decoding."""
OUTPUTS, INPUTS = 2_304, 768
BYTES = 100 * 2**20
"""Of all copies of the matrix: more than most caches hold."""
SIZES = {"fp32": 4, "bf16": 2, "int8": 1}
ROUNDS = 3


@dataclass(frozen=True)
class Way:
    """How layers of a form are computed: `few` and `widened` of `FastLinear`."""

    few: int = 0
    """The greatest of `ROWS` for which the kernels won; 0: for none, or there are no kernels."""
    widened: bool = False
    """Many rows are multiplied in float32."""


def way_of(form: Form) -> Way:
    """That of this machine, with as many threads as there are now."""
    return _known(form, torch.get_num_threads(), absence() is None)


@cache
def _known(form: Form, threads: int, compiled: bool) -> Way:
    """Read once a process for so many threads, with the kernels or without."""
    return measured_way(form)


def measured_way(form: Form, *, refresh: bool = False) -> Way:
    """The same from the cache, or measured."""
    facts = [form, ROWS, MANY, OUTPUTS, INPUTS, BYTES, absence() is None]
    return remembered("way", facts, Way, lambda: _quickest(form), refresh=refresh)


@torch.no_grad()
def _quickest(form: Form) -> Way:
    plain = torch.randn(OUTPUTS, INPUTS, generator=torch.Generator().manual_seed(0))  # nobody else's numbers
    dtype = torch.bfloat16 if form == "bf16" else torch.float32
    own, wide = (_layer(plain, form, Way(widened=widened)) for widened in (False, True))
    many = plain[:MANY].to(dtype)
    widened = form != "fp32" and _seconds([wide], many) < _seconds([own], many)
    return Way(_crossing(plain, form, widened=widened) if absence() is None else 0, widened)


def _crossing(plain: Tensor, form: Form, *, widened: bool) -> int:
    """The greatest number of rows before the first that torch is quicker with."""
    copies, won = -(-BYTES // (plain.numel() * SIZES[form])), 0
    few, many = ([_layer(plain, form, Way(most, widened)) for _ in range(copies)] for most in (ROWS[-1], 0))
    for rows in ROWS:
        x = plain[:rows].to(torch.bfloat16 if form == "bf16" else torch.float32)
        if _seconds(few, x) > _seconds(many, x):
            break
        won = rows
    return won


def _layer(weight: Tensor, form: Form, way: Way) -> FastLinear:
    if form == "int8":
        whole, scale = quantise_rows(weight)
        return FastLinear(whole, None, scale=scale, few=way.few, widened=way.widened)
    weight = weight.to(torch.bfloat16 if form == "bf16" else torch.float32, copy=True)
    return FastLinear(weight, None, few=way.few, widened=way.widened)


def _seconds(layers: list[FastLinear], x: Tensor) -> float:
    """The quickest of some rounds over all copies, after one that sets up."""
    return min([_once(lambda: [layer(x) for layer in layers]) for _ in range(1 + ROUNDS)][1:])


def _once(run: Callable[[], object]) -> float:
    before = time.perf_counter()
    run()
    return time.perf_counter() - before
