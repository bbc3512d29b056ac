"""What the page's modules compute for themselves, beside NumPy: half precision, colours, words, addresses."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from .conftest import Opened, Served


@pytest.fixture
def page(visit: Callable[..., Opened], translator: Served) -> Opened:
    return visit(translator, "screen=try&text=Two+dogs+run.")


def test_every_half_precision_number(page: Opened) -> None:
    found = page.page.evaluate(
        """async () => {
          const {float16ToFloat32} = await import("/page/source.js");
          return [...float16ToFloat32(Uint16Array.from({length: 65536}, (_, i) => i))].map(String);
        }"""
    )
    expected = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(np.array([float(x) for x in found], dtype=np.float32), expected)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_scale_is_told_apart_by_lightness_alone(page: Opened, theme: str) -> None:
    """Luminance moves one way, by visible steps: so it says the same in grey, and to the colour-blind."""
    colours = page.page.evaluate(
        """async theme => {
          const {colour, inkOn} = await import("/page/draw.js");
          return Array.from({length: 51}, (_, i) => [colour(i / 50, theme), inkOn(i / 50, theme)]);
        }""",
        theme,
    )
    light = np.array([luminance(paper) for paper, _ in colours])
    steps = np.diff(light) if theme == "dark" else -np.diff(light)
    assert (steps > 0).all()
    for paper, ink in colours:
        high, low = sorted((luminance(paper), luminance(ink)), reverse=True)
        assert (high + 0.05) / (low + 0.05) > 4.5, f"{ink} cannot be read on {paper}"


def luminance(colour: str) -> float:
    """Relative, as WCAG has it, of "rgb(1 2 3)" or "#010203"."""
    parts = [int(part) for part in re.findall(r"\d+", colour)] if "(" in colour else [*bytes.fromhex(colour[1:])]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (part / 255 for part in parts)]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_joined_words_keep_their_sums(page: Opened) -> None:
    found = page.page.evaluate(
        """async () => {
          const {groupTokens, groupMatrix} = await import("/page/groups.js");
          const kinds = ["special", "text", "text", "text", "special"], words = [-1, 0, 0, 1, -1];
          const tokens = kinds.map((kind, i) => ({text: "abcde"[i], kind, word: words[i]}));
          const rows = groupTokens(tokens, {join: true}), kept = groupTokens(tokens, {join: true, hideSpecials: true});
          const data = Float32Array.from({length: 25}, (_, i) => (1 + i % 5) / 15);
          return {names: rows.map(group => group.text), all: [...groupMatrix(data, 5, rows, rows)],
                  some: [...groupMatrix(data, 5, kept, kept, {renormalise: true})]};
        }"""
    )
    assert found["names"] == ["a", "bc", "d", "e"]
    assert np.reshape(found["all"], (4, 4)) == pytest.approx(np.tile(np.array([1, 5, 4, 5]) / 15, (4, 1)), abs=1e-6)
    assert np.reshape(found["some"], (2, 2)) == pytest.approx(np.tile(np.array([5, 4]) / 9, (2, 1)), abs=1e-6)


def test_an_address_that_makes_no_sense_is_let_be(page: Opened) -> None:
    read = "async hash => (await import('/page/store.js')).readHash(hash)"
    assert page.page.evaluate(read, "#layer=x&head=-1&row=1e9&key=&edits=[&screen=attention&prefix=[1.5]") == {
        "screen": "attention"
    }
    asked = page.page.evaluate(read, "#text=a%26b&text=c&text=d&temperature=hot&prefix=[1,2]")["request"]
    assert (asked["texts"], asked["temperature"], asked["prefix"]) == (["a&b", "c"], 1, [1, 2])


def test_numbers_as_they_are_said(page: Opened) -> None:
    said = page.page.evaluate(
        """async () => {
          const {percent, figure} = await import("/page/draw.js");
          const shares = [0, 0.0004, 0.0123, 0.5, 0.834, 0.9949, 0.9999, 1].map(share => percent(share));
          return [...shares, figure(-1234567.891, 1), figure(0.00001, 4), figure(-Infinity)];
        }"""
    )
    thin = "\u202f"
    shares = ["0", "0.04", "1.2", "50", "83", "99.5", "100", "100"]
    assert said == [*[f"{share}{thin}%" for share in shares], f"−1{thin}234{thin}567.9", "1.0e−5", "−∞"]
