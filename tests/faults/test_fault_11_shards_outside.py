"""Fault 11: an index naming `../../x` or an absolute shard; links that lead out of the folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.errors import CheckpointError
from regard.hub.weights import INDEX, WEIGHTS, read_model_weights, write_weights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder beside which lies somebody else's file, well-formed and readable."""
    (tmp_path / "model").mkdir()
    write_weights(tmp_path / "secret.safetensors", {"a": torch.ones(1)})
    return tmp_path / "model"


@pytest.mark.parametrize(
    "shard", ["../secret.safetensors", "x/../../secret.safetensors", "{outside}/secret.safetensors", "a\0b", "\ud800"]
)
def test_an_index_that_leads_out(folder: Path, shard: str) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": shard.format(outside=folder.parent)}}))
    with pytest.raises(CheckpointError, match="leads out of the folder"):
        read_model_weights(folder)


def test_links_that_lead_out(folder: Path) -> None:
    (folder / "shard").symlink_to(folder.parent / "secret.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "shard"}}))
    with pytest.raises(CheckpointError, match="leads out of the folder"):
        read_model_weights(folder)
    (folder / WEIGHTS).symlink_to("../secret.safetensors")
    with pytest.raises(CheckpointError, match="leads out of the folder"):
        read_model_weights(folder)


def test_a_link_within_the_folder_and_a_link_to_it_are_followed(folder: Path) -> None:
    write_weights(folder / "real", {"a": torch.ones(1)})
    (folder / WEIGHTS).symlink_to("real")
    (folder.parent / "link").symlink_to("model")
    assert list(read_model_weights(folder.parent / "link")) == ["a"]


def test_a_link_to_itself_is_no_weights(folder: Path) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "loop"}}))
    (folder / "loop").symlink_to("loop")
    with pytest.raises(CheckpointError, match="loop"):
        read_model_weights(folder)
