"""An attention matrix as a matplotlib figure.

What is unusual: it belongs to no window and no session of pyplot; a notebook shows it because it can make a PNG of
itself. Fonts for Chinese and Japanese are taken where the machine has some.
What it does not know: models; it is given numbers and tokens.

Shapes: T rows, S columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from io import BytesIO

import numpy as np
from matplotlib import font_manager
from matplotlib.figure import Figure

WIDE_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC", "Microsoft YaHei",
              "WenQuanYi Zen Hei", "Arial Unicode MS")  # fmt: skip
CELL, MARGIN = 0.32, 2.0
"""Inches: a cell's side, and the room for tokens and title."""
MOST = 40.0
"""Inches of a side, at most; of longer texts the cells get smaller."""


class Picture(Figure):
    """A figure that a notebook shows."""

    def _repr_png_(self) -> bytes:
        stream = BytesIO()
        self.savefig(stream, format="png", dpi=110)
        return stream.getvalue()


def draw_attention(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str) -> Picture:
    """The weights (T, S) as shades from white (0) to dark blue (1), between their tokens."""
    wide, high = (min(MOST, MARGIN + CELL * max(8, len(names))) for names in (columns, rows))
    figure = Picture(figsize=(wide, high), layout="constrained")
    axis = figure.subplots()
    axis.imshow(weights, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axis.set_xticks(range(len(columns)), [plain(name) for name in columns], rotation=90, family=fonts())
    axis.set_yticks(range(len(rows)), [plain(name) for name in rows], family=fonts())
    axis.tick_params(length=0)
    axis.set_title(title, fontsize="medium")
    return figure


@cache
def fonts() -> list[str]:
    """matplotlib's own font, then those of this machine that have Chinese."""
    here = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in WIDE_FONTS if name in here)]


def plain(name: str) -> str:
    """A token as text: a dollar sign would begin a formula, and an empty one would leave a gap without a sign."""
    return name.replace("$", r"\$") or "·"
