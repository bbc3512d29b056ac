"""Faults 23, 24, 26 and 28, of the page: bodies that are no request, too large, or from elsewhere. Never a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import regard
from regard.inspect.app import make_app
from regard.inspect.asked import MOST_BODY

pytestmark = pytest.mark.usefixtures("one_thread")
RUN = {"texts": ["A man."]}


@pytest.fixture(scope="module")
def client(workplace: Path) -> TestClient:
    app = make_app([workplace / "run"], partial(regard.load, device="cpu"))
    return TestClient(app, base_url="http://127.0.0.1:8008")


def with_fields(*fields: str) -> list[str]:
    """Requests that would be right but for such a field."""
    return ['{"texts": ["A man."], ' + field + "}" for field in fields]


@pytest.mark.parametrize(
    "body",
    ["", "{", "nonsense", "\udcff", "[" * 100_000, '{"texts": ' + "[" * 100_000,
     *with_fields('"temperature": NaN', '"temperature": -Infinity', '"seed": ' + "9" * 5_000)],
)  # fmt: skip
def test_what_is_no_json_is_400(client: TestClient, body: str) -> None:
    for path in ("/api/run", "/api/roles", "/api/runs/x/edges"):
        reply = client.post(path, content=body.encode("utf-8", "surrogateescape"))
        assert reply.status_code == 400 and reply.json()["error"]["what"] == "the request is no JSON", reply.text


@pytest.mark.parametrize(
    "body",
    ["1", "null", "[]", '"text"', "{}", '{"texts": []}', '{"texts": "A man."}', '{"texts": [1]}',
     '{"texts": ["a", "b"]}', '{"texts": ["a", "b", "c"]}', *with_fields(
         '"temperature": 1e999', '"temperature": -1', '"beam": 0', '"beam": 1e30', '"beam": 1000000', '"seed": -1',
         '"seed": 1e400', '"seed": 99999999999999999999', '"max_tokens": 100000000', '"max_tokens": "9"',
         '"prefix": [-1]', '"prefix": [2000000000]', '"mode": "best"', '"to": "xx"', '"model": 1', '"model": -1',
         '"snapshot": "../../etc"', '"unknown": 1', '"edits": [{}]', '"edits": [{"kind": "head"}]', '"edits": [[]]',
         '"edits": [{"kind": "head", "part": "decoder.cross", "layer": 99, "head": 0}]',
         '"edits": [{"kind": "edge", "part": "x", "layer": 0, "head": 0, "query": 0, "key": 0}]')],
)  # fmt: skip
def test_what_cannot_be_meant_is_422_and_says_why(client: TestClient, body: str) -> None:
    reply = client.post("/api/run", content=body)
    assert reply.status_code == 422 and len(reply.json()["error"]["what"]) > 5, reply.text


def test_half_characters_and_nul_are_text(client: TestClient) -> None:
    reply = client.post("/api/run", content=b'{"texts": ["A \\ud800 man\\u0000."]}')
    assert reply.status_code == 200 and reply.json()["request"]["texts"] == ["A \ufffd man\x00."]
    assert json.loads(reply.content.decode("utf-8"))


def test_a_body_too_large_is_413_and_not_kept(client: TestClient) -> None:
    most = b'{"texts": ["' + b" " * MOST_BODY

    def in_pieces() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 2**16

    for body in (most, in_pieces()):
        reply = client.post("/api/run", content=body)
        assert reply.status_code == 413 and f"{MOST_BODY:,} bytes" in reply.json()["error"]["expected"]
    assert client.post("/api/run", json=RUN).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["example.com", "example.com:8008", "127.0.0.1.example.com", "localhost.example.com", "example.com/abc?bar=",
     "127.0.0.1@x", "0.0.0.0:8008", "[::1", "", "127.0.0.1:port"],
)  # fmt: skip
def test_another_name_for_this_machine_is_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/page/app.js", "/api/model"):
        reply = client.get(path, headers={"host": host})
        assert reply.status_code == 403 and reply.json()["error"]["where"] == "Host"


@pytest.mark.parametrize("host", ["localhost:8008", "127.0.0.1:1", "[::1]:8008", "localhost"])
def test_this_machine_by_any_of_its_names_is_served(client: TestClient, host: str) -> None:
    assert client.get("/api/models", headers={"host": host}).status_code == 200
    assert client.get("/api/models", headers={"host": host, "origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://example.com", "null", "http://localhost:3000", "https://127.0.0.1:8008", ""]
)
def test_another_page_cannot_send_requests_here(client: TestClient, origin: str) -> None:
    for reply in (
        client.post("/api/run", json=RUN, headers={"origin": origin}),
        client.options("/api/run", headers={"origin": origin, "access-control-request-method": "POST"}),
        client.get("/api/model", headers={"origin": origin}),
    ):
        assert reply.status_code == 403 and reply.json()["error"]["where"] == "Origin"
        assert "access-control-allow-origin" not in reply.headers
