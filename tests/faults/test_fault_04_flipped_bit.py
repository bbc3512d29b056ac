"""Fault 4: one flipped bit in any checkpoint file, the manifest itself included."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from regard.errors import CheckpointError
from regard.hub.atomic import MANIFEST, commit_folder, verify_manifest
from regard.hub.weights import WEIGHTS, write_weights


def fill(folder: Path) -> None:
    write_weights(folder / WEIGHTS, {"a": torch.arange(6.0)})
    (folder / "config.json").write_text('{"model_type": "regard"}\n')
    (folder / "state").mkdir()
    (folder / "state" / "order.json").write_text("[3, 1, 2]\n")


def test_the_manifest_catches_it_in_every_byte(tmp_path: Path) -> None:
    folder, dice = tmp_path / "step-1", random.Random(0)
    commit_folder(folder, fill)
    for victim in [path for path in folder.rglob("*") if path.is_file()]:
        content = victim.read_bytes()
        for position in range(len(content)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << dice.randrange(8)
            victim.write_bytes(damaged)
            with pytest.raises(CheckpointError) as caught:
                verify_manifest(folder)
            assert caught.value.exit_code == 4
            assert str(folder if victim.name == MANIFEST else victim) in str(caught.value)
        victim.write_bytes(content)
    assert verify_manifest(folder) is True
