"""The picture: every token has a label that can be read (a missing glyph is a warning, and so fails)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.inspect.alignment import PairAttention
from regard.inspect.picture import COLOURS, STROKES, draw_reordering


def pair(target: str, year: list[int], month: list[int], day: list[int]) -> PairAttention:
    source = ["<to:zh>", "▁July", "▁", "3", ",", "▁2", "0", "3", "1", "</s>"]
    fields = {"year": ([5, 6, 7, 8], year), "month": ([1], month), "day": ([3], day)}
    tokens = [*target, "</s>"]
    return PairAttention(source, tokens, fields, torch.rand(2, len(tokens), len(source)).softmax(-1))


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_date_is_drawn_with_chinese_labels_and_no_chinese_font(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture.{suffix}"
    draw_reordering({"into Chinese": pair("2031年7月3日", [0, 1, 2, 3], [5], [7])}, 1, path)
    assert path.stat().st_size > 5_000
    if suffix == "svg":
        text = path.read_text(encoding="utf-8")
        assert all(COLOURS[name] in text for name in ("year", "month", "day"))
        assert text.count("#markers") or text.count("<use"), "the strokes are not there"


def test_the_strokes_stay_in_their_square() -> None:
    points = [value for lines in STROKES.values() for line in lines for point in line for value in point]
    assert set(STROKES) == set("年月日") and all(-1 <= value <= 1 for value in points)
