"""Two pictures of a classifier: what it takes for what, and how far its probabilities can be believed.

What is unusual: many classes are drawn without numbers, and beyond a hundred only those with the most mistakes. Names
are kept as text, so that who looks at the picture has the letters that this machine has no font for.
What it does not know: models; it is given counts.

Shapes: C classes.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.hub.atomic import replace_file

NUMBERED = 15
"""Classes up to which each cell has its count written in it."""
DRAWN = 100
"""Classes that a matrix has at most."""


def draw_confusion(counts: np.ndarray, names: Sequence[str], path: Path) -> None:
    """Write an SVG of (C, C) counts: rows what examples are, columns what they were given, shaded by share of the row.

    Of more than a hundred classes those with the most mistakes are drawn.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from regard.inspect.plot import fonts

    if len(counts) > DRAWN:
        mistakes = counts.sum(0) + counts.sum(1) - 2 * counts.diagonal()
        kept = np.sort(np.argsort(-mistakes, kind="stable")[:DRAWN])
        counts, names = counts[np.ix_(kept, kept)], [names[i] for i in kept]
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    inches = 2.5 + min(12.0, max(2.0, 0.5 * len(names)))
    figure = Figure(figsize=(inches, inches), layout="constrained")
    axis = figure.subplots()
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axis.set(xlabel="said", ylabel="true", xticks=range(len(names)), yticks=range(len(names)))
    shown, families = [_plain(name) for name in names], [*fonts(), "sans-serif"]
    size = "medium" if len(names) <= NUMBERED else "xx-small"
    # An end of each name is held to its cell, since the reader's font may be wider or narrower.
    axis.set_xticklabels(shown, rotation=90, rotation_mode="anchor", ha="right", va="center", fontsize=size,
                         family=families)  # fmt: skip
    axis.set_yticklabels(shown, fontsize=size, family=families)
    if len(names) <= NUMBERED:
        for row, column in np.ndindex(*counts.shape):
            dark = shares[row, column] > 0.5
            axis.text(column, row, f"{counts[row, column]:,}", ha="center", va="center",
                      color="white" if dark else "black", fontsize="small")  # fmt: skip
    with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # of one who only measures text
        replace_file(path, lambda scratch: figure.savefig(scratch, format="svg"))


def draw_reliability(bins: Sequence[tuple[int, float, float]], error: float, path: Path) -> None:
    """Write an SVG of how often a model was right (bars) against how sure it was; on the diagonal the two agree.

    Args:
        bins: of confidence, in order and of equal width: (how many examples, their mean confidence, share right).
        error: the expected calibration error, for the title.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    width = 1 / len(bins)
    middles = (np.arange(len(bins)) + 0.5) * width
    full = [count > 0 for count, _, _ in bins]
    above.bar(middles[full], [right for count, _, right in bins if count], width=0.95 * width, color="#8da0cb")
    above.plot([0, 1], [0, 1], color="#777777", lw=1, ls="--")
    above.plot([sure for count, sure, _ in bins if count], [right for count, _, right in bins if count], "o",
               color="#d95f02", ms=4)  # fmt: skip
    above.set(ylabel="share right", ylim=(0, 1), xlim=(0, 1))
    above.set_title(f"expected calibration error {error:.3f}", fontsize="medium")
    below.bar(middles, [count for count, _, _ in bins], width=0.95 * width, color="#bbbbbb")
    below.set(xlabel="confidence", ylabel="examples")
    replace_file(path, lambda scratch: figure.savefig(scratch, format="svg"))


def _plain(name: str) -> str:
    """A name as text: a dollar sign would begin a formula, and XML cannot hold a control character."""
    name = "".join("·" if unicodedata.category(character) in ("Cc", "Cs", "Cn") else character for character in name)
    short = name if len(name) <= 24 else name[:23] + "…"
    return short.replace("$", r"\$")
