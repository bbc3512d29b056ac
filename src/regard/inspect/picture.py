"""A picture of cross-attention between a source and its translations, in which the reordering of fields can be seen.

What is unusual: the characters 年, 月 and 日 are drawn from a few strokes, as no font that comes with matplotlib has
them and a picture with boxes in their place says nothing; so it looks the same on every machine. Other characters that
the font lacks cannot be drawn.
What it does not know: models; it is given `inspect.alignment.PairAttention`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.inspect.alignment import PairAttention

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL, LEFT, RIGHT, TOP, BOTTOM = 0.38, 0.9, 0.3, 1.2, 0.75
"""Inches: a cell's side, and the room around the matrices for labels, titles and the caption."""
COLOURS = {"day": "#c2410c", "month": "#1d4ed8", "year": "#047857", "weekday": "#7e22ce"}
"""Of the fields; dark enough to be read as text on white, and told apart by the colour-blind."""
OTHER = "#57534e"
STROKES = {
    "年": (
        ((-0.35, 1), (-0.8, 0.3)), ((-0.5, 0.7), (0.8, 0.7)), ((-0.45, 0.15), (0.7, 0.15)),
        ((-0.45, 0.15), (-0.45, -0.35)), ((-1, -0.35), (1, -0.35)), ((0.15, 0.7), (0.15, -1)),
    ),
    "月": (
        ((-0.4, 0.9), (-0.4, -0.2), (-0.5, -0.65), (-0.75, -1)), ((-0.4, 0.9), (0.6, 0.9), (0.6, -0.95), (0.3, -0.85)),
        ((-0.4, 0.35), (0.6, 0.35)), ((-0.4, -0.2), (0.6, -0.2)),
    ),
    "日": (
        ((-0.55, -1), (-0.55, 0.9), (0.55, 0.9), (0.55, -1)), ((-0.55, 0), (0.55, 0)), ((-0.55, -0.85), (0.55, -0.85)),
    ),
}  # fmt: skip
"""Lines of points in a square from -1 to 1."""


def draw_reordering(pairs: Mapping[str, PairAttention], layer: int, path: Path) -> None:
    """One matrix for each pair, side by side, under its title; the true alignment of the fields is outlined.

    Args:
        pairs: by title.
        layer: whose attention is drawn.
        path: .svg or .png.
    """
    from matplotlib.figure import Figure

    widths = [LEFT + CELL * len(pair.source) for pair in pairs.values()]
    tallest = CELL * max(len(pair.target) for pair in pairs.values())
    width, height = sum(widths) + RIGHT, TOP + tallest + BOTTOM
    figure = Figure(figsize=(width, height))
    for i, (title, pair) in enumerate(pairs.items()):
        sides = CELL * len(pair.source), CELL * len(pair.target)
        corner = sum(widths[:i]) + LEFT, BOTTOM + tallest - sides[1]
        axis = figure.add_axes((corner[0] / width, corner[1] / height, sides[0] / width, sides[1] / height))
        _draw(axis, pair, layer)
        figure.text((corner[0] + sides[0] / 2) / width, 1 - 0.3 / height, title, fontsize=12, ha="center", va="center")
    figure.text(
        0.5, 0.3 / height,
        f"Cross-attention of decoder layer {layer + 1}, mean of its heads. Each row is what the decoder looked at to"
        " write that token, and sums to 1.\nOutlined: where day, month and year truly are in both texts.",
        fontsize=8.5, color=OTHER, ha="center", va="center",
    )  # fmt: skip
    figure.savefig(path)


def _draw(axis: Axes, pair: PairAttention, layer: int) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    weights = pair.weights[layer]  # (T, S)
    sides = [dict[int, str](), dict[int, str]()]
    for name, field in pair.fields.items():
        for colours, tokens in zip(sides, field, strict=True):
            colours.update(dict.fromkeys(tokens, COLOURS.get(name, OTHER)))
    pixels = [[(*to_rgb(sides[1].get(t, OTHER)), float(w)) for w in row] for t, row in enumerate(weights)]
    axis.imshow(pixels)
    axis.autoscale(False)
    for name, (there, here) in pair.fields.items():
        corner, width, height = (there[0] - 0.5, here[0] - 0.5), len(there), len(here)
        axis.add_patch(
            Rectangle(
                corner, width, height, fill=False, edgecolor=COLOURS.get(name, OTHER), linewidth=1.3, clip_on=False
            )
        )
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=10)
    for side in axis.spines.values():
        side.set_color("#d6d3d1")
    _label(axis, pair.source, sides[0], column=True)
    _label(axis, pair.target, sides[1], column=False)


def _label(axis: Axes, tokens: Sequence[str], colours: Mapping[int, str], *, column: bool) -> None:
    """The tokens beside their columns or rows, in a font, or else in strokes."""
    from matplotlib.path import Path as Lines

    texts = [token.strip("▁") or "space" for token in tokens]
    shown = ["" if text in STROKES else text for text in texts]
    ticks = axis.xaxis if column else axis.yaxis
    ticks.set_ticks(range(len(texts)), shown, rotation=90 if column else 0)
    for i, (text, label) in enumerate(zip(texts, ticks.get_ticklabels(), strict=True)):
        label.set_color(colours.get(i, OTHER))
        lines = STROKES.get(text, ())
        codes = [Lines.MOVETO if k == 0 else Lines.LINETO for line in lines for k in range(len(line))]
        if lines:
            mark = Lines([point for line in lines for point in line], codes)
            axis.plot(*((i, -0.9) if column else (-0.9, i)), marker=mark, markersize=10, markerfacecolor="none",
                      markeredgecolor=colours.get(i, OTHER), markeredgewidth=1.1, clip_on=False)  # fmt: skip
