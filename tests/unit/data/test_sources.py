from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.data import read_lines, read_pairs
from regard.data.languages import is_language
from regard.errors import ConfigError, DataError, MissingExtraError


def _write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_multi30k(data_dir) -> None:
    folder = data_dir("multi30k")
    paths = [folder / "train.en.gz", folder / "train.de.gz"]
    pairs = read_pairs(paths)
    assert len(pairs) == 29_000
    assert pairs.languages == ("en", "de")
    assert pairs.source[0] == "Two young, White males are outside near many bushes."
    assert pairs.target[0] == "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche."
    assert pairs.where(28_999) == f"{paths[0]}:29000 and {paths[1]}:29000"
    assert pairs.sha256 == {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_tatoeba_has_tabs_a_third_column_and_no_header(data_dir) -> None:
    pairs = read_pairs([data_dir("tatoeba-cmn-eng") / "cmn.txt.gz"])
    assert len(pairs) == 29_155
    assert (pairs.source[0], pairs.target[0]) == ("Hi.", "嗨。")
    swapped = read_pairs([data_dir("tatoeba-cmn-eng") / "cmn.txt.gz"], columns=("2", "1"))
    assert swapped.source == pairs.target and swapped.target == pairs.source


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "source\ttarget\tTarget_Language\nHi\tHallo\tde\nHi\tSalut\tfr\nYes\t是\tzh-Hans\n"),
        ("a.csv", "target_language,src,tgt\nde,Hi,Hallo\nfr,Hi,Salut\nzh-Hans,Yes,是\n"),
        (
            "a.jsonl",
            "".join(
                json.dumps({"source": s, "target": t, "target_language": code}) + "\n"
                for s, t, code in (("Hi", "Hallo", "de"), ("Hi", "Salut", "fr"), ("Yes", "是", "zh-Hans"))
            ),
        ),
    ],
)
def test_a_column_may_say_the_language_of_each_target(tmp_path: Path, name: str, text: str) -> None:
    pairs = read_pairs([_write(tmp_path / name, text)])
    assert (pairs.source, pairs.target) == (["Hi", "Hi", "Yes"], ["Hallo", "Salut", "是"])
    assert pairs.to == ["de", "fr", "zh-Hans"] and pairs.take([2, 0]).to == ["zh-Hans", "de"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.tsv", "source\ttarget\ttarget_language\nHi\tHallo\tde\nHi\tSalut\tFrench!\n", "no language code"),
        ("a.tsv", "source\ttarget\ttarget_language\nHi\tHallo\tde\nHi\tSalut\t\n", "no language code"),
        ("a.tsv", "source\ttarget\ttarget_language\nHi\tHallo\tde\nHi\tSalut\n", "2 columns"),
        ("a.jsonl", '{"src": "a", "tgt": "b", "target_language": "de"}\n\n{"src": "a", "tgt": "b"}\n', "missing"),
        ("a.jsonl", '{"src": "a", "tgt": "b"}\n\n{"src": "a", "tgt": "b", "target_language": "de"}\n', "first record"),
    ],
)
def test_a_row_without_a_good_language_is_a_bad_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(DataError, match=rf"{name}:3: .*{says}"):
        read_pairs([_write(tmp_path / name, text)])


