"""`regard translate`: one line out for each line in, in order, as soon as it can be."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import regard

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """`stdin(data)`: what the next command reads from standard input."""
    with ExitStack() as opened:

        def feed(data: bytes) -> None:
            (tmp_path / "stdin").write_bytes(data)
            monkeypatch.setattr(sys, "stdin", opened.enter_context((tmp_path / "stdin").open("rb")))

        yield feed


@pytest.mark.whole
def test_the_same_file_through_pipe_file_and_python_gives_identical_bytes(command: Command, workplace: Path) -> None:
    """Law 31, but for HTTP."""
    data = (workplace / "test.en").read_bytes()
    code, out, err = command("translate", "run", "test.en")
    assert code == 0 and (not err or err.startswith("cut at the greatest length")), "it has learned little"
    lines = data.decode().splitlines()
    found = regard.load(workplace / "run", device="cpu").translate(lines)
    assert out == "".join(translation.text + "\n" for translation in found)
    words = [sys.executable, "-m", "regard", "translate", "run", "--threads", "1"]
    piped = subprocess.run(words, input=data, cwd=workplace, capture_output=True, check=False)
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, out.encode(), err.encode())
    (workplace / "test.gz").write_bytes(gzip.compress(data))
    assert command("translate", "run", "test.gz", "--out", "out.de") == (0, "", err)
    assert (workplace / "out.de").read_text(encoding="utf-8") == out


@pytest.mark.whole
def test_a_line_is_answered_before_the_next_is_sent(workplace: Path) -> None:
    command = [sys.executable, "-m", "regard", "translate", "run", "--threads", "1", "--beam", "1", "--json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=workplace, text=True, encoding="utf-8", bufsize=1, **pipes) as process:
        assert process.stdin and process.stdout
        for line in ("A man.", "", "A dog runs."):
            process.stdin.write(line + "\n")
            assert json.loads(process.stdout.readline())["source"] == line
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_lines_end_at_newline_only_and_each_has_its_answer(command: Command, stdin: Callable[[bytes], None]) -> None:
    data = "\ufeffA man.\r\n\n  \nA\u2028dog \u0085 runs.\nlast".encode()
    stdin(data)
    code, out, _ = command("translate", "run", "-", "--beam", "1", "--json")
    rows = [json.loads(line) for line in out.removesuffix("\n").split("\n")]
    assert code == 0 and [row["source"] for row in rows] == ["A man.", "", "  ", "A\u2028dog \u0085 runs.", "last"]
    assert [bool(row["translation"]) for row in rows] == [True, False, False, True, True]
    stdin(b"")
    assert command("translate", "run") == (0, "", "")


def test_a_bad_byte_ends_with_3_and_names_the_line(
    command: Command, workplace: Path, stdin: Callable[[bytes], None]
) -> None:
    stdin(b"A man.\nJ\xfcrgen\n")
    code, out, err = command("translate", "run", "--beam", "1")
    assert code == 3 and "-:2: the line is not UTF-8" in err and "0xfc" in err
    (workplace / "latin.txt").write_bytes(b"A man.\nJ\xfcrgen\n")
    code, out, err = command("translate", "run", "latin.txt", "--out", "half.de")
    assert (code, out) == (3, "") and "latin.txt:2" in err
    assert not (workplace / "half.de").exists()


def test_json_holds_what_was_asked_for(command: Command, workplace: Path) -> None:
    (workplace / "two.en").write_text("A man.\n\n")
    code, out, _ = command("translate", "run", "two.en", "--json", "--n-best", "3", "--alignments", "--beam", "3")
    first, empty = map(json.loads, out.splitlines())
    assert code == 0 and first["source"] == "A man." and len(first["alternatives"]) == 2
    assert [target for _, target in first["alignment"]] == list(range(len(first["target_tokens"])))
    assert (empty["translation"], empty["score"], empty["alignment"]) == ("", 0.0, [])
    plain = json.loads(command("translate", "run", "two.en", "--json")[1].splitlines()[0])
    assert set(plain) - {"unfinished"} == {"source", "translation", "score", "logprob", "confidence"}


def test_n_best_and_alignments_as_moses_and_marian_write_them(command: Command, workplace: Path) -> None:
    (workplace / "two.en").write_text("A man.\nA dog.\n")
    rows = [row.split(" ||| ") for row in command("translate", "run", "two.en", "--n-best", "2")[1].splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "1", "1"]
    assert float(rows[0][2]) >= float(rows[1][2])
    [text, links] = command("translate", "run", "two.en", "--alignments")[1].splitlines()[0].split(" ||| ")
    assert text == rows[0][1] and links.split()[0].endswith("-0")


def test_alignments_number_words(command: Command, workplace: Path) -> None:
    """Pharaoh format: from 0, source-target, in the order of the target; a word is what stands between white space."""
    (workplace / "two.en").write_text("A man, two dogs.\nRunning\n")
    for source, line in zip(
        ("A man, two dogs.", "Running"),
        command("translate", "run", "two.en", "--alignments")[1].splitlines(),
        strict=True,
    ):
        text, links = line.split(" ||| ")
        pairs = [tuple(map(int, link.split("-"))) for link in links.split(" ")]
        assert {t for _, t in pairs} == set(range(len(text.split()))) and {s for s, _ in pairs} <= set(
            range(len(source.split()))
        )
        assert len(set(pairs)) == len(pairs) and [t for _, t in pairs] == sorted(t for _, t in pairs)


def test_what_must_be_in_the_output_is_in_it(command: Command, workplace: Path) -> None:
    (workplace / "terms.tsv").write_text("# English\tGerman\nman\tMannsbild\n\nbike\tVeloziped\n")
    (workplace / "two.en").write_text("A man on a bike.\nSee {0} at https://a.org/x.\n")
    one, two = command("translate", "run", "two.en", "--glossary", "terms.tsv")[1].splitlines()
    assert "Mannsbild" in one and "Veloziped" in one and "{0}" in two and "https://a.org/x" in two
    free = command("translate", "run", "two.en", "--protect", "none", "--prefix", "Ein Hund")[1].splitlines()
    assert all(line.startswith("Ein Hund") for line in free) and "{0}" not in free[1]


@pytest.mark.parametrize("line", ["man", "man\t", "man\tMann\tHerr", "\tMann"])
def test_a_bad_glossary_names_its_line(command: Command, workplace: Path, line: str) -> None:
    (workplace / "terms.tsv").write_text(f"dog\tHund\n{line}\n")
    code, out, err = command("translate", "run", "test.en", "--glossary", "terms.tsv")
    assert (code, out) == (3, "") and "terms.tsv:2" in err
    (workplace / "terms.tsv").write_text("dog\tHund\ndog\tKöter\n")
    assert "two translations" in command("translate", "run", "test.en", "--glossary", "terms.tsv")[2]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("nowhere", 4, "there is no model folder"),
        ("run absent.en", 3, "no such file"),
        ("run test.en --beam 2 --n-best 3", 2, "raise beam to 3"),
        ("run test.en --n-best 0", 2, "1 or more"),
        ("run test.en --beam 0", 2, "1 or more"),
        ("run test.en --no-repeat-ngram -1", 2, "0 or more"),
        ("run test.en --to fr", 2, "one direction only"),
        ("run test.en --glossary test.en", 3, "test.en:1: the line is not a glossary entry"),
        ("run test.en --device abacus", 2, "unknown device"),
        ("run test.en --out test.en/file", 1, "cannot write the file"),
        ("", 2, "MODEL"),
    ],
)
def test_mistakes(command: Command, words: str, code: int, says: str) -> None:
    got, out, err = command("translate", *words.split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err


@pytest.mark.whole
def test_a_reader_that_leaves_is_no_error(workplace: Path) -> None:
    command = [sys.executable, "-m", "regard", "translate", "run", "--threads", "1", "--beam", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=workplace, **pipes) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        os.write(process.stdin.fileno(), b"A man.\n" * 300)
        assert process.stderr.read() == b"" and process.wait(timeout=60) == 141


def test_the_file_that_is_read_is_not_written(command: Command, workplace: Path) -> None:
    before = (workplace / "test.en").read_bytes()
    code, _, err = command("translate", "run", "test.en", "--out", "../" + workplace.name + "/test.en")
    assert code == 2 and "would be lost" in err and (workplace / "test.en").read_bytes() == before


def test_a_text_in_place_of_a_file_is_told_the_way_in(command: Command) -> None:
    code, _, err = command("translate", "run", "A man rides a bicycle.")
    assert code == 3 and "echo 'TEXT' | regard" in err
