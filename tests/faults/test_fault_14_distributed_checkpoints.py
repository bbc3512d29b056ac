"""Fault 14: a PyTorch distributed checkpoint (DCP) from elsewhere. Its .metadata is a pickle: it is never opened."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import CheckpointError
from regard.hub.folder import describe_model, load_model


class Bomb:
    """Unpickling this makes the folder `pwned`."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.place / "pwned"),)


@pytest.mark.parametrize("with_config", [True, False])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_it_is_refused_by_what_it_is(gpt2: Callable[..., Path], with_config: bool, with_metadata: bool) -> None:
    folder = gpt2()
    (folder / "model.safetensors").rename(folder / "__0_0.distcp")
    if with_metadata:
        (folder / ".metadata").write_bytes(pickle.dumps(Bomb(folder)))
    if not with_config:
        (folder / "config.json").unlink()
    for read in (load_model, describe_model):
        with pytest.raises(CheckpointError) as caught:
            read(folder)
        assert "distributed checkpoint" in str(caught.value.got) and "pickle" in str(caught.value.got)
        assert "safetensors" in str(caught.value.mend)
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize("with_config", [True, False])
def test_the_other_things_that_are_no_models_are_named_too(gpt2: Callable[..., Path], with_config: bool) -> None:
    folder = gpt2()
    if not with_config:
        (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(CheckpointError, match="an adapter") as caught:
        load_model(folder)
    assert "merge" in str(caught.value.mend)
    (folder / "adapter_config.json").unlink()
    (folder / "model-q4.gguf").write_bytes(b"GGUF")
    with pytest.raises(CheckpointError, match="a GGUF model"):
        load_model(folder)
