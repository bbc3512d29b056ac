"""Screen 2, Who looks at whom: each of its interactions, and its numbers beside the model's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from regard.inspect.effects import edge_effects
from regard.inspect.scripts import Request
from regard.inspect.views import View, run

from .conftest import Opened, Served

SENTENCE = "Two young men play football."
PLACE = "screen=attention&text=Two+young+men+play+football."
STORY = "screen=attention&text=Once+upon+a+time+there+was"


BARS = """list => [[...list.querySelectorAll("button")].map(button => button.dataset.act ?? ""),
                    [...list.querySelectorAll(".bar-number")].map(shown => shown.textContent)]"""
"""Asked for at once: between two questions the page may have drawn more."""


def seen(served: Served, text: str = SENTENCE) -> View:
    return run(served.model, Request(texts=(text,)))


def bars(opened: Opened, which: int = 0) -> dict[str, float]:
    """The sorted bars: names, with their place where one comes twice, and numbers as they are written."""
    listed = opened.page.locator(".gaze-bars .bars").nth(which)
    opened.page.wait_for_load_state("networkidle")  # first comes float16, then what is exact
    names, numbers = listed.evaluate(BARS)
    return dict(zip(names, map(number, numbers), strict=True))


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("\u202f", "").removesuffix("%"))


def token(opened: Opened, side: str, place: int) -> Locator:
    return opened.page.locator(f'.line-token[data-side="{side}"][data-place="{place}"] .hit')


def test_all_heads_at_a_glance(visit: Callable[..., Opened], language_model: Served) -> None:
    opened = visit(language_model, STORY)
    config = language_model.model.model.config
    thumbs = opened.page.locator(".thumb")
    assert thumbs.count() == config.n_decoder_layers * config.n_heads
    drawn = opened.page.evaluate("[...document.querySelectorAll('.thumb canvas')].map(canvas => canvas.width)")
    assert set(drawn) == {len(opened.get("view")["target"]["tokens"])}, "every one is drawn, a pixel a weight"
    opened.page.get_by_label("layer 2, head 3", exact=True).click()
    assert (opened.get("layer"), opened.get("head")) == (1, 2)
    assert opened.page.locator(".thumb.current").get_attribute("aria-label") == "layer 2, head 3"
    stops = opened.page.locator(".thumb[tabindex='0']")
    assert stops.count() == 1, "40 pictures are one stop of the tab key"


def test_only_the_parts_that_the_model_has(
    visit: Callable[..., Opened], translator: Served, language_model: Served, classifier: Served
) -> None:
    texts = ["Encoder self", "Decoder self", "Cross"]
    for served, expected in ((translator, texts), (language_model, texts[1:2]), (classifier, texts[:1])):
        opened = visit(served, "screen=attention")
        assert opened.page.locator(".tabs button").all_text_contents() == expected
        for text in expected:
            opened.page.locator(".tabs button", has_text=text).click()
            opened.wait()
            expect(opened.page.locator(".line-token.row").first).to_be_attached()
        opened.page.close()


def test_bars_say_the_models_weights(visit: Callable[..., Opened], translator: Served) -> None:
    view = seen(translator)
    opened = visit(translator, f"{PLACE}&part=encoder.self&layer=0&head=1&row=2")
    weights = view.tensor("encoder.layers.0.self_attn.weights")[1]  # (T, T)
    told = bars(opened)
    assert list(told.values()) == sorted(told.values(), reverse=True)
    for name, value in told.items():
        assert value == pytest.approx(weights[2, int(name.removeprefix("key-"))], abs=6e-5)
    for name, value in bars(opened, 1).items():
        assert value == pytest.approx(weights[int(name.removeprefix("row-")), 2], abs=6e-5), "is looked at by"
    best = int(weights[2].argmax())
    expect(opened.page.locator("figcaption .words")).to_contain_text(f"{100 * weights[2, best]:.0f}"[:2])


def test_passing_over_shows_and_a_click_holds(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, f"{PLACE}&part=encoder.self")
    token(opened, "row", 1).hover()
    assert (opened.get("row"), opened.get("locked")) == (1, False)
    token(opened, "row", 3).click()
    assert (opened.get("row"), opened.get("locked")) == (3, True)
    token(opened, "row", 1).hover()
    assert opened.get("row") == 3, "held"
    token(opened, "key", 2).click()
    assert (opened.get("row"), opened.get("key")) == (3, 2)
    expect(opened.page.locator("regard-pivot")).to_contain_text("looks at")
    opened.page.mouse.move(5, 5)
    opened.page.keyboard.press("Escape")
    assert (opened.get("locked"), opened.get("key")) == (False, None)
    token(opened, "row", 1).hover()
    assert opened.get("row") == 1


def test_matrix_and_table_show_the_same_numbers(visit: Callable[..., Opened], translator: Served) -> None:
    weights = seen(translator).tensor("encoder.layers.0.self_attn.weights")[0]
    opened = visit(translator, f"{PLACE}&part=encoder.self&head=0")
    opened.page.get_by_role("button", name="matrix", exact=True).click()
    cells = opened.page.locator(".cells")
    assert cells.evaluate("canvas => [canvas.height, canvas.width]") == list(weights.shape)
    light = np.array(cells.evaluate(
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    )).reshape(*weights.shape, 4).sum(-1)  # fmt: skip
    order = weights.ravel().argsort()
    assert (np.diff(light.ravel()[order]) <= 6).all(), "more weight is darker"
    box = cells.bounding_box()
    assert box is not None
    side = box["width"] / weights.shape[1]
    opened.page.mouse.click(box["x"] + 2.5 * side, box["y"] + 1.5 * side)
    assert (opened.get("row"), opened.get("key"), opened.get("locked")) == (1, 2, True)
    opened.page.get_by_role("button", name="table", exact=True).click()
    told = [
        [number(text) for text in row.locator("td").all_text_contents()]
        for row in opened.page.locator("tbody tr").all()
    ]
    assert np.abs(np.array(told) - weights).max() < 6e-4


def test_specials_are_hidden_and_the_rest_made_whole(visit: Callable[..., Opened], translator: Served) -> None:
    view = seen(translator)
    assert view.source is not None
    weights = view.tensor("encoder.layers.0.self_attn.weights")[0, 1]
    kept = [i for i, one in enumerate(view.source.tokens) if one.kind == "text"]
    assert len(kept) < len(weights)
    opened = visit(translator, f"{PLACE}&part=encoder.self&head=0&row=1")
    opened.page.get_by_label("hide special tokens").check()
    assert opened.page.locator(".line-token.key").count() == len(kept)
    told = bars(opened)
    assert max(told.values()) == pytest.approx(weights[kept].max() / weights[kept].sum(), abs=6e-5)
    hidden = 100 * (1 - weights[kept].sum())
    said = opened.page.locator("figcaption .words").text_content() or ""
    assert re.search(r"([\d.]+)\u202f% of the row went to tokens that are hidden", said), said
    assert number(re.findall(r"([\d.]+)\u202f% of the row", said)[0]) == pytest.approx(hidden, abs=0.51)


def test_pieces_of_words_are_added(visit: Callable[..., Opened], translator: Served) -> None:
    view = seen(translator)
    assert view.source is not None
    words = [one.word for one in view.source.tokens]
    weights = view.tensor("encoder.layers.0.self_attn.weights")[0]
    opened = visit(translator, f"{PLACE}&part=encoder.self&head=0&row=0")
    opened.page.get_by_label("join words").check()
    groups = [[i for i, word in enumerate(words) if word == one] for one in sorted(set(words) - {-1})]
    assert any(len(group) > 1 for group in groups), "this text has words in pieces"
    joined = weights[groups[0]].mean(0)
    expected = {f"key-{place}": joined[group].sum() for place, group in enumerate(groups)}
    told = bars(opened)
    assert {name: told[name] for name in expected if name in told} == pytest.approx(
        {name: value for name, value in expected.items() if name in told}, abs=6e-5
    )


def test_the_mean_of_chosen_heads(visit: Callable[..., Opened], language_model: Served) -> None:
    view = seen(language_model, "Once upon a time there was")
    weights = view.tensor("decoder.self.weights")  # (L, H, T, T)
    opened = visit(language_model, f"{STORY}&layer=1&head=2&row=4")
    opened.page.get_by_label("mean of chosen heads").check()
    opened.wait()
    expect(opened.page.locator(".words").last).to_contain_text("the mean of 8 heads")
    assert max(bars(opened).values()) == pytest.approx(weights[1, :, 4].mean(0).max(), abs=1e-3)
    for head in (1, 2, 3, 4, 5, 6):
        opened.page.get_by_label(f"layer 2, head {head}", exact=True).click()
    assert opened.get("heads") == [[1, 6], [1, 7]]
    assert max(bars(opened).values()) == pytest.approx(weights[1, 6:, 4].mean(0).max(), abs=1e-3)


def test_weight_times_the_length_of_what_it_carries(visit: Callable[..., Opened], translator: Served) -> None:
    norms = seen(translator).tensor("decoder.cross.norms")[0, 1, 3]
    opened = visit(translator, f"{PLACE}&part=decoder.cross&layer=0&head=1&row=3")
    opened.page.get_by_label("Measure").select_option("norms")
    opened.wait()
    told = bars(opened)
    assert len(told) > 1
    for name, value in told.items():
        assert value == pytest.approx(norms[int(name.removeprefix("key-"))], rel=2e-3, abs=1e-3)


def test_the_effect_of_each_edge(visit: Callable[..., Opened], translator: Served) -> None:
    effects = edge_effects(seen(translator), "decoder.cross", 0, 1, 3)
    opened = visit(translator, f"{PLACE}&part=decoder.cross&layer=0&head=1&row=3")
    opened.page.get_by_label("Measure").select_option("effects")
    expect(opened.page.locator("figcaption .words")).to_contain_text("nats")
    opened.page.locator(".gaze-bars .quiet").click()
    told = bars(opened)
    assert len(told) == np.count_nonzero(effects)
    for name, value in told.items():
        assert value == pytest.approx(effects[int(name.removeprefix("key-"))], abs=6e-4)


def test_remove_an_edge_and_put_it_back(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, f"{PLACE}&part=decoder.cross&layer=0&head=0&row=2&key=1")
    before = opened.get("view")["target"]["writes"]
    opened.page.get_by_role("button", name="Remove").click()
    opened.wait()
    assert opened.get("edits") == [
        {"kind": "edge", "part": "decoder.cross", "layer": 0, "head": 0, "query": 2, "key": 1}
    ]
    expect(opened.page.locator(".changes")).to_be_visible()
    opened.page.locator(".gaze-bars .quiet").first.click()
    assert "key-1" not in bars(opened), "the edge has no weight"
    opened.page.get_by_role("button", name="Undo").click()
    opened.wait()
    assert opened.get("view")["target"]["writes"] == before and opened.page.locator(".changes").count() == 0


def test_switch_a_head_off(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, f"{PLACE}&part=decoder.cross&layer=0&head=1")
    opened.page.get_by_role("button", name="Switch this head off").click()
    opened.wait()
    edit = {"kind": "head", "part": "decoder.cross", "layer": 0, "head": 1}
    assert opened.get("edits") == [edit]
    changed = opened.get("view")["target"]["writes"][0]["p"]
    assert changed != pytest.approx(opened.get("before")["target"]["writes"][0]["p"], abs=1e-6)
    expect(opened.page.locator(".changes")).to_contain_text("→")
    assert "edits" in opened.page.evaluate("location.hash") or opened.page.wait_for_timeout(400) is None
    opened.page.get_by_role("button", name="Put this head back").click()
    opened.wait()
    assert opened.get("edits") == [] and opened.get("before") is None


def test_a_long_text_comes_in_pieces(visit: Callable[..., Opened], language_model: Served) -> None:
    text = "One day a little girl and her dog went to the park to play with a red ball. " * 4
    opened = visit(language_model, f"screen=attention&text={text.strip().replace(' ', '+')}&layer=0&head=0&row=90")
    count = len(opened.get("view")["target"]["tokens"])
    assert count > 100
    frame = opened.page.locator(".map-frame")
    expect(frame).to_be_visible()
    assert opened.page.locator(".line-token.row").count() <= 64
    expect(opened.page.locator(".line-token.row.current")).to_have_count(1)
    box = opened.page.locator(".map").bounding_box()
    assert box is not None
    place = {"x": box["width"] * 5 / count, "y": box["height"] * 10.5 / count}
    opened.page.locator(".map-picture").click(position=place)
    assert abs(opened.get("row") - 10) <= 1 and opened.get("locked")
    expect(opened.page.locator(".map-box")).to_contain_text("Rows 1 to 48")


def test_a_run_that_the_server_forgot_is_made_again(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, f"{PLACE}&part=encoder.self")
    forgotten = list[str]()

    def forget(route: Any) -> None:
        if not forgotten:
            forgotten.append(route.request.url)
            route.fulfill(status=404, json={"error": {"what": "no such run"}})
        else:
            route.continue_()

    opened.page.route("**/tensor?**", forget)
    opened.page.locator(".tabs button", has_text="Cross").click()
    opened.wait()
    expect(opened.page.locator("figcaption .words")).to_contain_text("When it writes")
    assert len(forgotten) == 1 and opened.page.get_by_role("alert").count() == 0
    assert len(opened.complaints) == 1 and "404" in opened.complaints[0]
    opened.complaints.clear()
