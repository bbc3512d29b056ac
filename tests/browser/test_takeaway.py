"""Screen 7, Take away: what is taken opens again, elsewhere, and holds what was seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from regard.inspect.scripts import Request
from regard.inspect.views import run

from .conftest import Opened, Served

PLACE = "screen=take&text=Two+dogs+run.&part=decoder.cross&layer=0&head=1&row=1"


def saved(opened: Opened, button: str, folder: Path) -> Path:
    """What a click on a button downloads."""
    with opened.page.expect_download() as download:
        opened.page.locator(f'[data-act="{button}"]').click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_the_address_opens_the_same_place(
    visit: Callable[..., Opened], context: BrowserContext, translator: Served
) -> None:
    opened = visit(translator, "screen=attention&text=Two+dogs+run.")
    edit = {"kind": "head", "part": "decoder.cross", "layer": 0, "head": 0}
    opened.set(part="decoder.self", head=1, row=2, key=1, locked=True, edits=[edit])
    opened.set(request={**opened.get("request"), "mode": "beam", "beam": 2})
    opened.page.keyboard.press("7")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.get_by_role("button", name="Copy the address").click()
    expect(opened.page.get_by_text("Copied.")).to_be_visible()
    address = opened.page.evaluate("navigator.clipboard.readText()")
    assert address == opened.page.locator(".address").input_value()
    again = visit(translator, address.split("#")[1])
    for key in ("part", "layer", "head", "row", "key", "edits", "request", "screen"):
        assert again.get(key) == opened.get(key), key
    assert again.get("view")["edited"] and again.get("locked")


@pytest.mark.parametrize("kind", ["lines", "matrix"])
def test_the_picture_stands_alone(
    visit: Callable[..., Opened], browser: Browser, translator: Served, tmp_path: Path, kind: str
) -> None:
    opened = visit(translator, PLACE)
    opened.set(picture=kind, lang="zh")
    opened.set(lang="en")
    drawing = saved(opened, "svg", tmp_path)
    text = drawing.read_text(encoding="utf-8")
    assert not re.search(r"var\(|href|<style|<image", text), "nothing of the page is needed"
    tree = ElementTree.fromstring(text)
    told = " ".join("".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text"))
    assert "When it writes" in told and "Two" in told
    size = float(tree.get("width", 0)), float(tree.get("height", 0))
    picture = saved(opened, "png", tmp_path)
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    assert (width, height) == (int(2 * size[0]), int(2 * size[1]))


def test_numbers(visit: Callable[..., Opened], translator: Served, tmp_path: Path) -> None:
    opened = visit(translator, PLACE)
    expected = run(translator.model, Request(texts=("Two dogs run.",)))
    with np.load(saved(opened, "npz", tmp_path)) as arrays:
        name = "decoder.layers.0.cross_attn.weights"
        assert np.abs(arrays[name] - expected.tensor(name)).max() < 1e-6
        assert set(expected.tensors) <= set(arrays)


def test_the_page_as_a_file(visit: Callable[..., Opened], browser: Browser, translator: Served, tmp_path: Path) -> None:
    """Opened from the disk with the network off: all that it holds is shown, and what needs the model is refused."""
    opened = visit(translator, PLACE)
    page_file = saved(opened, "html", tmp_path)
    text = opened.get("view")["text"]
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True, locale="en-GB")
    page = context.new_page()
    complaints = list[Any]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    page.on("request", lambda asked: asked.url.startswith("http") and complaints.append(asked.url))
    page.goto(page_file.as_uri())
    alone = Opened(page)
    alone.wait()
    expect(page.locator(".written")).to_have_text(text)
    expect(page.locator("footer")).to_contain_text("An exported page")
    page.keyboard.press("2")
    expect(page.locator("figcaption .words")).to_contain_text("gives")
    assert page.locator(".thumb").count() == 2
    expect(page.get_by_role("button", name="Switch this head off")).to_be_disabled()
    page.keyboard.press("7")
    expect(page.locator(".take-numbers")).to_contain_text("needs the running model")
    assert saved(alone, "svg", tmp_path).stat().st_size > 1000
    page.keyboard.press("1")
    page.get_by_label("Source").fill("Something else.")
    expect(page.get_by_role("alert")).to_contain_text("needs the running model")
    assert complaints == []
    context.close()
