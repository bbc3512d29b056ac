"""Attention as text: rows and columns of tokens, and a block of shade for each weight.

          ▁     ▁
          J     2
          u     0
          l ▁   3
          y 4 , 1
    ▁2031       ██ ▁2031 93%
    年    ░░  ▒▒▓▓ ▁2031 56%
    7     ██░░  ░░ ▁July 80%

What is unusual: a column is as wide as a Chinese character, and its token stands above it from top to bottom, so a map
of any language stays aligned; one that is wider than the terminal is cut into bands. Nothing that a token holds can
steer the terminal: what cannot be printed is shown as a dot.
What it does not know: models; it is given tokens and numbers.

Shapes: T rows, S columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import ConfigError

SHADES = ((0.05, "░"), (0.2, "▒"), (0.45, "▓"), (0.75, "█"))
"""A weight is drawn as the last one whose bound it reaches; below the first, as nothing."""
CELL = 2
"""Columns of the terminal for one of ours."""
LONGEST = 12
"""Characters of a token that are shown."""


@dataclass(frozen=True)
class Labels:
    """What stands beside the rows and above the columns."""

    rows: Sequence[str]
    columns: Sequence[str]


def heat_map(labels: Labels, weights: np.ndarray, *, width: int = 80, blocks: bool = True) -> str:
    """The map as lines of text; each row ends with what it looks at most.

    Args:
        weights: (T, S), from 0 to 1.
        width: of the terminal.
        blocks: whether it can show ░▒▓█; without, tenths are digits, and less than half a tenth is a dot.

    Raises:
        ConfigError: the weights have another shape than the labels, or less than one column fits.
    """
    rows, columns = ([printable(name) for name in names] for names in (labels.rows, labels.columns))
    if weights.shape != (len(rows), len(columns)):
        raise ConfigError("the weights do not belong to these tokens", expected=(len(rows), len(columns)),
                          got=weights.shape)  # fmt: skip
    margin = max(map(cells, rows), default=0) + 1
    most = [f"{columns[int(row.argmax())]} {row.max():.0%}" if len(row) else "" for row in weights]
    room = (width - margin - max(map(cells, most), default=0) - 1) // CELL
    if room < 1:
        raise ConfigError("the terminal is too narrow for a map", expected=f"{width + CELL * (1 - room)} columns",
                          got=width, mend="widen it")  # fmt: skip
    step = math.ceil(len(columns) / max(1, math.ceil(len(columns) / room)))  # bands of like width
    bands = [slice(start, start + step) for start in range(0, len(columns), max(1, step))]
    drawn = ["\n".join(_band(rows, columns, weights, most, band, margin, blocks)) for band in bands]
    return "\n\n".join([*drawn, legend(blocks=blocks)])


def legend(*, blocks: bool = True) -> str:
    """What the shades mean, in a line."""
    if not blocks:
        return "a digit is a tenth of the row's attention, a dot less than half of one"
    return "of the row's attention: " + ", ".join(f"{shade} from {bound:.0%}" for bound, shade in SHADES)


def _band(
    rows: Sequence[str], columns: Sequence[str], weights: np.ndarray, most: Sequence[str], band: slice, margin: int,
    blocks: bool,
) -> list[str]:  # fmt: skip
    """The lines of some columns: their names from top to bottom, then every row."""
    some = columns[band]
    height = max(map(len, some), default=0)
    names = [name.rjust(height) for name in some]  # they stand on the map
    lines = [" " * margin + "".join(padded(name[i], CELL) for name in names).rstrip() for i in range(height)]
    for name, row, best in zip(rows, weights[:, band], most, strict=True):
        shaded = "".join(padded(_shade(value, blocks), CELL) for value in row.tolist())
        lines.append(f"{padded(name, margin)}{shaded} {best}".rstrip())
    return lines


def _shade(value: float, blocks: bool) -> str:
    if not blocks:
        return str(min(9, int(10 * value + 0.5))) if value >= SHADES[0][0] else "."
    return next((shade * CELL for bound, shade in reversed(SHADES) if value >= bound), " ")


def printable(text: str) -> str:
    """A token that is safe and short enough to show in a terminal."""
    shown = "".join(char if char.isprintable() else "·" for char in text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int) -> str:
    """The text with spaces behind it, so many columns wide in all."""
    return text + " " * (width - cells(text))
