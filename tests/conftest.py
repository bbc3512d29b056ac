"""What every test has: fixed seeds, two threads, and the way to real data and small real models."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

CHECKOUT = Path(__file__).resolve().parents[1]

torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_dir() -> Callable[[str], Path]:
    """`data_dir("multi30k")` is the folder of that data; without it the test is skipped, and fails in CI."""
    return lambda name: _shared("data", "REGARD_DATA", name)


@pytest.fixture(scope="session")
def model_dir() -> Callable[[str], Path]:
    """`model_dir("stories260k")` is the folder of that small trained model; absent, as `data_dir`."""
    return lambda name: _shared("models", "REGARD_MODELS", name)


def _shared(kind: str, variable: str, name: str) -> Path:
    path = Path(os.environ.get(variable, CHECKOUT.parent / "shared" / kind)) / name
    return path if path.is_dir() else _absent(f"no {path}: put {name} there, or set {variable} to the folder it is in")


def _absent(message: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
