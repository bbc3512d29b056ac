"""`regard embed`: a line in, a row of the array out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.cli.main import main

pytestmark = pytest.mark.usefixtures("one_thread")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(minilm: Path, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("a.txt", "--out", "a.npy")` in an empty folder with these files: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("A dog.\n\nEin Hund. 你好\n", encoding="utf-8")

    def ask(*words: str, model: Path = minilm) -> tuple[int, str, str]:
        capsys.readouterr()
        return main(["embed", str(model), *words, "--threads", "1", "--device", "cpu", "--quiet"]), *capsys.readouterr()

    return ask


def test_each_line_is_a_row(run: Run, minilm: Path, tmp_path: Path) -> None:
    assert run("a.txt", "--out", "a.npy") == (0, "", "")
    vectors = np.load(tmp_path / "a.npy")
    assert vectors.dtype == np.float32 and vectors.shape == (3, 384)
    assert vectors == pytest.approx(regard.load(minilm, device="cpu").embed(["A dog.", "", "Ein Hund. 你好"]), abs=1e-6)
    code, out, _ = run("a.txt", "--out", "b.npy", "--raw", "--pooling", "cls", "--json")
    row = json.loads(out)
    assert (code, row["texts"], row["width"], row["out"]) == (0, 3, 384, "b.npy")
    assert np.load(tmp_path / "b.npy") != pytest.approx(vectors, abs=1e-2)
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "a.npy", "b.npy"}


def test_an_empty_file_is_an_array_without_rows(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    assert run("empty.txt", "--out", "e.npy")[0] == 0 and np.load(tmp_path / "e.npy").shape == (0, 384)


def test_a_long_line_is_cut_and_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("a\n" + "dog " * 600 + "\n")
    code, _, err = run("long.txt", "--out", "l.npy")
    assert code == 0 and "lines 1 to 2: 1 of 2 texts are longer than the 510 tokens" in err and "90 tokens" in err


def test_mistakes_leave_nothing_behind(run: Run, tmp_path: Path, model_dir: Callable[[str], Path]) -> None:
    (tmp_path / "latin.txt").write_bytes(b"a\nJ\xfcrgen\n")
    assert run("latin.txt", "--out", "x.npy")[0] == 3
    assert run("absent.txt", "--out", "x.npy")[0] == 3
    assert run("a.txt", "--out", "x.txt")[0] == run("a.txt")[0] == 2
    code, _, err = run("a.txt", "--out", "x.npy", model=model_dir("stories260k"))
    assert code == 2 and "this model cannot embed" in err
    assert run("a.txt", "--out", "a.txt/x.npy")[0] == 1
    code, _, err = run(str(tmp_path), "--out", "x.npy")
    assert code == 3 and "this is a folder" in err and "Errno" not in err
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "latin.txt"}


def test_the_folder_of_out_is_made(run: Run, tmp_path: Path) -> None:
    assert run("a.txt", "--out", "new/deep/x.npy") == (0, "", "")
    assert np.load(tmp_path / "new" / "deep" / "x.npy").shape == (3, 384)


def test_what_only_embeds_is_told_so_by_other_verbs(run: Run, minilm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in (
        (["evaluate", "a.txt"], "nothing to evaluate"),
        (["generate", "--prompt", "x"], "cannot generate"),
    ):
        verb, *rest = words
        assert main([verb, str(minilm), *rest, "--threads", "1", "--device", "cpu"]) == 2
        err = capsys.readouterr().err
        assert says in err and "it can embed" in err
