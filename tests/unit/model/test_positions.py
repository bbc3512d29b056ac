"""Rotary angles are computed once in a pass, whatever it computes in; what they mean, the laws say."""

from __future__ import annotations

import pytest
import torch

import regard.model.positions as positions_module
from regard.model import LinearScaling, Rope, watch


def test_the_layers_of_a_pass_share_their_angles(build, full, monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = build(n_decoder_layers=3, positions=Rope()), []
    real = positions_module.frequencies
    monkeypatch.setattr(positions_module, "frequencies", lambda *a: made.append(a) or real(*a))
    full(model, torch.randint(19, (2, 7)))
    assert len(made) == 1


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("kind", ["autocast", "bfloat16", "float64"])
def test_queries_and_keys_keep_the_type_they_are_computed_in(build, full, fraction: float, kind: str) -> None:
    """With a norm of queries and keys before; a warning of torch's, of two types in one kernel, would be an error."""
    positions = Rope(fraction=fraction, scaling=LinearScaling(factor=2.0))
    model = build(n_decoder_layers=2, positions=positions, qk_norm=True)
    dtype = torch.float64 if kind == "float64" else torch.bfloat16
    model = model if kind == "autocast" else model.to(dtype)
    mixed = torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "autocast")
    with torch.no_grad(), mixed, watch(model, "*self_attn.q") as seen:
        full(model, torch.randint(19, (2, 7)))
    assert {x.dtype for x in seen.values()} == {dtype}


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_only_the_turned_part_of_a_head_turns_and_no_length_changes(build, fraction: float) -> None:
    model = build(n_decoder_layers=1, positions=Rope(theta=50.0, fraction=fraction), n_heads=1)
    x = torch.randn(2, 1, 9, 16, dtype=torch.float64)
    turned = model.transformer.decoder.positions.rotation(torch.arange(9)[None], x)(x)
    width = int(16 * fraction)
    assert torch.equal(turned[..., width:], x[..., width:]) and torch.equal(turned[:, :, 0], x[:, :, 0])
    assert (turned[:, :, 1:, :width] != x[:, :, 1:, :width]).all()
    pairs = turned[..., :width].unflatten(-1, (2, -1)).norm(dim=-2)
    torch.testing.assert_close(pairs, x[..., :width].unflatten(-1, (2, -1)).norm(dim=-2))
