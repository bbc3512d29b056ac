"""Which way of a product is taken: by a clock that the tests set, kept, and never by what is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import machine
from regard.runtime import FORMS, Form, Way, choice, rows
from regard.runtime.products import FastLinear

compiled = pytest.mark.skipif(rows.absence() is not None, reason="there are no kernels here")


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of no size, a cache of one's own, and nobody else at work."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "others_at_work", lambda: False)
    for name, value in {"OUTPUTS": 128, "INPUTS": 64, "BYTES": 1}.items():
        monkeypatch.setattr(choice, name, value)


def clock(monkeypatch: pytest.MonkeyPatch, kernels_until: int, widened: float = 2.0) -> list[tuple[int, int, bool]]:
    """Let the kernels win up to so many rows, and a widened product take so long (others 1.0); what was timed."""
    timed = list[tuple[int, int, bool]]()

    def seconds(layers: list[FastLinear], x: torch.Tensor) -> float:
        (layer,) = layers
        timed.append((x.size(0), layer.few, layer.widened))
        assert layer(x).shape == (x.size(0), layer.out_features), "what is timed can be computed"
        if x.size(0) == choice.MANY:
            return widened if layer.widened else 1.0
        return (0.5 if x.size(0) <= kernels_until else 2.0) if layer.few else 1.0

    monkeypatch.setattr(choice, "_seconds", seconds)
    return timed


@compiled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("until", [0, 1, 4, 8])
def test_few_rows_are_as_many_as_the_kernels_win_with(form: Form, until: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, until)
    assert choice.measured_way(form) == Way(few=until)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_quicker_in_float32_is_widened(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, 0, widened=0.5)
    assert choice.measured_way(form).widened is (form != "fp32"), "float32 is float32 already"


def test_it_is_measured_once_and_anew_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = clock(monkeypatch, 2)
    first, measurements = choice.measured_way("int8"), len(timed)
    assert choice.measured_way("int8") == first and len(timed) == measurements > 0
    clock(monkeypatch, 2, widened=0.5)
    assert choice.measured_way("int8") == first
    assert choice.measured_way("int8", refresh=True) == Way(first.few, widened=True)


def test_without_kernels_nothing_is_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("choice", "products"):
        monkeypatch.setattr(f"regard.runtime.{module}.absence", lambda: "there is no Numba here")
    timed = clock(monkeypatch, 8)
    assert choice.measured_way("int8") == Way() and {few for _, few, _ in timed} == {0}


@compiled
def test_a_numba_that_can_keep_nothing_is_done_without() -> None:
    """As where neither the package nor a home can be written: it says so when it is imported, by a RuntimeError."""
    script = (
        "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []\n"
        "from regard.runtime import absence; print(absence())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "cannot cache function" in done.stdout and "NUMBA_CACHE_DIR names a folder" in done.stdout
