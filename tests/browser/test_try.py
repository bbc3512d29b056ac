"""Screen 1, Try: each of its interactions, with a translator, a language model and a classifier."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from regard.inspect.scripts import Request as RunRequest
from regard.inspect.views import run

from .conftest import Opened, Served

SENTENCE = "A man rides a bicycle."
PLACE = "screen=try&text=A+man+rides+a+bicycle."


def bodies(page: Page) -> list[dict[str, Any]]:
    """What the page asks the model from now on; the list grows."""
    asked = list[dict[str, Any]]()

    def note(request: Request) -> None:
        if request.url.endswith("api/run"):
            asked.append(json.loads(request.post_data or ""))

    page.on("request", note)
    return asked


def chips(opened: Opened) -> list[str]:
    return opened.page.locator(".chips").last.locator(".chip-text").all_text_contents()


def test_what_is_typed_is_run_after_a_rest(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    asked = bodies(opened.page)
    box = opened.page.get_by_label("Source")
    box.focus()
    box.press("End")
    box.press_sequentially(" Two dogs run.", delay=5)
    expect(opened.page.locator(".written")).not_to_have_text("", timeout=5000)
    opened.page.wait_for_timeout(400)
    opened.wait()
    assert [body["texts"] for body in asked] == [[f"{SENTENCE} Two dogs run."]], "one run for all the keys"
    expected = run(translator.model, RunRequest(texts=(f"{SENTENCE} Two dogs run.",)))
    assert opened.page.locator(".written").text_content() == expected.text
    assert box.evaluate("box => box === document.activeElement"), "the caret stays"


def test_a_new_text_gives_up_the_run_before(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    given_up = list[str]()
    opened.page.on("requestfailed", lambda request: given_up.append(request.post_data or ""))
    held = list[Any]()

    def hold(route: Any) -> None:
        held.append(route) if "slow" in (route.request.post_data or "") else route.continue_()

    opened.page.route("**/api/run", hold)
    box = opened.page.get_by_label("Source")
    box.fill("slow")
    opened.until("regard.store.get('status').kind === 'busy'")
    box.fill("Two dogs.")
    opened.until("regard.store.get('view').request.texts[0] === 'Two dogs.'")
    assert len(given_up) == len(held) == 1 and "slow" in given_up[0]


def test_tokens_and_what_else_was_weighed(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    writes = [written for written in opened.get("view")["target"]["writes"] if written]
    shown = opened.page.locator(".chips").last.locator(".chip-p").all_text_contents()
    assert len(shown) == len(writes)
    for text, written in zip(shown, writes, strict=True):
        assert float(text.split("\u202f")[0]) == pytest.approx(100 * written["p"], abs=0.51)
    opened.page.locator(".chips").last.locator("button").nth(2).hover()
    names = opened.page.locator(".weighed .bar-name").all_text_contents()
    assert names == [text.removeprefix("▁") or "␣" for text, _, _ in writes[2]["top"]] and len(names) == 5


def test_pieces_are_joined_to_words(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, f"{PLACE}&target=Zwei+Hunde+laufen.")
    writes = opened.get("view")["target"]["writes"]
    words = [[one["p"] for one in group] for _, group in itertools.groupby(writes, lambda written: written["word"])]
    assert any(len(pieces) > 1 for pieces in words), "this text has words in pieces"
    opened.page.get_by_label("join the pieces of a word").check()
    shown = opened.page.locator(".chips").last.locator(".chip-p").all_text_contents()
    assert len(chips(opened)) == len(shown) == len(words)
    for text, pieces in zip(shown, words, strict=True):
        share = 100 * math.prod(pieces)
        assert float(text.split("\u202f")[0]) == pytest.approx(share, abs=0.51 if share > 10 else 0.051)


def test_a_click_on_a_token_takes_all_screens_there(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    opened.page.locator(".chips").last.locator("button").nth(3).click()
    assert (opened.get("part"), opened.get("row"), opened.get("locked")) == ("decoder.cross", 3, True)
    opened.until("location.hash.includes('row=3')")
    opened.page.get_by_role("button", name="See what it looks at").click()
    expect(opened.page.get_by_role("heading", name="Who looks at whom")).to_be_visible()
    opened.page.keyboard.press("1")
    opened.page.locator(".chips").first.locator("button").nth(1).click()
    assert (opened.get("part"), opened.get("row")) == ("encoder.self", 1)


def test_the_source_is_shaded_by_what_was_looked_at(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    weights = run(translator.model, RunRequest(texts=(SENTENCE,))).tensor("decoder.cross.weights").mean((0, 1))[2]
    opened.page.locator(".chips").last.locator("button").nth(2).hover()
    expect(opened.page.locator(".shaded")).to_be_visible()
    source = opened.page.locator(".chips").first.locator("button")
    papers = source.evaluate_all("all => all.map(chip => chip.style.backgroundColor)")
    colours = [sum(map(int, re.findall(r"\d+", paper))) for paper in papers]
    order = weights.argsort()
    assert len(colours) == len(weights)
    assert all(colours[low] >= colours[high] for low, high in itertools.pairwise(order)), "more weight is darker"
    opened.page.mouse.move(5, 5)
    expect(opened.page.locator(".shaded")).to_be_hidden()


def test_ways_of_writing(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    asked = bodies(opened.page)
    for name in ("beam", "8", "sample", "Draw again"):
        opened.page.get_by_role("button", name=name, exact=True).click()
        opened.wait()
    opened.page.get_by_label("Temperature").fill("1.6")
    opened.wait()
    told = [(body["mode"], body["beam"], body["seed"], body["temperature"]) for body in asked]
    assert told == [
        ("beam", 4, 0, 1),
        ("beam", 8, 0, 1),
        ("sample", 8, 0, 1),
        ("sample", 8, 1, 1),
        ("sample", 8, 1, 1.6),
    ]
    request = RunRequest(texts=(SENTENCE,), mode="sample", seed=1, temperature=1.6)
    assert opened.get("view")["text"] == run(translator.model, request).text


def test_why_not_this_word(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    before = opened.get("view")["target"]["writes"]
    opened.page.locator(".chips").last.locator("button").nth(1).hover()
    other = next(top for top in before[1]["top"] if top[1] != before[1]["id"])
    opened.page.locator(".weighed button.bar-line").first.click()
    opened.wait()
    after = opened.get("view")["target"]["writes"]
    assert [written["id"] for written in after[:2]] == [before[0]["id"], other[1]], "forced, after what stood before"
    assert after[1]["p"] == pytest.approx(other[2], rel=1e-3) and after[1]["rank"] > 1
    opened.page.get_by_role("button", name="Let the model choose").click()
    opened.wait()
    assert opened.get("view")["target"]["writes"] == before


def test_the_reader_writes(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    opened.page.get_by_role("button", name="I do").click()
    opened.wait()
    box = opened.page.get_by_label("The target to force")
    assert box.input_value() == opened.get("view")["text"], "it begins as what the model wrote"
    box.fill("Ein Hund.")
    opened.until("regard.store.get('view').text === 'Ein Hund.'")
    view = run(translator.model, RunRequest(texts=(SENTENCE,), target="Ein Hund."))
    assert [written["id"] for written in opened.get("view")["target"]["writes"]] == [w.id for w in view.target.writes]
    opened.page.get_by_role("button", name="the model", exact=True).click()
    opened.wait()
    assert box.is_hidden() and opened.get("request")["target"] is None


def test_examples_to_begin_with(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator)
    examples = opened.page.locator(".example")
    texts = examples.all_text_contents()
    assert texts == [example["texts"][0] for example in opened.get("model")["examples"]]
    assert opened.get("view")["request"]["texts"] == [texts[0]], "a page that is opened without a text shows something"
    examples.last.click()
    opened.wait()
    assert opened.page.get_by_label("Source").input_value() == texts[-1] == opened.get("view")["request"]["texts"][0]


def test_a_language_model_goes_on(visit: Callable[..., Opened], language_model: Served) -> None:
    opened = visit(language_model, "screen=try&text=Once+upon+a+time")
    view = opened.get("view")
    assert opened.page.locator(".written").text_content() == "".join(view["target"]["texts"])
    assert opened.page.locator(".written .prompt").text_content() == "Once upon a time"
    given = opened.page.locator(".chip.given .chip-text").all_text_contents()
    first = opened.page.locator(".chip").first.text_content() or ""
    assert "".join([first, *given]) == "Onceuponatime"
    opened.page.locator(".chip:not(.given)").nth(4).hover()
    opened.page.locator(".weighed button.bar-line").first.click()
    opened.wait()
    assert opened.get("view")["target"]["texts"][0] == "Once upon a time", "what was typed stays"
    assert opened.get("request")["prefix"]


def test_a_classifier_says_its_labels(visit: Callable[..., Opened], classifier: Served) -> None:
    opened = visit(classifier, "screen=try&text=Who+killed+Gandhi+?")
    label = classifier.model.classify(["Who killed Gandhi ?"], top_k=6)[0]
    names = opened.page.locator(".labels .bar-name").all_text_contents()
    assert names == [name for name, _ in label.likeliest]
    shown = [float(text.split("\u202f")[0]) for text in opened.page.locator(".labels .bar-number").all_text_contents()]
    assert sum(shown) == pytest.approx(100, abs=3.1)
    assert opened.page.get_by_role("button", name="greedy").count() == 0, "it writes nothing"
    lens = opened.page.get_by_role("button", name="Logit lens")
    lens.dispatch_event("click")
    expect(opened.page.get_by_text("this model has none")).to_be_visible()


def test_a_text_that_is_too_long_is_refused_in_words(visit: Callable[..., Opened], translator: Served) -> None:
    opened = visit(translator, PLACE)
    opened.page.get_by_label("Source").fill("bicycle " * 700)
    alert = opened.page.get_by_role("alert")
    expect(alert).to_contain_text("That did not work")
    expect(alert).to_contain_text("tokens")
    opened.page.get_by_label("Source").fill(SENTENCE)
    expect(alert).to_have_count(0)
    assert any("422" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "\u202etxet", "👩‍🚀 flies", ""])
def test_odd_texts_are_inert(visit: Callable[..., Opened], translator: Served, text: str) -> None:
    opened = visit(translator, PLACE)
    opened.page.get_by_label("Source").fill(text)
    opened.until("regard.store.get('view').request.texts[0] === given", text)
    assert opened.page.locator("regard-app img").count() == 0
    assert "\u202e" not in "".join(chips(opened)), "what would turn the writing is shown as its code point"


def test_a_tagger_marks_its_spans(visit: Callable[..., Opened], untrained: Callable[..., Served]) -> None:
    served = untrained("tagging")
    text = "👩‍🚀 Anna lives in Paris, near the old river."
    opened = visit(served, "screen=try&text=a")
    opened.page.get_by_label("Text", exact=True).fill(text)
    opened.until("regard.store.get('view').request.texts[0] === given", text)
    (spans,) = served.model.tag([text])
    assert spans, "a model without weights of sense marks something here"
    marked = opened.page.locator(".marked mark")
    told = [" ".join([text[span.start : span.stop], span.label]) for span in spans]
    assert [re.sub(r" [\d.]+\u202f%$", "", mark) for mark in marked.all_text_contents()] == told
    assert (opened.page.locator(".marked").text_content() or "").startswith(text[: spans[0].start])


def test_an_answer_is_marked_in_its_context(visit: Callable[..., Opened], untrained: Callable[..., Served]) -> None:
    served = untrained("question-answering")
    question, context = "Who rides?", "😀 A man rides a bicycle through the old town."
    opened = visit(served, "screen=try&text=a&text=b")
    opened.page.get_by_label("Question").fill(question)
    opened.page.get_by_label("Text to answer from").fill(context)
    opened.until("regard.store.get('view').request.texts[1] === given", context)
    answer = served.model.answer(question, context)
    assert answer.text == context[answer.start : answer.end] != ""
    assert opened.page.locator(".marked mark").text_content() == answer.text
    assert opened.page.locator(".marked").text_content() == context
    assert opened.page.locator(".labels .bar-name").first.text_content() == answer.text


def test_a_masked_language_model_guesses_each_token(
    visit: Callable[..., Opened], untrained: Callable[..., Served]
) -> None:
    opened = visit(untrained("masked-lm"), "screen=try&text=the+cat+sat")
    guesses = opened.get("view")["source"]["writes"]
    opened.page.locator(".chips button").nth(1).hover()
    names = opened.page.locator(".weighed .bar-name").all_text_contents()
    assert names == [text.removeprefix("▁") or "␣" for text, _, _ in guesses[1]["top"]]
    assert opened.page.locator(".weighed button.bar-line").count() == 0, "it cannot go on from another"
