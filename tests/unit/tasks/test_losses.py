"""The chunked cross entropy is F.cross_entropy, value and gradients; label smoothing is its formula (law 17: laws/)."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.tasks import losses
from regard.tasks.losses import linear_cross_entropy

ROWS = [0, 1, 16, 50]
"""None, one, exactly one chunk, and three chunks and a remainder: a chunk holds 16 rows at least."""
CLOSE = {"rtol": 0.0, "atol": 1e-9}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "CHUNK_BYTES", 1)


def problem(n: int, *, d: int = 6, vocab: int = 11, size: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """hidden (n, d), weight (vocab, d), bias (vocab,), all wanting gradients in float64, and targets (n,)."""
    leaves = [
        (torch.randn(*shape, dtype=torch.float64) * size).requires_grad_() for shape in ((n, d), (vocab, d), (vocab,))
    ]
    return (*leaves, torch.randint(vocab, (n,)))


def plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight, bias), targets, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("biased", [True, False])
def test_value_and_gradients_are_those_of_cross_entropy(n: int, smoothing: float, biased: bool) -> None:
    hidden, weight, bias, targets = problem(n)
    leaves = (hidden, weight, bias) if biased else (hidden, weight)
    ours = linear_cross_entropy(hidden, weight, targets, bias=bias if biased else None, smoothing=smoothing)
    theirs = plain(hidden, weight, bias if biased else None, targets, smoothing)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    upstream = torch.tensor(-2.5, dtype=torch.float64)  # whatever is done with the loss afterwards
    for mine, its in zip(
        torch.autograd.grad(ours, leaves, upstream), torch.autograd.grad(theirs, leaves, upstream), strict=True
    ):
        torch.testing.assert_close(mine, its, **CLOSE)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(0, 40), d=st.integers(1, 5), vocab=st.integers(1, 9), smoothing=st.floats(0, 1))
def test_every_shape(n: int, d: int, vocab: int, smoothing: float) -> None:
    hidden, weight, bias, targets = problem(n, d=d, vocab=vocab)
    ours = linear_cross_entropy(hidden, weight, targets, bias=bias, smoothing=smoothing)
    theirs = plain(hidden, weight, bias, targets, smoothing)
    leaves = (hidden, weight, bias)
    for mine, its in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        torch.testing.assert_close(mine, its, **CLOSE)


def test_gradcheck() -> None:
    hidden, weight, bias, targets = problem(18, d=3, vocab=5)
    assert torch.autograd.gradcheck(
        lambda h, w, b: linear_cross_entropy(h, w, targets, bias=b, smoothing=0.1), (hidden, weight, bias)
    )


@pytest.mark.parametrize("wanted", [(), (0,), (1,), (2,)])
def test_only_the_gradients_that_are_wanted(wanted: tuple[int, ...]) -> None:
    *leaves, targets = problem(20)
    given_ = [leaf if i in wanted else leaf.detach() for i, leaf in enumerate(leaves)]
    hidden, weight, bias = given_
    ours = linear_cross_entropy(hidden, weight, targets, bias=bias, smoothing=0.1)
    theirs = plain(hidden, weight, bias, targets, 0.1)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    assert ours.requires_grad == bool(wanted)
    for i in wanted:
        (mine,), (its,) = (torch.autograd.grad(loss, given_[i]) for loss in (ours, theirs))
        torch.testing.assert_close(mine, its, **CLOSE)


def test_without_gradients_nothing_is_kept() -> None:
    hidden, weight, bias, targets = problem(20)
    with torch.no_grad():
        loss = linear_cross_entropy(hidden, weight, targets, bias=bias)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, plain(hidden, weight, bias, targets, 0.0).detach(), **CLOSE)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_extreme_logits_stay_finite(smoothing: float) -> None:
    """Logits of some 1e4, where the target's probability underflows: the loss is the difference of two logits."""
    hidden, weight, bias, targets = (t.detach().float() if t.is_floating_point() else t for t in problem(40, size=60.0))
    assert F.linear(hidden, weight, bias).abs().max() > 1e4
    leaves = [t.requires_grad_() for t in (hidden, weight, bias)]
    ours = linear_cross_entropy(hidden, weight, targets, bias=bias, smoothing=smoothing)
    theirs = plain(*(t.double() for t in leaves), targets, smoothing)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=0.0)
    for mine, its in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-2 * float(its.abs().max()))


@pytest.mark.parametrize("biased", [True, False])
def test_under_bf16_autocast(biased: bool) -> None:
    """Matrix products in bf16, sums in float32, and gradients in the dtype of what they are of."""
    hidden, weight, bias, targets = (
        t.detach().float() if t.is_floating_point() else t for t in problem(100, d=32, vocab=50, size=0.5)
    )
    leaves = [t.requires_grad_() for t in ((hidden, weight, bias) if biased else (hidden, weight))]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = linear_cross_entropy(hidden, weight, targets, bias=bias if biased else None, smoothing=0.1)
    theirs = plain(hidden, weight, bias if biased else None, targets, 0.1)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0.01, atol=0.0)
    for mine, its in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        assert mine.dtype == torch.float32
        assert (mine - its).norm() < 0.02 * its.norm()


def test_a_bfloat16_model_sums_in_float32() -> None:
    *leaves, targets = problem(200, vocab=50)
    hidden, weight, bias = (leaf.detach().bfloat16() for leaf in leaves)
    ours = linear_cross_entropy(hidden, weight, targets, bias=bias)
    theirs = plain(hidden.float(), weight.float(), bias.float(), targets, 0.0)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0.01, atol=0.0)


@pytest.mark.parametrize("eps", [0.1, 0.3])
def test_law_17_smoothing_is_the_closed_form_on_five_classes(eps: float) -> None:
    """The target gets 1 - eps + eps / 5, each other class eps / 5; written out, class by class."""
    scores, target = [2.0, -1.0, 0.5, 0.0, 1.0], 2
    log_z = math.log(sum(math.exp(score) for score in scores))
    wanted = [eps / 5 + (1 - eps) * (i == target) for i in range(5)]
    expected = -sum(w * (score - log_z) for w, score in zip(wanted, scores, strict=True))
    hidden, weight = torch.eye(1, dtype=torch.float64), torch.tensor(scores, dtype=torch.float64)[:, None]
    ours = linear_cross_entropy(hidden, weight, torch.tensor([target]), smoothing=eps)
    assert float(ours) == pytest.approx(expected, abs=1e-12)
