"""Memory that ran out, wherever it was asked for, is told with both numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from regard.cli.failures import exit_code, memory_shortage

ON_A_GPU = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.25 GiB is free."
)


def on_a_gpu() -> None:
    raise torch.OutOfMemoryError(ON_A_GPU)


@pytest.mark.parametrize(
    ("ask", "needed"),
    [
        (lambda: torch.empty(2**50, dtype=torch.int8), "1024.0 TiB"),
        (lambda: np.empty(2**55, dtype=np.int8), "32.0 PiB"),
        (lambda: bytearray(2**60), "more"),
        (on_a_gpu, "2.50 GiB"),
    ],
)
def test_memory_running_out_says_what_was_asked_and_what_there_is(
    ask: Callable[[], object], needed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        ask()
    assert exit_code(caught.value, as_json=False) == 1
    err = capsys.readouterr().err
    assert "out of memory" in err and f"request for {needed}" in err and "--set batch.tokens=" in err
    assert "Traceback" not in err and "unknown" not in err
    assert ("at most 1.25 GiB" in err) == (ask is on_a_gpu)


def test_other_errors_are_not_taken_for_it() -> None:
    assert memory_shortage(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
