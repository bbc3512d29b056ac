"""Where a file of tests collects the faults that it shows to laws: each is a patch, beside the number of the law."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Fault = Callable[[pytest.MonkeyPatch], None]


def collected() -> tuple[list[tuple[int, Fault]], Callable[[int], Callable[[Fault], Fault]]]:
    """An empty list, and the decorator `breaks(number)` that adds a fault to it."""
    faults: list[tuple[int, Fault]] = []

    def breaks(number: int) -> Callable[[Fault], Fault]:
        def register(fault: Fault) -> Fault:
            faults.append((number, fault))
            return fault

        return register

    return faults, breaks
