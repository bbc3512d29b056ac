"""The page in one file, and in a notebook's frame: whole without a server, and nothing that a token holds can run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import regard

from .conftest import Opened, Served

ODD = "<img src=x onerror=alert(1)> </script><script>alert(2)</script> שלום 👩‍🚀 \u202e \u2028"


@pytest.fixture(scope="module")
def look(translator: Served) -> regard.Look:
    return regard.look(translator.model, ODD)


def inert(opened: Opened) -> None:
    """Nothing of the text became anything but text."""
    for frame in opened.page.frames:
        assert frame.evaluate("document.querySelectorAll('img, script').length") <= 2, "but data and code of our own"
        assert frame.evaluate("[...document.querySelectorAll('*')].every((one) => !one.hasAttribute('onerror'))")


def test_every_screen_of_a_file_opens_without_a_server(
    visit: Callable[..., Opened], look: regard.Look, tmp_path: Path
) -> None:
    look.save(tmp_path / "look.html")
    opened = visit(Served((tmp_path / "look.html").as_uri(), look.model))
    opened.page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
    assert ODD.split()[1] in opened.page.locator("textarea").first.input_value(), "it is there, as text"
    for number, screen in enumerate(("try", "attention", "sum", "roles", "lens", "compare", "take"), 1):
        opened.page.keyboard.press(str(number))
        opened.wait()
        assert opened.get("screen") == screen
        inert(opened)


def test_a_notebook_shows_it_in_a_frame_that_reaches_nothing(
    visit: Callable[..., Opened], look: regard.Look, tmp_path: Path
) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><meta charset=utf-8><body>{look._repr_html_()}", encoding="utf-8")
    opened = visit(Served(notebook.as_uri(), look.model), wait=False)
    frame = opened.page.frame_locator("iframe")
    frame.locator("regard-try textarea").first.wait_for()
    (inside,) = opened.page.frames[1:]
    assert inside.evaluate("window.origin") == "null"
    frame.get_by_text("Who looks at whom").first.click()
    frame.locator("regard-attention canvas").first.wait_for()
    opened.page.wait_for_timeout(400)  # the page writes its address a moment after a change
    inert(opened)
    assert inside.evaluate("regard.store.get('screen')") == "attention"
