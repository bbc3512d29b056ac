"""Fault 12: an unreadable, read-only or missing folder; spaces and unicode in paths."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from regard.errors import CheckpointError, UserError
from regard.hub.atomic import commit_folder, point, read_pointer, verify_manifest, write_text_atomic
from regard.hub.lock import lock_folder
from regard.hub.weights import WEIGHTS, read_model_weights, read_weights, write_weights


def fill(folder: Path) -> None:
    write_weights(folder / WEIGHTS, {"a": torch.ones(1)})


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read and write everything, so where the tests run as root, be nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that nobody can reach, unlike pytest's own."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def test_a_missing_folder(tmp_path: Path) -> None:
    for read in (read_model_weights, read_weights, verify_manifest):
        with pytest.raises(CheckpointError, match="absent") as caught:
            read(tmp_path / "absent")
        assert caught.value.exit_code == 4 and caught.value.mend
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="not a folder"):
        verify_manifest(tmp_path / "file")
    with pytest.raises(CheckpointError, match="cannot read"):
        read_weights(tmp_path)


def test_an_unreadable_folder_or_file(place: Path) -> None:
    commit_folder(place / "model", fill)
    point(place / "latest", "model")
    (place / "latest").chmod(0)
    for locked in (place / "model" / WEIGHTS, place / "model"):
        locked.chmod(0)
        with unprivileged():
            for read in (read_model_weights, verify_manifest):
                with pytest.raises(CheckpointError, match=r"cannot read\n.*Permission denied"):
                    read(place / "model")
            with pytest.raises(CheckpointError, match="cannot read"):
                read_pointer(place / "latest")


def test_a_read_only_folder(place: Path) -> None:
    commit_folder(place / "run" / "model", fill)
    with unprivileged():
        for write in (
            lambda: commit_folder(place / "run" / "model", fill),
            lambda: write_text_atomic(place / "run" / "latest", "model"),
            lambda: lock_folder(place / "run").__enter__(),
        ):
            with pytest.raises(UserError, match=r"cannot write\n.*Permission denied") as caught:
                write()
            assert caught.value.exit_code == 1
    assert verify_manifest(place / "run" / "model")


@pytest.mark.parametrize("name", ["two words", "模型", "модель", "modèle (été) 🚲", "-rf", "a'b\"c$d"])
def test_any_name_works(tmp_path: Path, name: str) -> None:
    target = tmp_path / name / name
    with lock_folder(tmp_path / name):
        commit_folder(target, lambda folder: write_weights(folder / f"{name}.safetensors", {name: torch.ones(1)}))
        commit_folder(target, lambda folder: write_weights(folder / WEIGHTS, {name: torch.ones(1)}))
        point(tmp_path / name / "latest", name)
    assert verify_manifest(target) is True
    assert list(read_model_weights(target)) == [name]
    assert read_pointer(tmp_path / name / "latest") == name
