"""Parted documents: copies stay together, nothing is lost, and the same data gives the same files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.tasks.parted import PartedTable, PythonSources


def read(folder: Path, suffix: str) -> dict[str, list[str]]:
    return {name: (folder / f"{name}.{suffix}").read_text().splitlines() for name in ("train", "dev", "test")}


@pytest.mark.parametrize("packed", [True, False])
def test_lines_that_agree_in_the_column_stay_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    lines = [f"title {i}\tauthor\tpoem {i % 700}" for i in range(2_000)]
    text = "\n".join(lines).encode()
    (tmp_path / "poems").write_bytes(gzip.compress(text) if packed else text)
    PartedTable(table="poems", column=3).write(tmp_path / "out")
    parts = read(tmp_path / "out", "tsv")
    assert sorted(line for part in parts.values() for line in part) == sorted(lines)
    poems = {name: {line.split("\t")[2] for line in part} for name, part in parts.items()}
    assert not poems["train"] & poems["test"] and not poems["train"] & poems["dev"] and not poems["dev"] & poems["test"]
    assert 0.05 < len(parts["test"]) / 2_000 < 0.15


def test_the_standard_library_is_data(tmp_path: Path) -> None:
    PythonSources().write(tmp_path / "one")
    PythonSources().write(tmp_path / "two")
    parts = read(tmp_path / "one", "jsonl")
    assert parts == read(tmp_path / "two", "jsonl")
    rows = [json.loads(line) for part in parts.values() for line in part]
    assert len(rows) > 300 and len({row["path"] for row in rows}) == len(rows)
    assert any(row["path"] == "json/decoder.py" and "JSONDecodeError" in row["text"] for row in rows)
    assert not any("site-packages" in row["path"] or row["path"].startswith("test/") for row in rows)
