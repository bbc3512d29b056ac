"""Dropout: the share it drops, what it keeps, and that it is nothing outside training."""

from __future__ import annotations

import pytest
import torch

from regard.model.layers import Dropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("shape", [(1000, 101), (7, 3, 5000)])
def test_dropout_drops_its_share_and_keeps_the_mean(share: float, shape: tuple[int, ...]) -> None:
    x = torch.full(shape, 2.0, requires_grad=True)
    out = Dropout(share).train()(x)
    kept = out != 0
    assert 1 - kept.double().mean() == pytest.approx(share, abs=0.006)  # rounded to 1/256, over 100,000 elements
    assert out.detach().mean() == pytest.approx(2.0, abs=0.03)
    assert len(out[kept].unique()) == 1
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient != 0, kept)


def test_dropout_is_drawn_anew_and_by_the_seed() -> None:
    x, dropout = torch.ones(1000), Dropout(0.5).train()
    torch.manual_seed(5)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(5)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


def test_dropout_is_nothing_in_evaluation_or_without_a_share() -> None:
    x = torch.ones(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
