"""The configuration counts what it builds, and says what it is."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from regard.model import (
    Alibi,
    Learned,
    NoPositions,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    make_language_model,
)

VARIANTS = [
    {},
    {"norm": "rms", "norm_order": "pre", "n_kv_heads": 1, "gated_ffn": True, "bias": "none", "tie_embeddings": False},
    {"embed_norm": True, "n_token_types": 2, "head_bias": True, "d_head": 6, "window": Window(size=3)},
    {"norm_order": "pre", "gated_ffn": True, "embed_norm": True, "n_kv_heads": 2},
]
SCHEMES = [NoPositions(), Sinusoidal(), Learned(), Rope(), Alibi(), Relative(buckets=6)]


@pytest.mark.parametrize("layers", [(2, 0), (0, 3), (1, 2)], ids=["encoder", "decoder", "both"])
@pytest.mark.parametrize("positions", SCHEMES, ids=lambda scheme: scheme.kind)
@pytest.mark.parametrize("axes", VARIANTS)
def test_n_parameters_is_what_is_built(layers: tuple[int, int], positions, axes: dict) -> None:
    config = TransformerConfig(
        vocab_size=13, d_model=16, n_heads=4, d_ff=24, max_len=9, positions=positions,
        n_encoder_layers=layers[0], n_decoder_layers=layers[1], **axes,
    )  # fmt: skip
    with torch.device("meta"):
        model = make_language_model(config)
    assert config.n_parameters == sum(parameter.numel() for parameter in model.parameters())
    assert not list(model.buffers())


def test_counting_builds_nothing() -> None:
    config = TransformerConfig(vocab_size=128_256, d_model=16_384, n_heads=128, d_ff=53_248, n_decoder_layers=126,
                               n_kv_heads=8, positions=Rope(), norm="rms", norm_order="pre", gated_ffn=True,
                               bias="none", tie_embeddings=False)  # fmt: skip
    assert round(config.n_parameters / 1e9) == 406  # Llama 3.1 405B's published sizes


def test_defaults_are_the_chapters() -> None:
    config = TransformerConfig(vocab_size=10, d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1)
    assert (config.norm, config.norm_order, config.activation) == ("layer", "post", "relu")
    assert config.scale == 8**-0.5 and config.kv_heads == 2 and config.head_width == 8
    assert config.positions == Sinusoidal(layout="interleaved", theta=10_000.0)


def test_a_config_is_frozen_and_keyword_only() -> None:
    config = TransformerConfig(vocab_size=10, d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3
    with pytest.raises(TypeError):
        TransformerConfig(10, 16, 2, 32)
    assert dataclasses.replace(config, d_ff=8).d_ff == 8
