"""The pictures of a classifier: every name can be read, in whatever script."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.inspect import plot
from regard.inspect.calibration import DRAWN, draw_confusion

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ElementTree.parse(path).iter(f"{SVG}text")]


@pytest.fixture
def no_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No font of this machine has Chinese."""
    only = ["DejaVu Sans"]
    monkeypatch.setattr(plot, "fonts", lambda: only)


@pytest.mark.parametrize(
    "names",
    [
        ["bad", "good"],
        ["体育", "财经新闻"],
        ["スポーツ", "뉴스"],
        ["ไทย", "हिन्दी", "አማርኛ"],
        ["$x$", "a<b&c"],
        ["😀", "a\u0007\ufffe\ud800b"],
    ],
)
def test_every_name_is_text_and_nothing_is_warned_of(no_fonts: None, tmp_path: Path, names: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_confusion(np.eye(len(names), dtype=int), names, tmp_path / "a.svg")
    shown = texts(tmp_path / "a.svg")
    said = [re.sub("[\\u0007\\ufffe\\ud800]", "·", name) for name in names]  # XML cannot hold them
    assert all(shown.count(name) == 2 for name in said), shown
    assert {"said", "true"} <= set(shown)


def test_a_font_that_has_the_letters_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "fonts", lambda: ["DejaVu Sans", "DejaVu Serif"])
    draw_confusion(np.eye(2, dtype=int), ["体育", "财经"], tmp_path / "a.svg")
    assert "DejaVu Serif" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_name_ends_at_its_cell_whatever_font_shows_it(no_fonts: None, tmp_path: Path) -> None:
    draw_confusion(np.eye(2, dtype=int), ["财经新闻", "体育"], tmp_path / "a.svg")
    names = [
        text for text in ElementTree.parse(tmp_path / "a.svg").iter(f"{SVG}text") if text.text in ("财经新闻", "体育")
    ]
    assert len(names) == 4 and all("text-anchor: end" in text.attrib["style"] for text in names)


def test_of_many_classes_some_are_drawn(no_fonts: None, tmp_path: Path) -> None:
    names = [f"类{i}" for i in range(DRAWN + 20)]
    draw_confusion(np.ones((len(names), len(names)), dtype=int), names, tmp_path / "a.svg")
    assert sum(text.startswith("类") for text in texts(tmp_path / "a.svg")) == 2 * DRAWN
