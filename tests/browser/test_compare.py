"""Screen 6, Compare: two texts, two models, two moments of one training, each as the Python has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

import regard
from regard.hub.snapshots import find_snapshots
from regard.inspect.embedded import page_of
from regard.inspect.scripts import Request
from regard.inspect.views import View, run

from .conftest import Opened, Served

TEXT = "A man rides a bicycle."
PLACE = "screen=compare&text=A+man+rides+a+bicycle.&part=decoder.cross&layer=0&head=1&row=2"
NAME = "decoder.layers.0.cross_attn.weights"


def held(model: regard.Loaded, view: View) -> View:
    """The same words, written by another model of the same vocabulary."""
    assert view.target is not None and view.target.writes is not None
    prefix = tuple(written.id for written in view.target.writes if written)
    return run(model, Request(texts=view.request.texts, prefix=prefix))


def columns(page: Page) -> np.ndarray:
    """The table behind the pictures: of the pivot's row the weights on both sides, (S, 2) in percent."""
    page.locator(".side-table").evaluate("table => table.open = true")
    cells = page.locator(".side-table td").all_text_contents()
    return np.array([float(cell.split("\u202f")[0]) for cell in cells]).reshape(-1, 2)


def drawn(opened: Opened, text: str) -> None:
    opened.until("document.querySelector('.sides')?.textContent.includes(given)", text)
    opened.wait()


def test_moments_of_one_training(visit: Callable[..., Opened], translator: Served, workplace: Path) -> None:
    opened = visit(translator, PLACE)
    page, view = opened.page, run(translator.model, Request(texts=(TEXT,)))
    drawn(opened, "after update 1")
    snapshots = find_snapshots(workplace / "run")
    for at in (0, 5):
        page.get_by_label("Updates done").fill(str(at))
        drawn(opened, f"after update {snapshots[at][0]}")
        model = regard.load(snapshots[at][1], device="cpu")
        earlier = held(model, view)
        expected = np.stack([one.tensor(NAME)[1, 2] for one in (view, earlier)], -1)
        np.testing.assert_allclose(columns(page), 100 * expected, atol=0.51)
        free = run(model, Request(texts=(TEXT,))).text
        assert page.locator(".side-name .written").all_text_contents() == [view.text or "∅", free or "∅"]
        assert earlier.target is not None and earlier.target.writes is not None
        loss = -np.mean([np.log(written.p) for written in earlier.target.writes if written])
        told = page.locator(".side-name .hint").text_content() or ""
        assert float(told.split(": ")[1].split(" ")[0]) == pytest.approx(loss, rel=0.01)
    assert page.locator(".side").count() == 3, "both sides and their difference"


