"""Faults 15 to 22 in the texts of `--adapt`: told before anything is trained, or read as the plain text they are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
TINY = ("tokenizer.vocab_size=400 model.d_model=16 model.n_heads=2 model.d_ff=16 model.max_len=32 batch.tokens=300 "
        "batch.max_len=32 loop.steps=2 loop.evaluate_every=2")  # fmt: skip
AGAIN = "batch.tokens=300 adapt.batch.tokens=300 adapt.loop.steps=2 adapt.loop.evaluate_every=2 loop.steps=2"
ROWS = "".join(f"a {word} film of {i} hours\t{label}\n" for i in range(20) for word, label in (("good", 1), ("bad", 0)))


def changes(text: str) -> list[str]:
    return [word for change in text.split() for word in ("--set", change)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("films")


@pytest.fixture
def films(command: Command, folder: Path) -> Path:
    """films.tsv, and `start`, a classifier of them to start from."""
    if not (folder / "start").exists():
        (folder / "films.tsv").write_text(ROWS, encoding="utf-8")
        words = ("train", "classification", str(folder / "films.tsv"), "--out", str(folder / "start"), "--quiet")
        code, _, err = command(*words, *changes(TINY))
        assert code == 0, err
    return folder


@pytest.fixture
def adapt(command: Command, films: Path, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """`adapt(b"text", "--unit", "line")` adapts to a file of these bytes."""

    def run(content: bytes, *more: str, name: str = "texts.txt") -> tuple[int, str, str]:
        (tmp_path / name).write_bytes(content)
        words = ("train", "classification", str(films / "films.tsv"), "--from", str(films / "start"), "--adapt",
                 str(tmp_path / name), "--out", str(tmp_path / "run"), *more)  # fmt: skip
        return command(*words, "--json", *changes(AGAIN))

    return run


def test_by_the_command_both_runs_are_told(adapt: Command, command: Command, tmp_path: Path) -> None:
    """With odd characters in the texts (15), control tokens as they are typed (16), and words without end (17)."""
    odd = "a \x00 zero\ufeff, e\u0301, \u202eright to left\u202c, one\u2028line, </s> <pad> <mask>, " + "a" * 20_000
    lines = [odd, *(f"another film, of {i} hours" for i in range(30))]
    code, out, err = adapt("\r\n".join(lines).encode(), "--unit", "line")
    assert code == 0, err
    assert "first it is adapted to" in err and err.count("all steps are done: 2 updates") == 2
    report = json.loads(out)
    assert report["task"] == "classification" and report["steps"] == 2
    facts = json.loads((tmp_path / "run" / "checkpoints" / "final" / "config.json").read_text())
    assert facts["training"]["init"]["adapted"]["steps"] == 2
    told = json.loads((tmp_path / "run" / "adapt" / "checkpoints" / "final" / "config.json").read_text())
    assert told["training"]["train_documents"] + told["training"]["dev_documents"] == 31
    code, out, _ = command("info", str(tmp_path / "run"))
    assert code == 0 and "init.adapted.steps" in out
    code, _, err = command(
        "train", "classification", "--out", str(tmp_path / "run"), "--resume", "--adapt", "other.txt"
    )
    assert code == 2 and "not adapted to anything else" in err


@pytest.mark.parametrize(
    ("content", "name", "code", "says"),
    [
        (b"", "texts.txt", 3, "texts.txt"),
        (b" \n\n ", "texts.txt", 3, "texts.txt"),
        (b'{"text": "a"}\n{"text": 3}\n', "texts.jsonl", 3, "texts.jsonl:2"),
        (b'{"text": "a"}\nno json\n', "texts.jsonl", 3, "texts.jsonl:2"),
        (b"fine\n\xff\xfe bytes\n", "texts.txt", 3, "texts.txt"),
        (b"x", "texts.txt", 3, "too short to hold some of it out"),
        (gzip.compress(b"a film " * 40)[:30], "texts.txt.gz", 3, "texts.txt.gz"),
    ],
    ids=["empty", "spaces", "a wrong type", "no JSON", "no UTF-8", "one letter", "half a gzip file"],
)
def test_texts_that_cannot_be_read_stop_before_training(
    adapt: Command, tmp_path: Path, content: bytes, name: str, code: int, says: str
) -> None:
    got, out, err = adapt(content, name=name)
    assert got == code == json.loads(out)["error"]["exit_code"] and says in err and "Traceback" not in err, err
    assert not (tmp_path / "run" / "latest").exists() and not (tmp_path / "run" / "adapt").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("translation {0} {0} --adapt {0}", "only an encoder that reads"),
        ("language-model {0} --adapt {0}", "only an encoder that reads"),
        ("classification {0} --adapt {0}", "no model to adapt"),
        ("sst2 --adapt {0}", "a recipe says itself"),
    ],
)
def test_what_cannot_be_adapted_is_refused(command: Command, films: Path, words: str, says: str) -> None:
    code, _, err = command("plan", *words.format(films / "films.tsv").split())
    assert code == 2 and says in err and "Traceback" not in err


def test_a_plan_says_it(command: Command, films: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text(ROWS, encoding="utf-8")
    words = ("classification", str(films / "films.tsv"), "--from", str(films / "start"))
    code, out, err = command("plan", *words, "--adapt", str(tmp_path / "plain.txt"), "--minutes", "1")
    assert code == 0, err
    assert "first it is adapted to" in out and "plain.txt: about" in out
