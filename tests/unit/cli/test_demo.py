"""`regard demo`: where it finds its data, and what it shows of a model that is there."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.demo import find_data

Command = Callable[..., tuple[int, str, str]]


def test_without_data_it_says_where_to_get_it(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    code, _, err = command("demo")
    assert code == 3 and "github.com/multi30k/dataset" in err and str(tmp_path / "multi30k") in err


def test_data_beside_the_checkout_is_found_from_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    there, here = tmp_path / "shared" / "data" / "corpus", tmp_path / "checkout" / "deep"
    there.mkdir(parents=True)
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert find_data("corpus") == there


@pytest.fixture
def demo(command: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The verb, on the workplace's small files in place of Multi30k."""
    data = tmp_path / "multi30k"
    data.mkdir()
    for ours, theirs in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr")):
        for code in ("en", "de"):
            with gzip.open(data / f"{theirs}.{code}.gz", "wb") as file:
                file.write((workplace / f"{ours}.{code}").read_bytes())
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    return lambda *words: command("demo", *words)


def test_a_finished_demo_is_scored_and_shown(demo: Command, workplace: Path, tmp_path: Path) -> None:
    shutil.copytree(workplace / "run", tmp_path / "run")
    code, out, _ = demo("--out", str(tmp_path / "run"), "--beam", "1")
    assert code == 0 and "bleu" in out and f"regard translate {tmp_path / 'run'}" in out
    first = (workplace / "test.en").read_text().splitlines()[0]
    assert sum(line.startswith(first) for line in out.splitlines()) == 1
    code, out, _ = demo("--out", str(tmp_path / "run"), "--beam", "1", "--json")
    assert json.loads(out)["examples"] == 20


@pytest.mark.slow
def test_a_demo_from_nothing(demo: Command, tmp_path: Path) -> None:
    code, out, err = demo("--out", str(tmp_path / "new"), "--minutes", "0.5", "--beam", "1")
    assert code == 0, err
    assert "expected: 0.5 minutes" in err and "bleu" in out and (tmp_path / "new" / "best").read_text() == "final\n"
