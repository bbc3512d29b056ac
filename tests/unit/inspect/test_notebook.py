"""`regard.look` in Python: arrays, a figure, the page in a notebook, files."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import regard
from regard.inspect.edits import HeadOff
from regard.inspect.terminal import legend

pytestmark = pytest.mark.usefixtures("one_thread")
CROSS = "decoder.layers.0.cross_attn"


@pytest.fixture(scope="module")
def look(workplace: Path) -> regard.Look:
    return regard.look(workplace / "run", "A man rides a bicycle.")


def test_arrays_are_had_by_name(look: regard.Look) -> None:
    weights = look.weights(CROSS)
    rows, columns = look.labels(CROSS)
    assert weights.shape == (2, len(rows), len(columns)) and weights.dtype == np.float32
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.array_equal(look.to_numpy()[f"{CROSS}.weights"], weights)
    assert rows == look.tokens["writes"] and columns == look.tokens["source"]
    reads = look.labels("decoder.layers.0.self_attn")
    assert reads == (look.tokens["target"], look.tokens["target"]) and reads[0][1:] == rows[:-1]
    with pytest.raises(regard.ConfigError, match=f"did you mean {CROSS}.weights"):
        look.values(f"{CROSS}.weight")


def test_weights_labels_and_figures_are_of_the_same_names(look: regard.Look) -> None:
    """And of no other that a tensor has: its weights' own, that of all layers, that of no attention."""
    assert CROSS in look.attentions and len(look.attentions) == 3
    for name in look.attentions:
        rows, columns = look.labels(name)
        assert look.weights(name).shape[1:] == (len(rows), len(columns)) and look.plot(name).axes
    for name in (*look.view.names, "decoder.cross", "decoder.layers.1.cross_attn", ""):
        for asked in (look.weights, look.labels, look.plot):
            with pytest.raises(regard.ConfigError, match="no such attention") as caught:
                asked(name)
            assert caught.value.expected == " or ".join(look.attentions) and caught.value.got == name
    with pytest.raises(regard.ConfigError, match=f"did you mean {CROSS}\\?"):
        look.plot(f"{CROSS}.weights")


def test_a_target_can_be_given_and_a_head_taken_away(look: regard.Look) -> None:
    given = regard.look(look.model, "A man rides a bicycle.", target="Ein Hund schläft.")
    said = "".join(given.tokens["writes"][:-1]).replace("▁", " ").strip()
    assert given.text == said == "Ein Hund schläft."
    without = regard.look(look.model, "A man rides a bicycle.", edits=[HeadOff("decoder.cross", 0, 1)])
    assert not without.values(f"{CROSS}.z")[1].any() and look.values(f"{CROSS}.z")[1].any()


def test_a_figure_shows_one_head_or_the_mean(look: regard.Look) -> None:
    for head, wanted in ((1, look.weights(CROSS)[1]), (None, look.weights(CROSS).mean(0))):
        figure = look.plot(CROSS, head)
        (axis,) = figure.axes
        assert isinstance(figure, Figure) and np.array_equal(axis.images[0].get_array(), wanted)
        shown = [label.get_text() for label in axis.get_yticklabels()]
        assert shown == [row or "·" for row in look.labels(CROSS)[0]]
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(regard.ConfigError, match="head"):
        look.plot(CROSS, 2)


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
def test_a_figure_takes_any_token(look: regard.Look) -> None:
    from regard.inspect.plot import draw_attention

    draw_attention(np.eye(3), ["$x$", "", "骑车"], ["$", "\\", "ש"], "odd")._repr_png_()


class Frames(HTMLParser):
    """The frames of a notebook's cell, and whatever else there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(look: regard.Look, tmp_path: Path) -> None:
    ((tag, attributes),) = Frames(look._repr_html_()).tags
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts allow-downloads"
    look.save(tmp_path / "page.html")
    assert attributes["srcdoc"] == (tmp_path / "page.html").read_text(encoding="utf-8")


def test_it_is_saved_as_a_page_or_as_arrays(look: regard.Look, tmp_path: Path) -> None:
    look.save(str(tmp_path / "new" / "all.npz"))
    with np.load(tmp_path / "new" / "all.npz") as arrays:
        assert all(np.array_equal(arrays[name], tensor) for name, tensor in look.to_numpy().items())
        assert set(arrays) == set(look.to_numpy())
    with pytest.raises(regard.ConfigError, match=r"\.html or \.npz"):
        look.save(tmp_path / "look.txt")


def test_in_a_terminal_it_is_a_map(look: regard.Look) -> None:
    first, *_ = str(look).split("\n")
    assert first == look.text and str(look).endswith(legend())
    assert "decoder.cross, layer 0, mean of 2 heads" in str(look)


def test_models_that_only_read_and_only_write(minilm: Path, model_dir: Callable[[str], Path]) -> None:
    reads = regard.look(minilm, "A man rides a bicycle.")
    assert reads.text is None and set(reads.tokens) == {"source"} and "encoder.self" in str(reads)
    writes = regard.look(model_dir("stories260k"), "Once upon a time")
    assert writes.text and set(writes.tokens) == {"target", "writes"} and "decoder.self" in str(writes)
