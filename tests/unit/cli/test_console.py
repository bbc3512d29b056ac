"""What the console writes, where, and when not."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.cli import console
from regard.errors import UserError


@dataclass
class Row:
    name: str
    file: Path
    loss: float


def test_json_is_one_valid_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"rows": (Row("ü\n", Path("a/b"), float("nan")), [float("inf"), -0.5, True, None]), 3: 1})
    out = capsys.readouterr().out
    assert out.endswith("\n") and out.count("\n") == 1 and "ü" in out
    assert json.loads(out) == {"rows": [{"name": "ü\n", "file": "a/b", "loss": None}, [None, -0.5, True, None]], "3": 1}


def test_a_table_off_a_terminal_is_never_cut_nor_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.table(["name", "value"], [("[red]x", "y" * 500), ("ab", "z")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["name", "value"], ["[red]x", "y" * 500], ["ab", "z"]]
    assert lines[0].index("value") == lines[1].index("y") == lines[2].index("z")
    assert all(line == line.rstrip() for line in lines), "nobody reads spaces at a line's end"
    console.table(["", ""], [("\u4f60\u597d", "x"), ("abcd", "y")])
    assert capsys.readouterr().out == "\u4f60\u597d  x\nabcd  y\n"


def test_sizes() -> None:
    shown = {None: "unknown", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 2.5 * 2**30: "2.5 GiB", 2**60: "1048576.0 TiB"}
    assert {count: console.size(count) for count in shown} == shown


def test_progress_off_a_terminal_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("training", 3, every_seconds=0) as advance:
        advance(1, "loss 3.0")
        advance(2, "")
    with console.progress("counting", every_seconds=0) as advance:
        advance(5, "")
    with console.progress("rarely", 3) as advance:
        advance(1, "")
    with console.progress("quietly", 3, quiet=True, every_seconds=0) as advance:
        advance(1, "")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "training: 1/3 loss 3.0\ntraining: 3/3\ncounting: 5\n")


def test_an_output_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out ü.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), console.open_output(target) as stream:
        stream.write("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    with console.open_output(target) as stream:
        stream.write("ß\n")
        assert target.read_text() == "old"
    assert target.read_bytes() == "ß\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    other = tmp_path / "other"
    other.touch()
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    with console.open_output(link) as stream:
        stream.write("x")
    assert link.is_symlink() and (tmp_path / "real").read_text() == "x"
    with console.open_output(Path("/dev/null")) as stream:
        stream.write("x")
    assert Path("/dev/null").is_char_device()


def test_no_path_or_a_dash_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    for path in (None, Path("-")):
        with console.open_output(path) as stream:
            stream.write("x")
    assert capsys.readouterr().out == "xx"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with console.open_output(tmp_path / "absent" / "deep" / "out") as stream:
        stream.write("x")
    assert (tmp_path / "absent" / "deep" / "out").read_text() == "x"
    for path in (tmp_path / "absent" / "deep" / "out" / "y", tmp_path):
        with pytest.raises(UserError) as caught, console.open_output(path):
            pass
        assert caught.value.where == path
