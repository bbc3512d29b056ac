"""Faults 18 and 19 and others of `regard look`: no text, too much of it, models with one half; odd characters (15)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.errors import ConfigError

Command = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("one_thread")


def test_an_empty_text_is_looked_at_where_the_model_can_read_it(
    workplace: Path, model_dir: Callable[[str], Path], minilm: Path
) -> None:
    reads = regard.look(workplace / "run", "")
    assert reads.tokens["source"] == ["</s>"] and np.allclose(reads.weights("decoder.layers.0.cross_attn"), 1)
    writes = regard.look(model_dir("stories260k"), "")
    assert len(writes.tokens["target"]) > 1
    assert regard.look(minilm, "").tokens["source"] == ["[CLS]", "[SEP]"]
    for look in (reads, writes):
        assert str(look) and look._repr_html_()


def test_too_much_text_is_refused_with_the_reason(command: Command, minilm: Path) -> None:
    code, out, err = command("look", "run", "man " * 600, "--text")
    assert code == 2 and out == "" and "too long to look into" in err and "tokens" in err
    with pytest.raises(ConfigError, match="602 tokens"):
        regard.look(minilm, "man " * 600)


@pytest.mark.parametrize("ask", [{"target": "Ein Hund."}, {"to": "de"}])
def test_what_an_encoder_cannot_do_is_said(minilm: Path, ask: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        regard.look(minilm, "A dog.", **ask)


def test_a_part_that_the_model_has_not_is_said(minilm: Path, model_dir: Callable[[str], Path]) -> None:
    for folder, name in (
        (minilm, "decoder.layers.0.cross_attn"),
        (model_dir("stories260k"), "encoder.layers.0.self_attn"),
    ):
        look = regard.look(folder, "A dog.")
        with pytest.raises(ConfigError, match="no such attention"):
            look.weights(name)


def test_odd_characters_are_shown_and_nothing_is_lost(command: Command, model_dir: Callable[[str], Path]) -> None:
    text = "<b>שלום</b> \u202e 👩‍🚀 \x1b[31m \ud800"
    code, out, _ = command("look", "run", text, "--json")
    source = json.loads(out)["source"]
    assert code == 0 and "\x1b" not in "".join(token["text"] for token in source["tokens"])
    spans = [token for token in source["tokens"] if token["kind"] == "text"]
    assert all(0 <= token["start"] <= token["stop"] <= len(text) for token in spans)
    code, out, _ = command("look", "run", text, "--text")
    assert code == 0 and all(char.isprintable() or char == "\n" for char in out)
