"""R-Drop: the divergence is the formula's, its gradient is right in blocks too, and the loss is what the paper adds."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import collate
from regard.model import TransformerConfig, make_language_model
from regard.tasks import rdrop
from regard.tasks.rdrop import symmetric_divergence
from regard.tasks.translation import TranslationTask


def plainly(one: Tensor, two: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    p, q = ((side @ weight.T + (0 if bias is None else bias)).log_softmax(-1) for side in (one, two))
    kl = F.kl_div(q, p, reduction="sum", log_target=True), F.kl_div(p, q, reduction="sum", log_target=True)
    return kl[0] + kl[1]


@pytest.mark.parametrize("biased", [False, True])
def test_divergence_and_gradients_by_blocks_are_the_formulas(biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdrop, "CHUNK_BYTES", 1)
    double = {"dtype": torch.float64, "requires_grad": True}
    one, two, weight = torch.randn(50, 6, **double), torch.randn(50, 6, **double), torch.randn(11, 6, **double)
    bias = torch.randn(11, **double) if biased else None
    given = [t for t in (one, two, weight, bias) if t is not None]
    ours, theirs = symmetric_divergence(one, two, weight, bias=bias), plainly(one, two, weight, bias)
    torch.testing.assert_close(ours, theirs)
    for mine, right in zip(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given), strict=True):
        torch.testing.assert_close(mine, right)
    assert symmetric_divergence(one, one, weight, bias=bias) == 0


def loss(alpha: float, dropout: float, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    config = TransformerConfig(
        vocab_size=23, d_model=12, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1, dropout=dropout
    )
    model, task = make_language_model(config).double().train(), TranslationTask(0.1, alpha)
    batch = collate([[5, 6], [7, 8, 9]], [[4, 5, 6, 7], [9]], pad_id=0, bos_id=1, eos_id=2)
    torch.manual_seed(seed)
    return task.loss(model, task.hidden(model, batch), batch)


def test_without_dropout_it_changes_nothing() -> None:
    torch.testing.assert_close(loss(5.0, 0.0), loss(0.0, 0.0))


def test_with_dropout_it_grows_by_alpha_times_the_divergence_of_the_two_passes() -> None:
    small, large, larger = (loss(alpha, 0.3) for alpha in (1e-9, 2.0, 6.0))
    assert large > small
    torch.testing.assert_close((larger - small) / (large - small), torch.tensor(3.0, dtype=torch.float64))
