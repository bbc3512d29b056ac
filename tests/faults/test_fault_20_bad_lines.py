"""Fault 20: bad line, missing field, wrong type, CRLF, no final newline, quotes, an enormous line."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data import check_pairs, read_lines, read_pairs
from regard.data.chat import read_chats
from regard.data.conll import read_tagged
from regard.data.documents import read_documents
from regard.data.files import MAX_LINE_BYTES
from regard.data.labelled import read_labelled
from regard.data.squad import read_questions
from regard.errors import DataError

GOOD = {"tsv": b"a\tA", "csv": b"a,A", "jsonl": b'{"source": "a", "target": "A"}'}
BAD = [
    ("tsv", b"only one column", "1 column and"),
    ("tsv", b"a\tA\tmore", "3 columns"),
    ("tsv", b"a\t\xff", "0xff"),
    ("tsv", b"a\t\xed\xa0\x80", "0xed"),
    ("csv", b"one", "1 column and"),
    ("csv", b'a,"A"B', "CSV"),
    ("jsonl", b'{"source": "a"}', "'target' is missing"),
    ("jsonl", b'{"source": "a", "target": null}', "'target' is not a string"),
    ("jsonl", b'{"source": ["a"], "target": "A"}', "'source' is not a string"),
    ("jsonl", b'{"source": "a", "target": "A"', "not JSON"),
    ("jsonl", b"[" * 100_000, "not JSON"),
    ("jsonl", b'{"source": ' + b"1" * 10_000 + b', "target": "A"}', "not JSON"),
    ("jsonl", b'"a"', "not a JSON object"),
]


def _file(folder: Path, kind: str, bad: bytes, end: bytes = b"\n") -> Path:
    path = folder / f"a.{kind}"
    path.write_bytes(end.join([GOOD[kind], GOOD[kind], bad, GOOD[kind]]))  # and no end after the last
    return path


@pytest.mark.parametrize(("kind", "bad", "message"), BAD)
def test_a_bad_line_is_named(tmp_path: Path, kind: str, bad: bytes, message: str) -> None:
    path = _file(tmp_path, kind, bad)
    with pytest.raises(DataError) as caught:
        read_pairs([path], skip_bad=0)
    text = str(caught.value)
    assert text.startswith(f"{path}:3: ") and message in text and "--skip-bad" in text
    assert len(text) < 1_000


@pytest.mark.parametrize(("kind", "bad", "message"), BAD)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_skip_bad_leaves_it_out_and_reports_it(tmp_path: Path, kind: str, bad: bytes, message: str, end: bytes) -> None:
    pairs = read_pairs([_file(tmp_path, kind, bad, end)], skip_bad=1)
    assert (pairs.source, pairs.target) == (["a"] * 3, ["A"] * 3)
    assert list(pairs.lines) == [1, 2, 4]
    assert [str(error.where) for error in pairs.skipped] == [f"{tmp_path}/a.{kind}:3"]
    [finding] = [finding for finding in check_pairs(pairs) if finding.name == "skipped"]
    assert (finding.count, finding.severity, finding.examples) == (1, "warn", (f"{tmp_path}/a.{kind}:3",))


@pytest.mark.parametrize(
    ("read", "name", "text"),
    [
        (read_pairs, "a.tsv", "a\tA\nbad\n"), (read_labelled, "a.tsv", "text\tlabel\na\tA\nbad\n"),
        (read_tagged, "a.conll", "a O\nbad\n"), (read_chats, "a.jsonl", '{"messages": 1}\n'),
        (read_questions, "a.jsonl", '{"question": 1, "context": "a", "answer": "a", "start": 0}\n'),
        (lambda paths, **more: list(read_documents(paths, **more)), "a.jsonl", '{"text": 1}\n'),
    ],
)  # fmt: skip
def test_only_where_a_verb_can_skip_lines_it_is_advised(
    tmp_path: Path, read: Callable[..., object], name: str, text: str
) -> None:
    """`evaluate` and others have no --skip-bad; they say of no line that it may be left out."""
    path = tmp_path / name
    path.write_text(text)
    for more, advised in (({}, False), ({"skip_bad": 0}, True)):
        with pytest.raises(DataError) as caught:
            read([path], **more)
        assert caught.value.mend is not None and ("--skip-bad N" in caught.value.mend) is advised


def test_one_bad_line_too_many(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tA\nx\ny\nz\nb\tB\n")
    assert len(read_pairs([path], skip_bad=3)) == 2
    with pytest.raises(DataError, match=r"a\.tsv:4: .*bad line 3"):
        read_pairs([path], skip_bad=2)


def test_parallel_files_stay_aligned_around_a_bad_line(tmp_path: Path) -> None:
    one, two = tmp_path / "a.en", tmp_path / "a.de"
    one.write_bytes(b"a\nb\xff\nc\n")
    two.write_bytes(b"A\r\nB\r\nC")
    with pytest.raises(DataError, match=r"a\.en:2: the line is not UTF-8"):
        read_pairs([one, two])
    pairs = read_pairs([one, two], skip_bad=1)
    assert (pairs.source, pairs.target) == (["a", "c"], ["A", "C"])
    assert pairs.where(1) == f"{one}:3 and {two}:3"


def test_an_unclosed_quote_does_not_swallow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,A\nb,"B\n' + "c,C\n" * 50_000)
    with pytest.raises(DataError, match=r"a\.csv:2: the record is not CSV"):
        read_pairs([path])


def test_an_enormous_line_takes_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    with path.open("wb") as file:
        file.write(b"a\tA\n")
        file.seek(8 * MAX_LINE_BYTES)  # a hole: the disk holds next to nothing
        file.write(b"\nb\tB\n")
    tracemalloc.start()
    try:
        pairs = read_pairs([path], skip_bad=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (pairs.source, [str(error.where) for error in pairs.skipped]) == (["a", "b"], [f"{path}:2"])
    assert peak < 4 * MAX_LINE_BYTES
    with pytest.raises(DataError, match=r"a\.tsv:2: the line is too long"):
        list(read_lines(path))
