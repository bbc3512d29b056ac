"""Fault 31, of the page: who leaves is not worked for any more, and others are served meanwhile. Two tabs at once."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2 as httpx
import pytest
import uvicorn

import regard
from regard.cli.look import listening
from regard.inspect import desk
from regard.inspect.app import make_app

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def address(workplace: Path) -> Iterator[str]:
    """A page that is really served, by a thread of this process."""
    listener = listening(0)
    app = make_app([workplace / "run"], partial(regard.load, device="cpu"))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=20)
    assert not thread.is_alive()


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether it became true in that time."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def test_roles_stop_when_nobody_reads_them(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), threading.Event()

    def endless(
        self: object, index: int, part: str, sentences: int, progress: Callable, stop: Callable[[], bool]
    ) -> dict:
        began.set()
        done = 0
        while not stop():
            progress(done := done + 1, 10**6)
            time.sleep(0.02)
        ended.set()
        return {}

    monkeypatch.setattr(desk.Desk, "roles", endless)
    with httpx.stream("POST", f"{address}/api/roles", json={}, timeout=20) as reply:
        assert json.loads(next(reply.iter_lines()))["progress"] == 1
        assert httpx.get(f"{address}/api/models", timeout=5).status_code == 200, "others are not kept waiting"
    assert began.is_set() and until(ended.is_set, 1.0), "the work went on for nobody"
    began.clear()
    with httpx.stream("POST", f"{address}/api/roles", json={}, timeout=20) as reply:
        assert json.loads(next(reply.iter_lines()))["progress"] == 1, "its turn was not given back"


def test_who_left_while_waiting_is_not_worked_for(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    free, asked, run_model = threading.Event(), list[str](), desk.run_model

    def slow(loaded: regard.Loaded, request: object) -> object:
        asked.append(request.texts[0])
        free.wait(20)
        return run_model(loaded, request)

    monkeypatch.setattr(desk, "run_model", slow)
    port = int(address.rpartition(":")[2])
    with ThreadPoolExecutor() as pool:
        first = pool.submit(httpx.post, f"{address}/api/run", json={"texts": ["first"]}, timeout=20)
        assert until(lambda: asked == ["first"], 5)
        body = b'{"texts": ["typed on"]}'
        with socket.create_connection(("127.0.0.1", port)) as tab:
            tab.sendall(
                b"POST /api/run HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: %d\r\n\r\n%b"
                % (port, len(body), body)
            )
            time.sleep(0.2)
        last = pool.submit(httpx.post, f"{address}/api/run", json={"texts": ["last"]}, timeout=20)
        time.sleep(0.2)
        free.set()
        assert first.result().status_code == last.result().status_code == 200
    assert asked == ["first", "last"]


def test_two_tabs_at_once_get_each_their_own(address: str, workplace: Path) -> None:
    texts = (workplace / "test.en").read_text(encoding="utf-8").splitlines()[:6]
    model = regard.load(workplace / "run", device="cpu")
    alone = {text: regard.look(model, text).text for text in texts}

    def tab(order: list[str]) -> dict[str, str]:
        with httpx.Client(base_url=address, timeout=60) as client:
            return {text: client.post("/api/run", json={"texts": [text]}).json()["text"] for text in order}

    with ThreadPoolExecutor() as pool:
        one, two = pool.submit(tab, texts), pool.submit(tab, texts[::-1])
        assert one.result() == two.result() == alone
