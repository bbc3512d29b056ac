"""Fault 5: pickle files are never opened; the refusal holds a conversion command, and that command works."""

from __future__ import annotations

import os
import pickle
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import CheckpointError
from regard.hub.weights import read_model_weights


class Bomb:
    """Unpickling this makes the folder `pwned`."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.place / "pwned"),)


def save_bomb(path: Path, kind: str) -> None:
    bomb = {"weight": Bomb(path.parent)}
    if kind == "pickle":
        path.write_bytes(pickle.dumps(bomb))
    elif kind == "npz":
        with path.open("wb") as file:
            np.savez(file, bomb=np.array(bomb, dtype=object))
    else:
        torch.save(bomb, path, _use_new_zipfile_serialization=kind == "torch")


@pytest.mark.parametrize("kind", ["pickle", "torch", "old torch", "npz"])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "weights.pt", "weights.pth", "last.ckpt"])
def test_a_pickle_is_never_opened(tmp_path: Path, kind: str, name: str) -> None:
    save_bomb(tmp_path / name, kind)
    with pytest.raises(CheckpointError) as caught:
        read_model_weights(tmp_path)
    assert "pickle" in str(caught.value.got) and "weights_only=True" in str(caught.value.mend)
    assert not (tmp_path / "pwned").exists()


def test_the_conversion_command_works_and_opens_no_bomb_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "it's a model"
    folder.mkdir()
    shared = torch.arange(6.0)
    torch.save({"a": shared, "tied": shared, "b": shared.view(2, 3).T}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError) as caught:
        read_model_weights(folder)
    python, option, script, *arguments = shlex.split(str(caught.value.mend))
    assert (python, option) == ("python", "-c")
    monkeypatch.setattr(sys, "argv", [option, *arguments])
    exec(script, {})
    tensors = read_model_weights(folder)
    assert tensors["b"].equal(shared.view(2, 3).T) and tensors["tied"].equal(shared)

    (folder / "model.safetensors").unlink()
    save_bomb(folder / "pytorch_model.bin", "torch")
    with pytest.raises(pickle.UnpicklingError):
        exec(script, {})
    assert not (folder / "pwned").exists()
