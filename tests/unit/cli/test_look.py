"""`regard look`: the served page by its own process, the file, the map, and what it says where it cannot."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.cli import look

Command = Callable[..., tuple[int, str, str]]
TEXT = "A man rides a bicycle."


@contextmanager
def served(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`regard look` in its own process, and the address that it prints."""
    command = [sys.executable, "-m", "regard", "look", *words, "--threads", "1"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.whole
def test_the_page_is_served_until_ctrl_c(workplace: Path) -> None:
    with served(workplace, "run", TEXT, "--port", "0") as (process, url):
        with urllib.request.urlopen(f"{url}api/model") as reply:
            assert json.load(reply)["asked"]["texts"] == [TEXT]
        asked = urllib.request.Request(f"{url}api/roles", b"{}")
        with urllib.request.urlopen(asked) as reply:  # a tab that is still told something
            assert b"progress" in reply.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err and "ERROR" not in err
    assert "--html FILE" in err and "ssh -L" in err, "no browser here, so it says what else there is"


@pytest.mark.whole
def test_in_a_terminal_without_a_browser_the_map_is_shown(workplace: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "regard", "look", "run", TEXT, "--port", "0", "--threads", "1"]
    bare = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    process = subprocess.Popen(command, cwd=workplace, stdout=theirs, stderr=subprocess.DEVNULL, env=bare)
    os.close(theirs)
    shown = b""
    try:
        while b"decoder.cross, layer 0" not in shown:
            assert select.select([ours], [], [], 60)[0], shown
            shown += os.read(ours, 4096)  # an OSError where the process ends without it
        assert shown.startswith(b"http://127.0.0.1:")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.whole
def test_terminated_it_ends_at_once(workplace: Path) -> None:
    with served(workplace, "run", "--port", "0", "--quiet") as (process, url):
        urllib.request.urlopen(url).close()
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert process.returncode == 143 and err == ""


def test_the_page_as_one_file(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "look.html"
    code, out, err = command("look", "run", TEXT, "--html", str(page))
    assert code == 0 and out == "" and str(page) in err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    code, out, _ = command("look", "run", "--html", str(page), "--json")
    assert code == 0 and len(json.loads(out)["texts"]) == look.IN_FILE
    assert json.loads(out)["bytes"] == page.stat().st_size


def test_a_map_as_text_and_the_view_as_json(command: Command) -> None:
    code, out, _ = command("look", "run", TEXT, "--text")
    assert code == 0 and "decoder.cross, layer 0, mean of 2 heads" in out and "█" in out
    code, out, _ = command("look", "run", TEXT, "--target", "Ein Hund.", "--json")
    assert code == 0 and json.loads(out)["text"] == "Ein Hund."


def test_without_the_extra_all_but_the_server_works(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(look, "find_spec", lambda name: None)
    for name in ("fastapi", "uvicorn", "starlette"):
        monkeypatch.setitem(sys.modules, name, None)
    code, _, err = command("look", "run")
    assert code == 2 and "pip install 'regard[look]'" in err
    assert command("look", "run", TEXT, "--text")[0] == 0
    assert command("look", "run", TEXT, "--html", str(tmp_path / "look.html"))[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "Ein Hund."], "no text"),
        (["--to", "de"], "no text"),
        (["a", "--beside", "run", "--text"], "--beside"),
        (["a", "b", "--text"], "how many texts"),
        (["a", "--to", "fr", "--text"], "one direction"),
    ],
)
def test_flags_that_would_change_nothing_are_refused(command: Command, words: list[str], said: str) -> None:
    code, out, err = command("look", "run", *words)
    assert code == 2 and out == "" and said in err


def test_a_port_in_use_or_none_is_said(command: Command) -> None:
    with socket.socket() as taken:
        taken.bind((look.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = command("look", "run", "--port", str(port))
    assert code == 1 and out == "" and f"{look.HOST}:{port}" in err and "--port 0" in err
    assert command("look", "run", "--port", "99999")[0] == 2


def test_the_usual_port_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with look.listening(0) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(look, "PORT", port)
        with look.listening(None) as other:
            assert other.getsockname()[1] not in (0, port)
    with look.listening(None) as usual:
        assert usual.getsockname()[1] == port


def test_a_browser_is_opened_only_before_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[str]()
    monkeypatch.setattr(look.webbrowser, "open", opened.append)
    monkeypatch.setattr(look.threading, "Thread", _AtOnce)
    for tty, screen, wanted in ((True, ":0", True), (True, None, False), (False, ":0", False)):
        monkeypatch.setattr(look.sys.stdout, "isatty", lambda tty=tty: tty, raising=False)
        monkeypatch.setattr(look.sys, "platform", "linux")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setattr(os, "environ", os.environ | {"DISPLAY": screen or ""})
        if screen is None:
            monkeypatch.delenv("DISPLAY")
        assert look.open_in_browser("http://here/") is wanted
    assert opened == ["http://here/"]


class _AtOnce:
    """A thread that has run when it is started."""

    def __init__(self, target: Callable[..., object], args: tuple[object, ...], daemon: bool) -> None:
        self.start = lambda: target(*args)
