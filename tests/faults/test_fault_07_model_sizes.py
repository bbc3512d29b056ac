"""Fault 7: sizes that cannot be built are refused before anything is allocated, with the arithmetic that shows it."""

from __future__ import annotations

import pytest

from regard.errors import ConfigError
from regard.model import Learned, Relative, Rope, TransformerConfig, Window

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


def test_windows_and_shares() -> None:
    assert "window.size" in refusal(window=Window(size=0))
    for name in ("dropout", "attn_dropout"):
        for share in (-0.1, 1.0, float("nan")):
            assert name in refusal(**{name: share})
