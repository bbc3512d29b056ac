"""The page as a whole, on every screen: keys, budgets, access (axe-core), words in both languages, narrow windows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, CDPSession, expect

from .conftest import Opened, Served

PLACE = "text=Two+young+men+play+football."
STORY = "screen=attention&text=Once+upon+a+time+there+was"


def test_the_keys_move_the_pivot(visit: Callable[..., Opened], language_model: Served) -> None:
    opened = visit(language_model, f"{STORY}&layer=1&head=1&row=1")
    for key, name, value in (
        ("ArrowRight", "row", 2), ("ArrowLeft", "row", 1), ("ArrowUp", "layer", 2), ("ArrowDown", "layer", 1),
        ("]", "head", 2), ("[", "head", 1), ("7", "screen", "take"), ("2", "screen", "attention"),
        ("t", "theme", "dark"), ("l", "lang", "zh"),
    ):  # fmt: skip
        opened.page.keyboard.press(key)
        assert opened.get(name) == value
    for _ in range(9):
        opened.page.keyboard.press("ArrowUp")
    assert opened.get("layer") == language_model.model.model.config.n_decoder_layers - 1, "and no further"
    opened.page.keyboard.press("?")
    expect(opened.page.get_by_role("dialog")).to_be_visible()
    opened.page.keyboard.press("Escape")
    expect(opened.page.get_by_role("dialog")).to_be_hidden()


FIRST_PICTURE = """async text => {
  const view = await regard.source.run({...regard.store.get("request"), texts: [text]});
  regard.store.set({view, screen: "attention"});
  while (!document.querySelector(".back path")) await new Promise(requestAnimationFrame);
}"""
MOVE = """async patch => {
  regard.store.set(patch);
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
}"""


def test_budgets(visit: Callable[..., Opened], context: BrowserContext, six_by_eight: Served) -> None:
    """A pivot's change in a tenth of a second and the first picture in one, of 64 tokens and 6 x 8 heads.

    What is counted is the time that the page's thread had the processor, drawing and all: others may be at work here.
    """
    opened = visit(six_by_eight, "screen=try&text=Once+upon+a+time")
    session = context.new_cdp_session(opened.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    waited = []  # by the clock, in milliseconds: told, not judged

    def took(script: str, given: Any) -> float:
        """Milliseconds of processor time."""
        before, began = _busy(session), time.perf_counter()
        opened.page.evaluate(script, given)
        waited.append(round(1000 * (time.perf_counter() - began)))
        return 1000 * (_busy(session) - before)

    first = took(FIRST_PICTURE, "One day a little girl and her dog went to the park to play with a ball. " * 2)
    assert len(opened.get("view")["target"]["tokens"]) >= 64
    opened.wait()
    patches = ({"row": 3}, {"head": 4}, {"row": 40, "key": 2}, {"layer": 1}, {"picture": "matrix"}, {"row": 9})
    moves = [took(MOVE, patch) for patch in patches]
    print(f"first picture {first:.0f} ms; changes of the pivot {[round(move) for move in moves]} ms; waited {waited}")
    assert first < 1000 and max(moves) < 100


def _busy(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


SCREENS = ("try", "attention", "sum", "roles", "lens", "compare", "take")


STRANGE = r"""() => {
  const strange = [], letters = /\p{L}{2}/u, ours = text => text.replace(/⟦[^⟧]*⟧/g, "");
  const app = document.querySelector("regard-app"), both = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT;
  const walker = document.createTreeWalker(app, both), said = ["title", "aria-label", "placeholder"];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.nodeType === 3 ? node.parentElement : node;
    if (element.closest("[translate=no]")) continue;
    const texts = node.nodeType === 3 ? [node.data] : said.map(name => node.getAttribute(name) ?? "");
    strange.push(...texts.filter(text => letters.test(ours(text))));
  }
  return strange;
}"""
"""Texts with letters that are neither the page's own, which the language "keys" brackets, nor marked as data."""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(visit: Callable[..., Opened], translator: Served, theme: str) -> None:
    opened = visit(translator, PLACE)
    opened.set(theme=theme)
    found = list[Any]()
    for screen in SCREENS:
        opened.set(screen=screen)
        opened.wait()
        for one in Axe().run(opened.page)["violations"]:
            found.append((screen, one["id"], [node["html"][:150] for node in one["nodes"][:3]]))
    assert found == []


def test_every_word_is_in_the_table(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, f"{PLACE}&edits=%5B%7B%22kind%22%3A%22unscaled%22%7D%5D")
    opened.set(lang="keys")
    strange = dict[str, list[str]]()
    for screen in SCREENS:
        opened.set(screen=screen)
        opened.wait()
        if words := opened.page.evaluate(STRANGE):
            strange[screen] = words
    assert strange == {}


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_too_wide(visit: Callable[..., Opened], translator: Served, width: int) -> None:
    opened = visit(translator, PLACE)
    opened.page.set_viewport_size({"width": width, "height": 844})
    for lang in ("en", "zh"):
        for screen in SCREENS:
            opened.set(screen=screen, lang=lang)
            opened.wait()
            assert opened.page.evaluate(TOO_WIDE) <= 0, f"{screen} in {lang} scrolls sideways"


def test_both_languages_have_all_texts(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator)
    tables = opened.page.evaluate("import('/page/strings.js').then(strings => strings.stringTables())")
    assert tables["en"].keys() == tables["zh"].keys() and len(tables["en"]) > 150
    for key, english in tables["en"].items():
        chinese = tables["zh"][key]
        assert english.strip() and chinese.strip(), key
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), key
