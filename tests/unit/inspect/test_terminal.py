"""Maps of attention as text: what is shown, and that columns stay aligned whatever the tokens are."""

from __future__ import annotations

import numpy as np
import pytest
from rich.cells import cell_len

from regard.errors import ConfigError
from regard.inspect.terminal import Labels, heat_map, legend, printable

ROWS, COLUMNS = ["Ein", "骑", "▁Fahrrad"], ["A", "自行车", "bi", "\x1b[31m", "</s>"]


def weights(rows: int = len(ROWS), columns: int = len(COLUMNS)) -> np.ndarray:
    drawn = np.random.default_rng(0).random((rows, columns))
    return drawn / drawn.sum(1, keepdims=True)


def map_of(text: str) -> list[str]:
    return text.removesuffix(legend()).removesuffix(legend(blocks=False)).rstrip().split("\n")


def test_each_row_is_shaded_by_its_weights_and_says_what_it_looks_at_most() -> None:
    shares = np.array([[1, 0, 0], [0.3, 0.5, 0.2]])
    lines = map_of(heat_map(Labels(["one", "two"], ["a", "b", "c"]), shares))
    assert lines == ["    a b c", "one ██     a 100%", "two ▒▒▓▓▒▒ b 50%"]


def test_digits_where_there_are_no_blocks() -> None:
    shares = np.array([[1, 0, 0], [0.26, 0.7, 0.04]])
    text = heat_map(Labels(["one", "two"], ["a", "b", "c"]), shares, blocks=False)
    assert map_of(text)[1:] == ["one 9 . .  a 100%", "two 3 7 .  b 70%"]
    assert text.isascii()


@pytest.mark.parametrize("width", [40, 80])
def test_columns_are_aligned_whatever_the_width_of_their_letters(width: int) -> None:
    lines = map_of(heat_map(Labels(ROWS, COLUMNS), np.ones((3, 5)) / 5, width=width))
    names, rows = lines[:-3], lines[-3:]
    before = {cell_len(row[: row.index("▒")]) for row in rows}
    assert len(before) == 1
    assert len({cell_len(row[: row.rindex("▒") + 1]) for row in rows}) == 1
    standing = [line for line in names if "自" in line or "行" in line or "车" in line]
    assert len({cell_len(line[: next(i for i, c in enumerate(line) if c in "自行车")]) for line in standing}) == 1


def test_a_map_wider_than_the_terminal_is_cut_into_bands_that_fit_and_lose_nothing() -> None:
    shares = np.eye(60)
    names = [str(i) for i in range(60)]
    text = heat_map(Labels(names, names), shares, width=40)
    assert max(map(cell_len, text.split("\n")[:-1])) <= 40
    assert text.count("██") == 60 and text.count("\n\n") > 2


def test_nothing_in_a_token_steers_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\r\n\u202e\u200bx"
    text = heat_map(Labels([evil], [evil, "a"]), np.array([[0.5, 0.5]]))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(printable("a" * 100)) == 12


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ConfigError, match="do not belong"):
        heat_map(Labels(ROWS, COLUMNS), weights().T)
    with pytest.raises(ConfigError, match="too narrow"):
        heat_map(Labels(ROWS, COLUMNS), weights(), width=12)
    assert heat_map(Labels([], []), np.zeros((0, 0))) == legend()
