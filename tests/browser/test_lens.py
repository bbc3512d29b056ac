"""Screen 5, the logit lens: each cell is what the Python says, and leads on; a model without a decoder has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from regard.inspect.lens import logit_lens
from regard.inspect.scripts import Request
from regard.inspect.views import View, run

from .conftest import Opened, Served

PLACE = "screen=lens&text=Once+upon+a+time&part=decoder.self&layer=2&head=0&row=3"


@pytest.fixture(scope="module")
def view(language_model: Served) -> View:
    return run(language_model.model, Request(texts=("Once upon a time",)))


def shown(text: str) -> str:
    """A piece of stories260k's vocabulary as the page has it."""
    return {"▁": "␣"}.get(text, text.removeprefix("▁")).replace("\n", "↵")


def test_each_cell_is_the_layers_likeliest_token(
    visit: Callable[..., Opened], language_model: Served, view: View
) -> None:
    lens = logit_lens(view)
    page = visit(language_model, PLACE).page
    for layer in range(len(lens.layers)):
        cells = page.locator(f".lens-cell[data-cell^='{layer}|']")
        expect(cells).to_have_text([shown(row[0][0]) for row in lens.top[layer]])
    names = page.locator(".lens-grid tbody th").all_text_contents()
    assert names == ["written", *[f"layer {n}" for n in range(len(lens.layers) - 1, 0, -1)], "embedding"]
    painted = "all => all.map((one) => one.style.backgroundColor)"
    last, first = (page.locator(f".lens-cell[data-cell^='{layer}|']").evaluate_all(painted) for layer in (5, 0))
    assert len({*last}) == 1 and first[3] != last[3], "the last layer is the last layer"


def test_the_ten_likeliest(visit: Callable[..., Opened], language_model: Served, view: View) -> None:
    lens, page = logit_lens(view), visit(language_model, PLACE).page
    page.locator(".lens-cell[data-cell='2|5']").hover()
    assert page.locator(".weighed .bar-name").all_text_contents() == [shown(text) for text, _ in lens.top[2][5]]
    assert len(lens.top[2][5]) == 10
    told = page.locator(".weighed .hint").text_content() or ""
    assert float(told.split(": ")[1].split(" ")[0]) == pytest.approx(lens.divergence[2][5], rel=0.1)
    page.mouse.move(0, 0)
    names = [shown(text) for text, _ in lens.top[3][3]]
    expect(page.locator(".weighed .bar-name")).to_have_text(names), "the pivot's again"


def test_a_cell_moves_the_pivot_and_the_keys_move_the_cell(
    visit: Callable[..., Opened], language_model: Served
) -> None:
    opened = visit(language_model, PLACE)
    current = opened.page.locator(".lens-cell.current")
    expect(current).to_have_attribute("data-cell", "3|3")  # the lens counts the embeddings as a layer of their own
    opened.page.locator(".lens-cell[data-cell='5|4']").click()
    assert [opened.get(key) for key in ("layer", "row", "locked")] == [4, 4, True]
    opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("ArrowRight")
    expect(current).to_have_attribute("data-cell", "4|5")
    opened.page.locator(".lens-cell[data-cell='0|5']").click()
    expect(current).to_have_attribute("data-cell", "0|5"), "the embeddings have no layer, but can be held"


def test_from_which_layer_on(visit: Callable[..., Opened], language_model: Served, view: View) -> None:
    lens, opened = logit_lens(view), visit(language_model, PLACE)
    for row in (3, 4, 9):
        last = lens.top[-1][row][0][0]
        first = len(lens.layers) - 1
        while first and lens.top[first - 1][row][0][0] == last:
            first -= 1
        opened.set(row=row)
        where = f"from {f'layer {first}' if first else 'embedding'} on"
        expected = "only the last layer" if first == len(lens.layers) - 1 else where
        expect(opened.page.locator(".lens-main .words")).to_contain_text(expected)


def test_it_says_that_it_is_an_approximation(visit: Callable[..., Opened], translator: Served) -> None:
    page = visit(translator, "screen=lens&text=A+man.").page
    expect(page.locator(".honest")).to_contain_text("approximation")


def test_a_model_without_a_decoder_has_none(visit: Callable[..., Opened], classifier: Served) -> None:
    page = visit(classifier, "screen=lens").page
    expect(page.locator("main")).to_contain_text("Only a decoder predicts a token at every layer")
    expect(page.locator(".screen-link", has_text="Logit lens")).to_have_attribute("aria-disabled", "true")
