"""What goes into a page of one file: what is drawn first, exact numbers next, and the names of what had no room."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.inspect.embedded import ORDER, embedded, page_data

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def look(workplace: Path) -> regard.Look:
    return regard.look(workplace / "run", "A man rides a bicycle.", target="Ein Mann.")


def array(held: dict) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(held["base64"]), np.dtype(held["dtype"]).newbyteorder("<"))
    return flat.reshape(held["shape"])


def test_every_tensor_of_a_short_text_is_in_it_and_exact(look: regard.Look) -> None:
    tensors, left_out = embedded({"one": look.view})
    assert left_out == {"one": []} and set(tensors["one"]) == set(look.view.names)
    for name, held in tensors["one"].items():
        if held["dtype"] == "float32":
            assert np.array_equal(array(held), look.values(name)), name
    halves = {name for name, held in tensors["one"].items() if held["dtype"] == "float16"}
    parts = ("encoder.self", "decoder.self", "decoder.cross")
    assert halves == {f"{part}.{leaf}" for part in parts for leaf in ("weights", "norms", "mask")}


@pytest.mark.parametrize("most", [6_000, 20_000, 100_000])
def test_a_page_is_never_larger_than_it_may_be_and_says_what_it_lacks(look: regard.Look, most: int) -> None:
    runs = {"one": look.view, "two": look.view}
    tensors, left_out = embedded(runs, most)
    assert sum(len(held["base64"]) for run in tensors.values() for held in run.values()) <= most
    for run in runs:
        assert set(tensors[run]) | set(left_out[run]) == set(look.view.names)
        assert not set(tensors[run]) & set(left_out[run]) and left_out[run]
        assert "decoder.cross.weights" in tensors[run], "each run's pictures come before any run's steps"


def test_every_name_has_its_place(look: regard.Look) -> None:
    rank = {name: next(i for i, pattern in enumerate(ORDER) if re.fullmatch(pattern, name)) for name in look.view.names}
    assert rank["decoder.cross.weights"] < rank["decoder.layers.0.cross_attn.q"] < rank["decoder.layers.0.resid_in"]
    assert [name for name, place in rank.items() if place == len(ORDER) - 1] == ["logits"]


def test_the_data_is_that_of_the_run(look: regard.Look) -> None:
    data = page_data(look.model, [look.view], mark="0123", roles={"roles": [], "sentences": []})
    assert data["roles"] == {"roles": [], "sentences": []}
    assert data["model"]["snapshots"] == [], "a file cannot run them"
    assert data["model"]["hash"] == data["runs"][0]["hash"] == "0123"
    texts = ("A man rides a bicycle.",)
    assert data["model"]["examples"] == [{"texts": texts, "target": "Ein Mann.", "to": None}]
    assert data["runs"][0]["id"] in data["tensors"] and data["runs"][0]["id"] in data["lens"]
