"""The shapes that docstrings state, held against every call inside whole models (jaxtyping, beartype).

What is unusual: nothing of this is in the package. Each function is replaced by one that has the same shapes as
annotations, where one letter is one number within a call, and models of every kind then run through all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, TypeCheckError, jaxtyped
from torch import Tensor

from regard.model import Attention, DecodeState, Mask, Model, Transformer
from regard.model import attention as attention_module
from regard.model.cache import KVCache, Step
from regard.model.layers import Block, FeedForward

checked = jaxtyped(typechecker=beartype)
_attend, _queries, _keys_values = attention_module.attend, Attention.queries, Attention.keys_values
_attention, _ffn, _read, _write = Attention.forward, FeedForward.forward, KVCache.read, KVCache.write
_memory, _encode, _decode = Block.project_memory, Transformer.encode, Transformer.decode

Width = Float[Tensor, "B T D"]
Heads = Float[Tensor, "B H T d"]
Keys = Float[Tensor, "B K S d"]


@checked
def attend(q: Heads, k: Keys, v: Keys, mask: Mask, **options: object) -> Heads:
    return _attend(q, k, v, mask, **options)


@checked
def queries(self: Attention, x: Width) -> Heads:
    return _queries(self, x)


@checked
def keys_values(self: Attention, x: Float[Tensor, "B S D"]) -> tuple[Keys, Keys]:
    return _keys_values(self, x)


@checked
def attention(
    self: Attention, q: Heads, k: Float[Tensor, "P K S d"], v: Float[Tensor, "P K S d"], mask: Mask,
    bias: object = None, lies: Int[Tensor, "B S"] | None = None,
) -> Width:  # fmt: skip
    return _attention(self, q, k, v, mask, bias, lies)


@checked
def ffn(self: FeedForward, x: Width) -> Width:
    return _ffn(self, x)


@checked
def project_memory(self: Block, memory: Float[Tensor, "B S D"]) -> tuple[Keys, Keys]:
    return _memory(self, memory)


@checked
def write(self: KVCache, k: Float[Tensor, "B K T d"], v: Float[Tensor, "B K T d"], step: Step) -> None:
    _write(self, k, v, step)


@checked
def read(self: KVCache, slots: int) -> tuple[Keys, Keys]:
    return _read(self, slots)


@checked
def encode(
    self: Transformer, ids: Int[Tensor, "B S"], *, real: Bool[Tensor, "B S"] | None = None,
    types: Int[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S D"]:  # fmt: skip
    return _encode(self, ids, real=real, types=types)


@checked
def decode(
    self: Transformer, ids: Int[Tensor, "B T"], state: DecodeState, *, real: Bool[Tensor, "B T"] | None = None,
    pos: Int[Tensor, "#B T"] | None = None, documents: Int[Tensor, "B T"] | None = None,
) -> Width:  # fmt: skip
    return _decode(self, ids, state, real=real, pos=pos, documents=documents)


@pytest.fixture(autouse=True)
def _shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_module, "attend", attend)
    for kind, functions in {
        Attention: {"queries": queries, "keys_values": keys_values, "forward": attention},
        FeedForward: {"forward": ffn}, Block: {"project_memory": project_memory},
        KVCache: {"write": write, "read": read}, Transformer: {"encode": encode, "decode": decode},
    }.items():  # fmt: skip
        for name, function in functions.items():
            monkeypatch.setattr(kind, name, function)


def test_every_call_has_the_shapes_that_are_stated(model: Model) -> None:
    ids, real = torch.randint(18, (3, 7)), torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    transformer = model.transformer
    memory = transformer.encode(ids, real=real) if transformer.encoder is not None else None
    if transformer.decoder is None:
        return
    mask = None if memory is None else real
    transformer.decode(ids, transformer.start(memory, mask))
    state = transformer.start(memory, mask, capacity=12)
    transformer.decode(ids, state, real=real)
    hidden = transformer.decode(ids[:, :1], state)
    state.reorder(torch.tensor([2, 0]))
    assert transformer.decode(ids[:2, :1], state).size(0) == 2 and hidden.size(0) == 3


def test_a_shape_that_is_not_the_stated_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: dict[str, Callable[..., object]] = {
        "q": lambda q, k, v: (q[..., :-1], k, v), "k": lambda q, k, v: (q, k[:, :, 1:], v),
        "v": lambda q, k, v: (q, k, v[0]),
    }  # fmt: skip
    pos = torch.arange(4)[None]
    q = k = v = torch.randn(2, 4, 4, 8)
    for change in wrong.values():
        with pytest.raises(TypeCheckError):
            attend(*change(q, k, v), Mask(q_pos=pos, k_pos=pos, aligned=True), scale=1.0)