@pytest.mark.parametrize(
    ("name", "text", "languages", "first_line"),
    [
        ("a.tsv", "Hi\tHallo\nYes\tJa\n", (None, None), 1),
        ("a.tsv", "source\ttarget\nHi\tHallo\nYes\tJa", (None, None), 2),
        ("a.tsv", "Target\tSource\nHallo\tHi\nJa\tYes", (None, None), 2),
        ("a.tsv", "\ufeffen\tde\r\nHi\tHallo\r\n\r\nYes\tJa\r\n", ("en", "de"), 2),
        ("a.tsv", "id\ten\tde\n1\tHi\tHallo\n2\tYes\tJa\n", ("en", "de"), 2),
        ("a.csv", 'src,tgt\n"Hi",Hallo\n"Yes","Ja"\n', (None, None), 2),
        ("a.csv", "en,pt_BR\nHi,Hallo\nYes,Ja\n", ("en", "pt_BR"), 2),
        ("a.txt", "Hi\tHallo\nYes\tJa\n", (None, None), 1),
        ("a.jsonl", '{"source": "Hi", "target": "Hallo"}\n\n{"target": "Ja", "source": "Yes"}\n', (None, None), 1),
        ("a", '{"src": "Hi", "tgt": "Hallo"}\n{"src": "Yes", "tgt": "Ja"}\n', (None, None), 1),
        (
            "a.jsonl",
            '{"id": 1, "translation": {"en": "Hi", "de": "Hallo"}}\n{"translation": {"en": "Yes", "de": "Ja"}}\n',
            ("en", "de"),
            1,
        ),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_tables(tmp_path: Path, name: str, text: str, languages, first_line: int, zipped: bool) -> None:
    data = gzip.compress(text.encode()) if zipped else text.encode()
    path = _write(tmp_path / (name + ".gz" * zipped), data)
    pairs = read_pairs([path])
    assert (pairs.source, pairs.target) == (["Hi", "Yes"], ["Hallo", "Ja"])
    assert pairs.languages == languages
    assert pairs.where(0) == f"{path}:{first_line}"


def test_columns_by_name(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.tsv", "english\tnote\tgerman\nHi\t-\tHallo\n")
    pairs = read_pairs([path], columns=("german", "english"))
    assert (pairs.source, pairs.target) == (["Hallo"], ["Hi"])
    with pytest.raises(DataError, match="did you mean english"):
        read_pairs([path], columns=("german", "englsh"))
    path = _write(tmp_path / "a.jsonl", json.dumps({"q": "Hi", "a": "Hallo"}))
    assert read_pairs([path], columns=("q", "a")).target == ["Hallo"]
    with pytest.raises(DataError, match="a first row with 'q, a'"):
        read_pairs([path])
    with pytest.raises(DataError, match="no columns 1 and 3"):
        read_pairs([_write(tmp_path / "b.tsv", "Hi\tHallo\n")], columns=("1", "3"))


def test_a_quoted_csv_field_holds_a_line_end(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", 'source,target\n"Hi, you\n""two""",Hallo\nYes,Ja\n')
    pairs = read_pairs([path])
    assert pairs.source == ['Hi, you\n"two"', "Yes"]
    assert [pairs.where(i) for i in range(2)] == [f"{path}:2", f"{path}:4"]


def test_take_keeps_where(tmp_path: Path) -> None:
    pairs = read_pairs([_write(tmp_path / "a.tsv", "a\tA\nb\tB\nc\tC\n")]).take([2, 0])
    assert (pairs.source, pairs.target) == (["c", "a"], ["C", "A"])
    assert pairs.where(0).endswith("a.tsv:3")


def test_one_or_two_paths(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.tsv", "a\tA\n")
    for paths, columns in (([], None), ([path] * 3, None), ([path] * 2, ("1", "2"))):
        with pytest.raises(ConfigError, match=f"{len(paths)} files"):
            read_pairs(paths, columns=columns)


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    _write(tmp_path / "train.en", "a\n")
    with pytest.raises(DataError, match=r"did you mean train\.en\?"):
        read_pairs([tmp_path / "trian.en", tmp_path / "train.en"])
    for path in (tmp_path / "no" / "folder.tsv", tmp_path, Path("nul\0.tsv")):
        with pytest.raises(DataError):
            read_pairs([path])


def test_a_table_of_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot tell the format"):
        read_pairs([_write(tmp_path / "a.txt", "Hello there\n")])


@pytest.mark.parametrize("name", ["en", "de", "pt_BR", "zh-Hans", "deu_Latn"])
def test_languages(name: str) -> None:
    assert is_language(name)


@pytest.mark.parametrize("name", ["", "e", "txt", "src", "xx", "EN", "english", "en-", "source"])
def test_not_languages(name: str) -> None:
    assert not is_language(name)


def test_stdin_gives_each_line_at_once() -> None:
    code = (
        "from pathlib import Path; from regard.data import read_lines\n"
        "for line in read_lines(Path('-')): print(line.upper(), flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for line, answer in ((b"one\n", b"ONE\n"), (b"two\r\n", b"TWO\n")):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == answer  # hangs, and so times out, if the reader waits for more
        process.stdin.write(b"last")
        process.stdin.close()
        assert process.stdout.read() == b"LAST\n"
    assert process.returncode == 0


def test_zstd(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    frames = zstandard.compress(b"one\n") + zstandard.compress(b"two\n")
    path = _write(tmp_path / "a.en", frames)
    assert list(read_lines(path)) == ["one", "two"]
    many = [f"line {i}" for i in range(20_000)]
    assert list(read_lines(_write(path, zstandard.compress("\n".join(many).encode())))) == many
    for cut in (3, len(frames) - 5):
        with pytest.raises(DataError, match="broken"):
            list(read_lines(_write(path, frames[:-cut])))


def test_zstd_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[data\]'"):
        list(read_lines(_write(tmp_path / "a.en", b"\x28\xb5\x2f\xfdrest")))
