"""Fault 7: sizes that cannot be built are refused before anything is allocated, with the arithmetic that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from regard.errors import ConfigError
from regard.model import (
    Learned,
    LinearScaling,
    Llama3Scaling,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    YarnScaling,
)

SIZES = {"vocab_size": 100, "d_model": 16, "n_heads": 4, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1}


def refusal(**axes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(**{**SIZES, **axes})
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("value", [0, -1, -(10**12)])
@pytest.mark.parametrize("name", ["vocab_size", "d_model", "n_heads", "d_ff", "n_kv_heads", "d_head", "max_len"])
def test_nothing_and_less_than_nothing(name: str, value: int) -> None:
    message = refusal(**{name: value})
    assert name in message and str(value) in message


@pytest.mark.parametrize("name", ["n_encoder_layers", "n_decoder_layers", "n_token_types"])
def test_negative_counts(name: str) -> None:
    message = refusal(**{name: -3})
    assert name in message and "-3" in message


@pytest.mark.parametrize(
    "name", ["vocab_size", "d_model", "d_ff", "n_encoder_layers", "n_decoder_layers", "n_token_types"]
)
def test_a_million_million(name: str) -> None:
    message = refusal(**{name: 10**12})
    assert "parameters" in message and "TB" in message


def test_a_million_million_learned_positions_or_heads() -> None:
    assert "16,000,000,0" in refusal(positions=Learned(), max_len=10**12, n_encoder_layers=0)
    assert "parameters" in refusal(n_heads=10**12, n_kv_heads=1, d_head=4)
    assert "parameters" in refusal(d_head=10**12)


def test_widths_that_do_not_divide_show_the_division() -> None:
    assert "16 / 3 = 5.33" in refusal(n_heads=3)
    assert "4 / 3 = 1.33" in refusal(n_kv_heads=3)
    assert TransformerConfig(**{**SIZES, "n_heads": 3, "d_head": 6}).head_width == 6


def test_a_model_without_layers() -> None:
    assert "encoder, a decoder, or both" in refusal(n_encoder_layers=0, n_decoder_layers=0)


def test_positions_that_come_in_pairs() -> None:
    assert "even" in refusal(positions=Rope(), d_head=5)
    assert "even" in refusal(d_model=15, n_heads=3)


@pytest.mark.parametrize("scheme", [Relative(buckets=0), Relative(buckets=3), Relative(buckets=32, max_distance=16)])
def test_buckets_that_cannot_hold_their_distances(scheme: Relative) -> None:
    assert "buckets" in refusal(positions=scheme)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["embed_scale", "logit_scale", "attn_scale", "norm_eps"])
def test_numbers_that_are_none(name: str, value: float) -> None:
    message = refusal(**{name: value})
    assert name in message and str(value) in message


@pytest.mark.parametrize(
    ("axes", "named"),
    [
        ({"norm_eps": 0.0}, "norm_eps"),
        ({"norm_eps": -1e-5}, "norm_eps"),
        ({"positions": Rope(theta=0.0)}, "positions.theta"),
        ({"positions": Rope(theta=1.0)}, "positions.theta"),
        ({"positions": Sinusoidal(theta=float("nan"))}, "positions.theta"),
        ({"positions": Rope(fraction=float("nan"))}, "positions.fraction"),
        ({"positions": Rope(fraction=1.5)}, "positions.fraction"),
        ({"positions": Rope(scaling=LinearScaling(factor=0.0))}, "positions.scaling.factor"),
        ({"positions": Rope(scaling=Llama3Scaling(factor=8.0, original_len=-1))}, "positions.scaling.original_len"),
        ({"positions": Rope(scaling=YarnScaling(factor=2.0, original_len=8, growth=float("inf")))}, "scaling.growth"),
        ({"max_len": 10**9 + 1}, "max_len"),
    ],
)
def test_numbers_that_nothing_can_be_computed_with(axes: dict[str, Any], named: str) -> None:
    assert named in refusal(**axes)


def test_windows_and_shares() -> None:
    assert "window.size" in refusal(window=Window(size=0))
    for name in ("dropout", "attn_dropout"):
        for share in (-0.1, 1.0, float("nan")):
            assert name in refusal(**{name: share})
