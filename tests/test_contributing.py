"""What CONTRIBUTING.md shows as code is the code, or runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
TEXT = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_worked_data_source_is_the_code() -> None:
    shown, *_ = python_blocks()
    assert shown in (CHECKOUT / "src/regard/data/localiser/words.py").read_text(encoding="utf-8")


def test_the_worked_family_is_the_code() -> None:
    *_, shown = python_blocks()
    assert shown in (CHECKOUT / "src/regard/hub/families/neox.py").read_text(encoding="utf-8")


def test_the_worked_data_source_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, used, _ = python_blocks()
    exec(compile(used, "CONTRIBUTING.md", "exec"), {})
    assert capsys.readouterr().out.startswith("500 ")
    assert {path.name for path in tmp_path.iterdir()} == {"dev.tsv", "test.tsv"}


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)


def test_the_rooms_it_names_are_there() -> None:
    section = TEXT.split("## A data source, worked")[1].split("\n## ")[0]
    for name in re.findall(r"`(data/\w+)`", section):
        assert (CHECKOUT / "src" / "regard" / name).is_dir(), name