def test_the_slider_plays_to_the_end_and_stops(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    drawn(opened, "after update 1")
    slider = opened.page.get_by_label("Updates done")
    last = int(slider.get_attribute("max") or "")
    slider.fill(str(last - 2))
    opened.page.get_by_role("button", name="Play").click()
    expect(opened.page.get_by_role("button", name="Stop")).to_be_visible()
    opened.until("Number(document.querySelector('input[type=range]').value) === given", last)
    expect(opened.page.get_by_role("button", name="Play")).to_be_visible()
    opened.page.get_by_role("button", name="Play").click()
    opened.until("Number(document.querySelector('input[type=range]').value) === 1")
    opened.page.get_by_role("button", name="Stop").click()
    opened.page.wait_for_timeout(700)
    assert int(slider.input_value()) <= 2
    opened.wait()


def test_with_reduced_motion_it_plays_slowly(
    visit: Callable[..., Opened], translator: Served, context: BrowserContext
) -> None:
    opened = visit(translator, PLACE)
    opened.page.emulate_media(reduced_motion="reduce")
    drawn(opened, "after update 1")
    opened.page.get_by_role("button", name="Play").click()
    opened.until("Number(document.querySelector('input[type=range]').value) === 1")
    opened.page.wait_for_timeout(900)
    assert opened.page.get_by_label("Updates done").input_value() == "1"
    opened.page.get_by_role("button", name="Stop").click()


def test_two_texts(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    opened.page.get_by_role("button", name="another text").click()
    box = opened.page.get_by_role("textbox", name="The other text")
    box.fill("Two dogs run across a field.")
    opened.page.get_by_role("button", name="Compare", exact=True).last.click()
    drawn(opened, "the other text")
    expected = [run(translator.model, Request(texts=(text,))) for text in (TEXT, "Two dogs run across a field.")]
    expect(opened.page.locator(".side-name .written")).to_have_text([view.text or "∅" for view in expected])
    expect(opened.page.locator(".compare > .words")).to_contain_text("there is no difference to draw")
    assert opened.page.locator(".side").count() == 2
    box.fill(TEXT)
    opened.page.get_by_role("button", name="Compare", exact=True).last.click()
    expect(opened.page.locator(".compare > .words")).to_contain_text("both sides weigh alike")
    weights = columns(opened.page)
    np.testing.assert_array_equal(weights[:, 0], weights[:, 1])


def test_two_models(visit: Callable[..., Opened], serve: Callable[..., Served], workplace: Path) -> None:
    early = find_snapshots(workplace / "run")[4][1]
    served = serve(workplace / "run", early)
    opened = visit(served, PLACE)
    drawn(opened, early.name)
    view = run(served.model, Request(texts=(TEXT,)))
    other = run(regard.load(early, device="cpu"), Request(texts=(TEXT,), target=view.text))
    assert view.source is not None and other.target is not None
    assert view.target is not None
    if other.target.tokens == view.target.tokens:  # a text may be other tokens than those that were written
        expected = np.stack([one.tensor(NAME)[1, 2] for one in (view, other)], -1)
        np.testing.assert_allclose(columns(opened.page), 100 * expected, atol=0.51)
    assert opened.page.locator(".segment[data-mode=model]").get_attribute("aria-pressed") == "true"


def test_the_same_place_on_both_sides(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    drawn(opened, "after update 1")
    opened.page.locator(".side").nth(1).locator(".side-row").nth(3).click()
    opened.wait()
    assert opened.get("row") == 3
    for side in range(3):
        rows = opened.page.locator(".side").nth(side).locator(".side-row")
        assert rows.evaluate_all("all => all.map((one) => one.ariaPressed)").index("true") == 3
    assert opened.page.evaluate("document.activeElement.dataset.act") == "right|3", "the focus stays"
    box = opened.page.locator(".side-canvas").first.bounding_box()
    assert box is not None
    opened.page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 1)
    assert opened.get("row") == 0 and opened.get("key") is not None


def test_what_there_is_nothing_to_compare_with(visit: Callable[..., Opened], language_model: Served) -> None:
    opened = visit(language_model, "screen=compare&text=Once")
    for mode, words in (("model", "--beside"), ("steps", "no snapshots")):
        segment = opened.page.locator(f".segment[data-mode={mode}]")
        assert segment.get_attribute("aria-disabled") == "true"
        segment.click(force=True)
        expect(opened.page.locator(".compare-controls")).to_contain_text(words)


def test_an_exported_page_compares_the_runs_that_it_holds(
    visit: Callable[..., Opened], translator: Served, tmp_path: Path
) -> None:
    views = [run(translator.model, Request(texts=(text,))) for text in (TEXT, "Two dogs run.")]
    (tmp_path / "page.html").write_text(page_of(translator.model, views, mark="0"), encoding="utf-8")
    opened = visit(
        Served((tmp_path / "page.html").as_uri(), translator.model), "screen=compare&part=decoder.cross&row=1"
    )
    written = opened.page.locator(".side-name .written")
    expect(written).to_have_text([view.text or "∅" for view in views])
    opened.page.locator(".segment[data-mode=steps]").click(force=True)
    expect(opened.page.locator(".compare-controls")).to_contain_text("This needs the running model")
