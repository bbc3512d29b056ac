"""Rewritten weights: the same logits, and the permutation is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.hub.relayout import fold_scales, relayouts, split_positions
from regard.hub.weights import load_strict, state_tensors
from regard.model import Model, Rope, Sinusoidal, TransformerConfig, make_model

BOTH = {"n_encoder_layers": 2, "n_decoder_layers": 2}
KINDS: list[dict[str, Any]] = [
    {**BOTH, "norm_order": "pre", "embed_scale": 5.1},
    {**BOTH, "norm_order": "post", "tie_embeddings": False, "head_bias": True, "logit_scale": 0.3},
    {**BOTH, "decoder_vocab_size": 31, "norm_order": "pre", "norm": "rms", "gated_ffn": True, "bias": "none"},
    {"n_decoder_layers": 2, "norm_order": "parallel", "n_kv_heads": 1, "qk_norm": True, "logit_scale": 2.0},
    {"n_decoder_layers": 1, "d_head": 6, "embed_norm": True, "bias": "qkv"},
]


def drawn(config: TransformerConfig) -> Model:
    """A model in which every number matters: norms and biases are random too."""
    model = make_model(config, "language-model").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            nn.init.normal_(parameter, std=0.3 if parameter.ndim > 1 else 0.5)
            if name.endswith("norm.weight"):
                parameter += 1
    return model


def logits(model: Model) -> Tensor:
    torch.manual_seed(1)
    src, ids = torch.randint(0, 31, (2, 9)), torch.randint(0, 31, (2, 7))
    real = torch.arange(9) < torch.tensor([[9], [5]])
    transformer = model.transformer
    memory = transformer.encode(src, real=real) if transformer.encoder else None
    state = transformer.start(memory, None if memory is None else real)
    with torch.no_grad():
        return model.logits(transformer.decode(ids, state))


def rebuilt(config: TransformerConfig, tensors: dict[str, Tensor], tmp_path: Any) -> Model:
    model = make_model(config, "language-model").eval()
    load_strict(model, tensors, tmp_path)
    return model


@pytest.mark.parametrize("axes", KINDS, ids=lambda axes: "-".join(map(str, axes)))
def test_every_relayout_computes_the_same(axes: dict[str, Any], tmp_path: Any) -> None:
    model = drawn(TransformerConfig(**{"vocab_size": 33, "d_model": 16, "n_heads": 2, "d_ff": 24, **axes}))
    expected, seen = logits(model), set()
    assert expected.std() > 0.3
    for change in relayouts(model.config, "language-model"):
        config, tensors = change(model.config, state_tensors(model))
        seen.add(config)
        assert (logits(rebuilt(config, tensors, tmp_path)) - expected).abs().max() < 1e-5
    assert len(seen) == 4 and replace(model.config, positions=Sinusoidal(layout="split")) in seen
    assert any(config.embed_scale == 4.0 and config.logit_scale == 1.0 for config in seen)


def test_positions_alone_cannot_be_split(tmp_path: Any) -> None:
    """Leave a single tensor as it was, and the model is another one."""
    model = drawn(TransformerConfig(vocab_size=33, d_model=16, n_heads=2, d_ff=24, norm_order="pre", **BOTH))
    before, expected = state_tensors(model), logits(model)
    config, tensors = split_positions(model.config, before)
    moved = [name for name in before if not torch.equal(before[name], tensors[name])]
    assert len(moved) == len(before) - sum(
        name.split(".")[-2] in ("q", "k", "v", "up") and name.endswith("bias") for name in before
    )
    for name in moved:
        forgotten = rebuilt(config, {**tensors, name: before[name]}, tmp_path)
        assert (logits(forgotten) - expected).abs().max() > 1e-3, name
    _, scaled = fold_scales(replace(model.config, embed_scale=3.0), before)
    assert sorted(name for name in before if not torch.equal(before[name], scaled[name])) == [
        "transformer.decoder.norm.bias", "transformer.decoder.norm.weight", "transformer.tokens.weight",
    ]  # fmt: skip


def test_what_is_not_a_language_model_or_not_sinusoidal_keeps_its_order() -> None:
    config = TransformerConfig(vocab_size=33, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1)
    assert len(list(relayouts(config, "pooler"))) == len(list(relayouts(config, "none"))) == 1
    rope = replace(config, n_encoder_layers=0, n_decoder_layers=1, positions=Rope())
    assert len(list(relayouts(rope, "language-model"))) == 2
