"""Fault 30: token text that is markup, in a file, in a notebook and from the server; a browser sees it too
(tests/browser/test_exported.py, test_try.py).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import regard
from regard.inspect.app import make_app

pytestmark = pytest.mark.usefixtures("one_thread")
ODD = "</script><img src=x onerror=alert(1)> <!-- \u202e שלום 👩‍🚀 \u2028 </style>"


def test_in_a_file_and_in_a_notebook_it_is_data(workplace: Path) -> None:
    page = html.unescape(regard.look(workplace / "run", ODD)._repr_html_())
    assert "<img" not in page and "onerror=alert" in page
    assert page.count("<script") == page.count("</script") == 2 and "<!--" not in page
    (data,) = re.findall(r'id="regard-data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data)["runs"][0]["request"]["texts"] == [ODD]


def test_from_the_server_it_is_json_that_no_browser_takes_for_a_page(workplace: Path) -> None:
    client = TestClient(make_app([workplace / "run"], partial(regard.load, device="cpu")), base_url="http://127.0.0.1")
    reply = client.post("/api/run", json={"texts": [ODD]})
    assert reply.json()["request"]["texts"] == [ODD]
    assert reply.headers["content-type"] == "application/json" and reply.headers["x-content-type-options"] == "nosniff"
    for wrong in (f"/api/{ODD[:40]}", f"/page/{ODD[2:30]}", f"/api/runs/{ODD[:9]}/lens"):
        reply = client.get(wrong)
        assert reply.status_code == 404 and reply.headers["content-type"] == "application/json"


def test_pieces_of_a_character_and_what_turns_the_writing_are_spelled_out(
    model_dir: Callable[[str], Path], gpt2: Callable[..., Path]
) -> None:
    for folder in (model_dir("stories260k"), gpt2()):
        seen = regard.look(folder, "a \u202e 👩‍🚀")
        shown = "".join(seen.tokens["target"])
        assert "\u202e" not in shown and "\ufffd" not in shown and "<0x" in shown
        assert all(char.isprintable() or char == "\u200d" for char in shown)
