"""What an edge and a head are worth: the same number as running the model again without it, for every task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regard.errors import ConfigError
from regard.inspect import effects
from regard.inspect.edits import EdgeOff, HeadOff, Unmasked
from regard.inspect.effects import edge_effects, head_effects
from regard.inspect.views import Request, View, run

PAIR = ("Who rides?", "A man rides a bicycle.")
CASES = [("sinusoidal", "post"), ("rope", "window"), ("relative", "pre")]


@pytest.fixture(params=CASES, ids="-".join)
def translated(request: pytest.FixtureRequest, opened) -> View:
    asked = Request(texts=("A man rides",), to="de", target="Ein Mann fährt")
    return run(opened("translation", *request.param), asked)


def log_p(view: View) -> np.ndarray:
    """log p of what each row of the target is followed by; 0 where nothing is."""
    return np.array([np.log(written.p) if written else 0.0 for written in view.target.writes])


def again(view: View, *edits: object) -> View:
    return run(view.loaded, replace(view.request, edits=(*view.request.edits, *edits)))


@pytest.mark.parametrize("head", [None, 1])
def test_an_edge_is_worth_what_is_lost_without_it(translated: View, head: int | None) -> None:
    for part, row in (("decoder.self", 2), ("decoder.cross", 0), ("decoder.cross", 3), ("encoder.self", 1)):
        found = edge_effects(translated, part, 1, head, row)
        mask = translated.tensor(f"{part}.mask")[row]
        assert found.shape == mask.shape
        assert (found[mask == 0] == 0).all(), "nothing is lost with what was not seen"
        rows = slice(None) if part == "encoder.self" else row
        for key in np.flatnonzero(mask):
            lost = log_p(translated) - log_p(again(translated, EdgeOff(part, 1, head, row, int(key))))
            assert found[key] == pytest.approx(lost[rows].sum(), abs=1e-4)
        assert np.abs(found).max() > 1e-3, "some edge matters"


def test_edges_of_a_changed_model(translated: View) -> None:
    """With the mask taken away a row's words hang on what comes later, too."""
    view = again(translated, Unmasked(), HeadOff("decoder.cross", 0, 0))
    found = edge_effects(view, "decoder.self", 0, None, 1)
    for key in range(len(view.target)):
        lost = log_p(view)[1] - log_p(again(view, EdgeOff("decoder.self", 0, None, 1, key)))[1]
        assert found[key] == pytest.approx(lost, abs=1e-4)
    assert np.abs(found[2:]).max() > 0


def test_copies_in_small_groups_are_worth_the_same(translated: View, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = edge_effects(translated, "decoder.cross", 0, None, 2), head_effects([translated], "encoder.self")
    monkeypatch.setattr(effects, "COPIES_ELEMENTS", 1)
    parts = edge_effects(translated, "decoder.cross", 0, None, 2), head_effects([translated], "encoder.self")
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_head_is_worth_what_the_loss_rises_by_without_it(translated: View) -> None:
    shorter = run(translated.loaded, replace(translated.request, target="un"))
    for part in translated.parts:
        found = head_effects([translated, shorter], part.name)
        assert found.shape == (part.layers, part.heads)
        for layer, head in ((0, 3), (1, 0)):
            off = HeadOff(part.name, layer, head)
            lost = sum(float((log_p(view) - log_p(again(view, off))).sum()) for view in (translated, shorter))
            assert found[layer, head] == pytest.approx(lost / (len(translated.target) + len(shorter.target)), abs=1e-4)


def test_the_last_row_of_a_text_is_asked_about_its_likeliest_word(opened) -> None:
    view = run(opened("language-model", "rope", "pre"), Request(texts=("A man rides",), max_tokens=0))
    last = len(view.target) - 1
    assert view.target.writes[last] is None
    logits = view.tensor("logits")[last].astype(np.float64)
    best = int(logits.argmax())
    other = again(view, EdgeOff("decoder.self", 0, None, last, 1)).tensor("logits")[last].astype(np.float64)
    lost = (logits[best] - np.logaddexp.reduce(logits)) - (other[best] - np.logaddexp.reduce(other))
    assert edge_effects(view, "decoder.self", 0, None, last)[1] == pytest.approx(lost, abs=1e-4)


def test_of_models_that_read_it_is_what_they_say(opened) -> None:
    """Class and answer: log p of the view's first output; of a guess or a tag, of that place alone."""
    classifier = run(opened("classification", "rope"), Request(texts=("A man rides",)))
    without = again(classifier, EdgeOff("encoder.self", 1, None, 2, 1))
    p = {one.label: one.p for one in without.outputs}[classifier.outputs[0].label]
    lost = np.log(classifier.outputs[0].p) - np.log(p)
    assert edge_effects(classifier, "encoder.self", 1, None, 2)[1] == pytest.approx(lost, abs=1e-4)

    guesser = run(opened("masked-lm", "relative"), Request(texts=("A man rides",)))
    without = again(guesser, EdgeOff("encoder.self", 1, 0, 2, 1))
    lost = np.log(guesser.source.writes[2].p) - np.log(without.source.writes[2].p)
    assert edge_effects(guesser, "encoder.self", 1, 0, 2)[1] == pytest.approx(lost, abs=1e-4)

    several = opened("classification", "rope", about={"labels": ["x", "y"], "label_kind": "several"})
    view = run(several, Request(texts=("A man rides",)))
    without = again(view, HeadOff("encoder.self", 0, 1))
    p, q = ({one.label: one.p for one in each.outputs} for each in (view, without))
    lost = sum(np.log(p[x] if p[x] > 0.5 else 1 - p[x]) - np.log(q[x] if p[x] > 0.5 else 1 - q[x]) for x in p)
    assert head_effects([view], "encoder.self")[0, 1] == pytest.approx(lost, abs=1e-4)

    for loaded, texts in ((opened("tagging", "learned"), PAIR[1:]), (opened("question-answering"), PAIR)):
        view = run(loaded, Request(texts=texts))
        assert np.abs(edge_effects(view, "encoder.self", 0, None, 2)).max() > 1e-4
        assert np.abs(head_effects([view], "encoder.self")).max() > 1e-4


def test_what_has_no_probability_has_no_effect(opened) -> None:
    number = opened("classification", about={"labels": ["n"], "label_kind": "number"})
    for loaded in (opened("embedding"), number):
        view = run(loaded, Request(texts=("A man",)))
        assert not effects.has_probability(loaded)
        with pytest.raises(ConfigError, match="probability"):
            edge_effects(view, "encoder.self", 0, None, 0)


@pytest.mark.parametrize(
    "place", [("decoder.self", 2, 0, 0), ("decoder.self", 0, 4, 0), ("decoder.self", 0, 0, 99), ("x", 0, 0, 0)]
)
def test_places_that_are_not_there_are_refused(place: tuple, opened) -> None:
    view = run(opened("language-model"), Request(texts=("A man",), max_tokens=0))
    with pytest.raises(ConfigError):
        edge_effects(view, *place)
