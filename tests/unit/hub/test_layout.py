"""Whatever bytes are under the name of a safetensors file: tensors, or one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import CheckpointError
from regard.hub.layout import parse_json, read_layout
from regard.hub.weights import read_weights, write_weights


@settings(max_examples=200)
@given(data=st.data())
def test_any_damage_gives_tensors_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "model.safetensors"
    write_weights(path, {"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.int64)})
    good = path.read_bytes()
    where = data.draw(st.integers(0, len(good)))
    until = data.draw(st.integers(where, min(len(good), where + 4)))
    path.write_bytes(good[:where] + data.draw(st.binary(max_size=6)) + good[until:])
    try:
        read_layout(path)
    except CheckpointError as error:
        assert str(path) in str(error) and error.got is not None and error.mend is not None
        return
    # Damage to the values alone, to a name or to a dtype of the same width cannot be seen in the layout.
    assert {tensor.nbytes for tensor in read_weights(path, allow_nonfinite=True).values()} <= {24, 32}


@given(content=st.binary(max_size=80).filter(lambda content: content[8:9] != b"{"))
def test_any_file_gives_one_clear_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not a safetensors file"):
        read_layout(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"a": {"b": 1, "b": 2}}', "'b' appears twice"),
        (b"[" * 100_000, "recursion"),
        (b"1" * 10_000, "digits"),
        (b'{"\xff": 1}', "utf-8"),
        (b"[]", "list"),
        (b"", "Expecting value"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_json_is_an_object_without_duplicates(text: bytes, problem: str) -> None:
    with pytest.raises(CheckpointError, match=problem):
        parse_json(text, Path("index.json"))
