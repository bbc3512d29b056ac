"""`regard prepare`: texts to token ids, and what it says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.main import main
from regard.data.shards import open_shards
from regard.text import Tokenizer

Prepare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def prepare(data_dir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prepare:
    """`prepare("a.txt", "--out", "out")` runs the verb where a.txt is: code, stdout, stderr."""
    (tmp_path / "a.txt").write_text((data_dir("tinyshakespeare") / "input.txt").read_text()[:60_000])
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main(["prepare", *words, "--threads", "1"]), *capsys.readouterr()

    return run


def test_a_corpus_in_one_command_and_again(prepare: Prepare, tmp_path: Path) -> None:
    words = ("a.txt", "--out", "out", "--vocab-size", "400")
    code, out, err = prepare(*words)
    corpus = open_shards(tmp_path / "out")
    assert code == 0 and f"{corpus.tokens:,} of 400 kinds" in out
    assert "now: regard train language-model out --out runs/out" in out
    assert "read as plain text: each is one document" in err and "a new vocabulary of 400 tokens" in err
    assert Tokenizer.load(tmp_path / "out").decode(corpus.document(0).tolist()) == (tmp_path / "a.txt").read_text()
    code, out, err = prepare(*words, "--json")
    report = json.loads(out)
    assert code == 0 and report["was_there"] and report["tokens"] == corpus.tokens and report["missing"] == []
    assert (report["documents"], report["bytes"], report["vocab_size"]) == (1, 60_000, 400)
    (tmp_path / "a.txt").write_text("something else")
    code, out, err = prepare(*words)
    assert (code, open_shards(tmp_path / "out").bytes) == (0, 14)
    assert "made anew: a.txt is not what it was made from" in err
    assert prepare(*words, "--quiet")[2] == ""


def test_shards_one_by_one(prepare: Prepare, tmp_path: Path) -> None:
    assert prepare("a.txt", "--out", "one", "--unit", "paragraph", "--vocab-size", "400")[0] == 0
    words = ("a.txt", "--out", "three", "--unit", "paragraph")
    code, out, err = prepare(*words, "--shard", "0/3")
    assert (code, out) == (2, "") and "all shards need the same vocabulary" in err
    shared = ("--tokenizer", "one/tokenizer.json")
    code, out, _ = prepare(*words, *shared, "--shard", "2/3")
    assert code == 0 and "still to do: --shard 0/3, 1/3" in out
    assert [prepare(*words, "--shard", shard)[0] for shard in ("0/3", "1/3")] == [0, 0]  # the one in `three`
    one, three = open_shards(tmp_path / "one"), open_shards(tmp_path / "three")
    assert len(one) == len(three) > 100
    assert all((one.document(i) == three.document(i)).all() for i in range(len(one)))


def test_with_the_vocabulary_of_a_model(prepare: Prepare, model_dir, tmp_path: Path) -> None:
    folder = model_dir("stories260k")
    assert prepare("a.txt", "--out", "out", "--tokenizer", str(folder), "--field", "text")[0] == 0
    assert prepare("a.txt", "--out", "out", "--tokenizer", str(folder), "--json")[1].count('"was_there": true') == 1
    assert open_shards(tmp_path / "out").document(0).max() < 512


@pytest.mark.whole
def test_standard_input(prepare: Prepare, tmp_path: Path) -> None:
    Tokenizer.train(["a text " * 9], kind="bytes", vocab_size=300).save(tmp_path)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in ("one", "two words", ""))
    words = ["prepare", "-", "--out", "out", "--tokenizer", "tokenizer.json", "--json"]
    command = [sys.executable, "-m", "regard", *words]
    done = subprocess.run(command, input=lines.encode(), capture_output=True, cwd=tmp_path,
                          env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)  # fmt: skip
    report = json.loads(done.stdout)
    assert (report["documents"], report["bytes"], report["empty"]) == (2, 12, 1)
    assert b"by its first line" in done.stderr
    code, _, err = prepare("-", "--out", "other")
    assert code == 2 and "read only once" in err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("--out out", 2, "nothing to prepare"),
        ("a.txt", 2, "--out"),
        ("b.txt --out out", 3, "did you mean a.txt"),
        ("a.txt --out out --shard 7/7", 2, "I from 0 to N - 1"),
        ("a.txt --out out --shard 1", 2, "not a shard"),
        ("a.txt --out out --unit lines", 2, "did you mean line"),
        ("a.txt --out out --vocab-size 10", 2, "no room to learn"),
        ("a.txt --out a.txt --tokenizer vocabulary", 1, "cannot write"),
        ("a.txt --out out --tokenizer vocabulary --vocab-size 200", 2, "another size"),
        ("a.txt --out out --tokenizer a.txt", 4, "holds no model"),
        ("b.tsv --out out --tokenizer vocabulary", 3, "no column 'text'"),
    ],
)
def test_mistakes(prepare: Prepare, tmp_path: Path, words: str, code: int, says: str) -> None:
    (tmp_path / "vocabulary").mkdir()
    Tokenizer.train(["a text " * 99], kind="bytes", vocab_size=280).save(tmp_path / "vocabulary")
    (tmp_path / "b.tsv").write_text("1\t2\n")
    got, out, err = prepare(*words.split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err
