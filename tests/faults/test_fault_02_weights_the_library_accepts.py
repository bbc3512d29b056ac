"""Fault 2: duplicate tensor keys; NaN or infinite weights (the library accepts both)."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from regard.errors import CheckpointError
from regard.hub.weights import read_model_weights, read_weights


def test_a_tensor_named_twice(tmp_path: Path) -> None:
    entry = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    header = f"{{{entry}, {entry}}}".encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert list(safetensors.torch.load_file(path)) == ["a"], "the library sees nothing wrong"
    with pytest.raises(CheckpointError, match="the key 'a' appears twice"):
        read_weights(path)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2, torch.complex64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers(tmp_path: Path, dtype: torch.dtype, value: float) -> None:
    bad = torch.zeros(2, 3)
    bad[1, 1:] = value
    tensors = {"good": torch.zeros(3), "bad": bad.to(dtype), "worse": torch.full((1,), value)}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="NaN or infinite weights in 2 of 3 tensors") as caught:
        read_model_weights(tmp_path)
    rows = [line.split() for line in str(caught.value.got).strip().split("\n")[1:]]
    assert rows == [["bad", "2", "6"], ["worse", "1", "1"]]
    assert "--allow-nonfinite" in str(caught.value.mend)
    assert set(read_model_weights(tmp_path, allow_nonfinite=True)) == set(tensors)


def test_a_huge_number_is_a_number(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a": torch.full((1,), 1e300, dtype=torch.float64)}, tmp_path / "model.safetensors")
    assert read_model_weights(tmp_path)["a"].item() == 1e300
