"""Weights come back as they went, and a module takes all of them or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.hub.layout import _DTYPES, read_layout
from regard.hub.weights import (
    INDEX,
    WEIGHTS,
    equal_bytes,
    find_weights,
    load_strict,
    read_model_weights,
    read_weights,
    state_tensors,
    stream_weights,
    write_weights,
)


class Tied(nn.Module):
    """Two names for one parameter, a persistent buffer and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.arange(3.0), persistent=False)


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype
        and a[name].shape == b[name].shape
        and a[name].reshape(-1).view(torch.uint8).equal(b[name].reshape(-1).view(torch.uint8))
        for name in a
    )


@st.composite
def tensor_dicts(draw: st.DrawFn) -> dict[str, Tensor]:
    """Tensors of every dtype and of odd shapes: scalars, empty ones, transposed ones."""
    tensors = {}
    names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name != "__metadata__")
    for name in draw(st.lists(names, max_size=6, unique=True)):
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        tensor = torch.randint(0, 2, shape).to(draw(st.sampled_from(list(_DTYPES.values()))))
        tensors[name] = tensor.transpose(0, -1) if draw(st.booleans()) and shape else tensor
    return tensors


@settings(max_examples=60)
@given(tensors=tensor_dicts())
def test_every_tensor_comes_back_bit_equal(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Tensor]
) -> None:
    path = tmp_path_factory.mktemp("weights") / WEIGHTS
    write_weights(path, tensors)
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    assert equal(read_weights(path), contiguous)
    assert equal(safetensors.torch.load_file(path), contiguous), "the library reads what we write"
    safetensors.torch.save_file(contiguous, path, {"format": "pt"})
    assert equal(read_weights(path), contiguous), "we read what the library writes"


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": torch.ones(3), "a": torch.zeros(2, dtype=torch.float64)}
    write_weights(tmp_path / "1", tensors, {"step": "7", "run": "x"})
    write_weights(tmp_path / "2", dict(reversed(tensors.items())), {"step": "7", "run": "x"})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    with safetensors.safe_open(tmp_path / "1", "pt") as file:
        assert file.metadata() == {"format": "pt", "step": "7", "run": "x"}


def test_others_may_read_what_is_written(tmp_path: Path) -> None:
    write_weights(tmp_path / WEIGHTS, {"a": torch.ones(1)})
    (tmp_path / "plain").write_text("")
    assert (tmp_path / WEIGHTS).stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_real_model_is_read(model_dir: Callable[[str], Path]) -> None:
    tensors = read_model_weights(model_dir("stories260k"))
    assert sum(tensor.numel() for tensor in tensors.values()) > 200_000


