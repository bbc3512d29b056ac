"""Documents out of files: what one is, whatever the format, and the same ones however many workers share them."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import plain
from regard.data.documents import Documents, read_documents
from regard.data.parts import describe, digest, find_sources, share
from regard.errors import ConfigError, DataError, MissingExtraError

TEXT = "One.\nTwo.\n\nThree.\n \t\nFour\u2028Five.\n\n\nSix.\n"
ONES = st.lists(
    st.sampled_from(["a", "be ", "\n", "\n", "\n\n", "\n \n", "\n--\n", "\r\n", "é", "汉", "😀", "\t"])
).map("".join)


def _write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _texts(*paths: Path, **options: object) -> list[str]:
    return [document.text for document in read_documents(paths, **options)]  # type: ignore[arg-type]


def _shared(paths: list[Path], count: int, **options: object) -> list[str]:
    sources = find_sources(paths)
    parts = [share(sources, i, count) for i in range(count)]
    return [document.text for part in parts for document in Documents(part, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unit", "texts", "lines"),
    [
        ("file", [TEXT], [1]),
        ("paragraph", ["One.\nTwo.", "Three.", "Four\u2028Five.", "Six."], [1, 4, 6, 9]),
        ("line", ["One.", "Two.", "Three.", "Four\u2028Five.", "Six."], [1, 2, 4, 6, 9]),
        ("Three.", ["One.\nTwo.", TEXT[18:].strip("\n")], [1, 5]),
    ],
)
@pytest.mark.parametrize("change", ["", "crlf", "bom", "gzip", "zstd", "no end"])
def test_a_unit_says_what_of_a_plain_text_is_a_document(tmp_path: Path, unit, texts, lines, change: str) -> None:
    raw = TEXT.encode()
    if change == "crlf":
        raw = raw.replace(b"\n", b"\r\n")
    elif change == "bom":
        raw = b"\xef\xbb\xbf" + raw
    elif change == "gzip":
        raw = gzip.compress(raw)
    elif change == "zstd":
        raw = pytest.importorskip("zstandard").compress(raw)
    elif change == "no end":
        raw, texts = raw[:-1], [text.removesuffix("\n") for text in texts]
    found = list(read_documents([_write(tmp_path / "a.txt", raw)], unit=unit))
    assert ([document.text for document in found], [document.line for document in found]) == (texts, lines)


def test_a_novel_with_blank_lines_is_one_document(data_dir) -> None:
    path = data_dir("tinyshakespeare") / "input.txt"
    documents = read_documents([path])
    [document] = documents
    assert document.text == path.read_text() and len(document.text) == 1_115_394
    assert documents.sha256 == {str(path): digest(share(find_sources([path]), 0, 1)[0])}
    [said] = describe(find_sources([path]), "file", "text")
    assert "1 file read as plain text" in said and "one document" in said and "--unit paragraph" in said
    assert len(_texts(path, unit="paragraph")) == 7_222


def test_poems_and_reviews(data_dir) -> None:
    poems = read_documents([data_dir("chinese-poetry") / "tang300.tsv"], field="3")
    texts = [document.text for document in poems]
    assert len(texts) == 366 and all("\t" not in text for text in texts)
    reviews = list(read_documents([data_dir("movie-reviews") / "movie_reviews.tsv.gz"]))
    assert len(reviews) == 2_000 and reviews[0].line == 2 and reviews[0].text.startswith("plot : two teen couples")
    with pytest.raises(DataError, match=r"tang300\.tsv:1: there is no column 'text'"):
        _texts(data_dir("chinese-poetry") / "tang300.tsv")


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("a.jsonl", '{"text": "One\\nand"}\n\n{"id": 2, "text": "Two"}', "text"),
        ("a.ndjson", '{"body": "One\\nand"}\n{"body": "Two"}\n', "body"),
        ("a.json", '{"text": "One\\nand"}\n{"text": "Two"}\n', "text"),
        ("a", '{ "text": "One\\nand"}\n{"text": "Two"}\n', "text"),
        ("a.csv", 'id,text\n1,"One\nand"\n2,Two\n', "text"),
        ("a.csv", '1,"One\nand"\n2,Two\n', "2"),
        ("a.csv", '"One\nand"\nTwo\n', "text"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_tables(tmp_path: Path, name: str, text: str, field: str, zipped: bool) -> None:
    path = _write(tmp_path / (name + ".gz" * zipped), gzip.compress(text.encode()) if zipped else text)
    assert _texts(path, field=field) == ["One\nand", "Two"]


def test_what_only_looks_like_json_is_text(tmp_path: Path) -> None:
    for name, text in (("package.json", '{\n "name": "x"\n}\n'), ("a.py", '{"a": 1}\n'), ("a.txt", '{"text": "x"}\n')):
        assert _texts(_write(tmp_path / name, text)) == [text]


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    texts = [f"text {i}" for i in range(1_000)]
    path, options = tmp_path / "a.parquet", {"row_group_size": 100}
    parquet.write_table(pyarrow.table({"id": range(1_000), "text": [*texts[:-1], None]}), path, **options)
    with pytest.raises(DataError, match=r"a\.parquet: row 1000: the field 'text' is not a string"):
        _texts(path)
    assert _texts(path, skip_bad=1) == texts[:-1]
    for count in (2, 7, 30):
        assert _shared([path], count, skip_bad=1) == texts[:-1]
    with pytest.raises(DataError, match=r"no column 'txt'.*\n.*\n.*--field text"):
        _texts(path, field="txt")
    parquet.write_table(pyarrow.table({"text": ["the same " * 1_000] * 10_000}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match="too large"):
        _texts(path, max_bytes=1_000_000)
    with pytest.raises(DataError, match=r"b\.parquet: the file is not parquet"):
        _texts(_write(tmp_path / "b.parquet", "text\n"))


def test_parquet_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[data\]'"):
        _texts(_write(tmp_path / "a.parquet", b"PAR1"))


def test_a_pipe_is_read_once_and_in_whole_only() -> None:
    for text, expected in (('{"text": "One"}\n{"text": "Two"}\n', ["One", "Two"]), ("One\nTwo\n", ["One\nTwo\n"])):
        end, start = os.pipe()
        os.write(start, text.encode())  # less than a pipe holds
        os.close(start)
        assert _texts(Path(f"/dev/fd/{end}")) == expected
        os.close(end)
    with pytest.raises(ConfigError, match="read only once"):
        share(find_sources([Path("-")]), 0, 2)


def test_a_folder_is_its_text_files_by_name(tmp_path: Path) -> None:
    files = {"b.txt": "B", "a/z.md": "AZ", ".git/x": "hidden", "c.bin": b"\x00\x01", "a/.y": "hidden", "d.txt.gz": b""}
    for name, text in files.items():
        _write(tmp_path / name, gzip.compress(b"D") if name.endswith("gz") else text)
    sources = find_sources([tmp_path])
    assert [source.name for source in sources] == [
        f"{tmp_path.name}/{name}" for name in ("a/z.md", "b.txt", "c.bin", "d.txt.gz")
    ]
    assert "1 file left out: no text" in describe(sources, "file", "text")
    assert _texts(tmp_path) == ["AZ", "B", "D"]
    for name in ("empty", "binary"):
        (tmp_path / name).mkdir()
    _write(tmp_path / "binary" / "a", b"\0")
    for name in ("empty", "binary"):
        with pytest.raises(DataError, match="no text in this folder"):
            find_sources([tmp_path / name])


def test_what_is_empty_is_no_document(tmp_path: Path) -> None:
    documents = read_documents([_write(tmp_path / "a.jsonl", '{"text": ""}\n{"text": " \\n"}\n{"text": "a"}\n')])
    assert ([document.text for document in documents], documents.empty) == (["a"], 2)
    assert _texts(_write(tmp_path / "b.txt", "")) == []


# ------------------------------------------------------------------ workers


@pytest.fixture
def small_seams(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plain, "LONGEST", 16)
    monkeypatch.setattr(plain, "SEAM", 6)
    yield


@pytest.mark.parametrize("unit", ["file", "paragraph", "line", "--"])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(ONES, min_size=1, max_size=3), count=st.integers(1, 9))
def test_the_documents_of_all_workers_are_those_of_one(
    tmp_path_factory, unit: str, texts: list[str], count: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "LONGEST", 16)
        patch.setattr(plain, "SEAM", 6)
        folder = tmp_path_factory.mktemp("shared")
        paths = [_write(folder / f"{i}.txt", text) for i, text in enumerate(texts)]
        whole = _texts(*paths, unit=unit)
        assert _shared(paths, count, unit=unit) == whole
        assert _dense("".join(whole)) == _dense("".join(texts).replace("--", "") if unit == "--" else "".join(texts))


def _dense(text: str) -> str:
    """Without white space, of which what stands between two documents is none of either."""
    return "".join(text.split())


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ONES, max_size=8), count=st.integers(1, 9), kind=st.sampled_from(["jsonl", "tsv", "csv", "gz"]))
def test_tables_are_shared_too(tmp_path_factory, rows: list[str], count: int, kind: str) -> None:
    folder = tmp_path_factory.mktemp("tables")
    flat = [row.replace("\n", " ").replace("\r", " ").replace("\t", " ") for row in rows]
    if kind in ("jsonl", "gz"):
        lines = [json.dumps({"text": row}, ensure_ascii=False) for row in rows]
    else:
        separator = "," if kind == "csv" else "\t"
        lines = ["", f"id{separator}text", *(f"{i}{separator}{row}" for i, row in enumerate(flat))]
    raw = "\n".join(lines).encode()
    name = "a.jsonl.gz" if kind == "gz" else f"a.{kind}"
    path = _write(folder / name, gzip.compress(raw) if kind == "gz" else raw)
    other = _write(folder / "b.txt", "another")
    expected = [row for row in (rows if kind in ("jsonl", "gz") else flat) if row.strip()]
    assert _shared([path, other], count) == [*expected, "another"]


def test_a_text_without_lines_or_spaces_is_parted_between_characters(tmp_path: Path, small_seams: None) -> None:
    path = _write(tmp_path / "a.txt", "汉" * 50)
    texts = _texts(path)
    assert "".join(texts) == "汉" * 50 and len(texts) > 5
    assert all(_shared([path], count) == texts for count in (2, 5, 11))


def test_a_worker_reads_little_more_than_its_part(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.txt", "a line of words\n" * 100_000)
    for unit in ("line", "paragraph"):
        documents = Documents(share(find_sources([path]), 5, 10), unit=unit)
        sum(1 for _ in documents)
        assert documents.done <= path.stat().st_size // 10 + 2**17


def test_there_is_no_worker_beyond_the_last(tmp_path: Path) -> None:
    sources = find_sources([_write(tmp_path / "a.txt", "a")])
    for index, count in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ConfigError, match="no such shard"):
            share(sources, index, count)


# ------------------------------------------------------------------ bad input


BAD = [
    ("txt", b"good", b"b\xe4d", "not UTF-8", "line"),
    ("txt", b"good", b"b\xe4d", "not UTF-8", "file"),
    ("txt", b"good", b"b\xe4d", "not UTF-8", "paragraph"),
    ("jsonl", b'{"text": "good"}', b'{"text": 1}', "'text' is not a string", "file"),
    ("jsonl", b'{"text": "good"}', b'{"txt": ""}', "'text' is missing", "file"),
    ("jsonl", b'{"text": "good"}', b'{"text": "', "not JSON", "file"),
    ("tsv", b"good\t2", b"bad", "1 column and the first row 2", "file"),
]


@pytest.mark.parametrize(("kind", "good", "bad", "says", "unit"), BAD)
@pytest.mark.parametrize("count", [1, 4])
def test_a_bad_line_is_named_by_its_place_in_the_file(
    tmp_path: Path, kind: str, good: bytes, bad: bytes, says: str, unit: str, count: int
) -> None:
    lines = [good] * 20 + [bad] + [good] * 5
    path = _write(tmp_path / f"a.{kind}", b"\n".join(lines))
    options = {"field": "1" if kind == "tsv" else "text", "unit": unit}
    with pytest.raises(DataError) as caught:
        _shared([path], count, skip_bad=0, **options)
    assert str(caught.value).startswith(f"{path}:21: ") and says in str(caught.value)
    assert "--skip-bad" in str(caught.value)
    assert "\n".join(_shared([path], count, skip_bad=1, **options)) == "\n".join(["good"] * 25)


def test_a_bomb_stops_at_max_bytes_but_a_plain_file_may_be_any_size(tmp_path: Path) -> None:
    raw = b"a word\n" * 10_000
    assert len(_texts(_write(tmp_path / "a.txt", raw), max_bytes=100)[0]) == len(raw)
    for unit in ("file", "line"):
        with pytest.raises(DataError, match=r"too large.*\n.*\n.*--max-bytes"):
            _texts(_write(tmp_path / "a.gz", gzip.compress(raw)), unit=unit, max_bytes=20_000)


def test_memory_is_bounded_by_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "LONGEST", 2**17)
    path = _write(tmp_path / "a.txt", ("a line of words " * 12 + "\n") * 8_000)
    for unit in ("file", "paragraph"):
        tracemalloc.start()
        try:
            assert sum(len(document.text) for document in read_documents([path], unit=unit)) > 1_500_000
            assert tracemalloc.get_traced_memory()[1] < 8 * 2**17
        finally:
            tracemalloc.stop()


def test_mistakes(tmp_path: Path) -> None:
    path = _write(tmp_path / "input.txt", "a")
    with pytest.raises(ConfigError, match="did you mean paragraph"):
        _texts(path, unit="paragraphs")
    with pytest.raises(DataError, match=r"did you mean input\.txt"):
        _texts(tmp_path / "imput.txt")