def write_shards(folder: Path) -> dict[str, Tensor]:
    tensors = {name: torch.full((2,), float(i)) for i, name in enumerate("abcd")}
    placed = {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors", "d": "two.safetensors"}
    for shard in set(placed.values()):
        write_weights(folder / shard, {name: tensors[name] for name in placed if placed[name] == shard})
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": placed}))
    return tensors


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    assert equal(write_shards(tmp_path), read_model_weights(tmp_path))


def test_index_and_shards_must_agree(tmp_path: Path) -> None:
    tensors = write_shards(tmp_path)
    write_weights(tmp_path / "two.safetensors", {name: tensors[name] for name in "acd"})  # `a` twice
    with pytest.raises(CheckpointError, match=r"disagree(.*\n)+.*a +two\.safetensors +the shard only"):
        read_model_weights(tmp_path)
    write_weights(tmp_path / "two.safetensors", {"c": tensors["c"]})
    with pytest.raises(CheckpointError, match=r"disagree(.*\n)+.*d +two\.safetensors +the index only"):
        read_model_weights(tmp_path)
    (tmp_path / "two.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"two\.safetensors: a shard is missing"):
        read_model_weights(tmp_path)
    (tmp_path / INDEX).write_text('{"weight_map": ["one.safetensors"]}')
    with pytest.raises(CheckpointError, match="not an index of shards"):
        read_model_weights(tmp_path)


def test_where_tensors_lie_is_known_without_their_values(tmp_path: Path) -> None:
    tensors = write_shards(tmp_path)
    found = find_weights(tmp_path)
    assert {name: each.path.name for name, each in found.items()} == {
        "a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors", "d": "two.safetensors",
    }  # fmt: skip
    assert all(each.shape == (2,) and each.dtype == torch.float32 and each.nbytes == 8 for each in found.values())
    content = found["d"].path.read_bytes()
    assert content[found["d"].begin :][:8] == tensors["d"].numpy().tobytes()
    found["d"].path.write_bytes(content[:-8] + b"\xff" * 8)  # NaN
    assert find_weights(tmp_path) == found
    with pytest.raises(CheckpointError, match="NaN"):
        read_model_weights(tmp_path)


def test_tensors_come_one_by_one_and_lent_ones_share_their_memory(tmp_path: Path) -> None:
    tensors = {name: torch.randn(size) for name, size in {"a": 4, "b": 9, "c": 2, "d": 6}.items()}
    write_weights(tmp_path / WEIGHTS, tensors | {"e": torch.tensor([float("nan")])})
    stored, places, seen = read_layout(tmp_path / WEIGHTS), {}, []
    with pytest.raises(CheckpointError, match="NaN or infinite weights in 1 of 5"):
        for name, tensor in stream_weights(stored, tmp_path, lent={"b", "c", "d"}):
            assert name == "e" or torch.equal(tensor, tensors[name])
            places[name], seen = tensor.data_ptr(), [*seen, name]
    assert seen == ["b", "d", "a", "c", "e"], "the largest first, and what is wrong is told when all have been seen"
    assert places["b"] == places["c"] == places["d"] not in (places["a"], places["e"])


def test_a_file_that_shrinks_under_the_reader(tmp_path: Path) -> None:
    write_weights(tmp_path / WEIGHTS, {"a": torch.ones(4), "b": torch.ones(8)})
    stored = read_layout(tmp_path / WEIGHTS)
    (tmp_path / WEIGHTS).write_bytes((tmp_path / WEIGHTS).read_bytes()[:-20])
    with pytest.raises(CheckpointError, match="became shorter"):
        dict(stream_weights(stored, tmp_path))


def test_equal_is_to_the_last_bit(tmp_path: Path) -> None:
    large = torch.randn(700_000)  # more than is compared at a time
    other = large.clone()
    other[-1] = torch.nextafter(other[-1], torch.tensor(9.0))
    tensors = {"a": large, "b": large.clone(), "c": other, "d": large.view(7, -1).clone(), "e": large.half()}
    write_weights(tmp_path / WEIGHTS, tensors)
    stored = read_layout(tmp_path / WEIGHTS)
    assert [name for name in stored if equal_bytes(stored["a"], stored[name])] == ["a", "b"]


def test_a_tied_tensor_is_saved_once_and_stays_tied(tmp_path: Path) -> None:
    saved, loaded = Tied(), Tied()
    write_weights(tmp_path / WEIGHTS, state_tensors(saved))
    tensors = read_model_weights(tmp_path)
    parameters = [name for name, _ in saved.named_parameters()]
    assert set(tensors) == {*parameters, "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert "embed.weight" in tensors and "head.weight" not in tensors
    load_strict(loaded, tensors, tmp_path)
    assert loaded.head.weight is loaded.embed.weight
    assert equal(state_tensors(loaded), state_tensors(saved))
    assert all(parameter.requires_grad for parameter in loaded.parameters())


def test_everything_that_does_not_fit_is_told_at_once_and_nothing_is_loaded(tmp_path: Path) -> None:
    module = Tied()
    before = {name: tensor.clone() for name, tensor in state_tensors(module).items()}
    tensors = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    del tensors["norm.weight"]
    tensors["norm.wieght"] = torch.zeros(4)
    tensors["norm.bias"] = torch.zeros(3)
    tensors["norm.running_mean"] = torch.zeros(4, dtype=torch.int64)
    tensors["norm.num_batches_tracked"] = torch.zeros((), dtype=torch.int32)
    with pytest.raises(CheckpointError) as caught:
        load_strict(module, tensors, tmp_path)
    rows = [line.split(maxsplit=1) for line in str(caught.value.got).strip().split("\n")[1:]]
    assert [name for name, _ in rows] == [
        "norm.bias",
        "norm.num_batches_tracked",
        "norm.running_mean",
        "norm.weight",
        "norm.wieght",
    ]
    assert rows[0][1].split() == ["float32", "(4,)", "float32", "(3,)"]
    assert "missing" in rows[3][1] and "nothing" in rows[4][1]
    assert str(caught.value).startswith(f"{tmp_path}: 5 of the tensors do not fit") and caught.value.exit_code == 4
    assert equal(state_tensors(module), before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_float_is_cast_to_what_the_module_has(tmp_path: Path, dtype: torch.dtype) -> None:
    module = nn.Linear(2, 2)
    load_strict(module, {"weight": torch.ones(2, 2, dtype=dtype), "bias": torch.zeros(2)}, tmp_path)
    assert module.weight.dtype == torch.float32 and module.weight.eq(1).all()
