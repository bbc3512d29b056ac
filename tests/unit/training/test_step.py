"""One forward, one division: what `add_gradients` leaves in .grad, and in which precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.data import Batch, collate
from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks.translation import TranslationTask
from regard.training.step import TrainStep, add_gradients, world_size


def model() -> Model:
    torch.manual_seed(2)
    config = TransformerConfig(vocab_size=19, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, n_decoder_layers=1)
    return make_language_model(config)


def batch(rows: int = 3) -> Batch:
    ids = [list(range(4, 7 + i)) for i in range(rows)]
    return collate(ids, [row[::-1] for row in ids], pad_id=0, bos_id=1, eos_id=2)


def gradients(step: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in step.named_parameters() if p.grad is not None}


def test_the_gradient_is_that_of_the_mean_and_the_sums_come_back() -> None:
    step = TrainStep(model(), TranslationTask(0.1))
    loss, count = step(batch())
    total, everywhere = add_gradients(step, [batch()])
    assert everywhere == count == 15 and total == pytest.approx(float(loss.detach()))
    expected = torch.autograd.grad(loss / count, list(step.parameters()))
    torch.testing.assert_close([p.grad for p in step.parameters()], list(expected))


def test_gradients_are_added_to_those_already_there() -> None:
    step = TrainStep(model(), TranslationTask())
    add_gradients(step, [batch()])
    once = gradients(step)
    add_gradients(step, [batch()])
    torch.testing.assert_close(gradients(step), {name: 2 * g for name, g in once.items()})


@pytest.mark.parametrize("micro_batches", [[], [batch(0)]], ids=["no batch", "an empty batch"])
def test_of_nothing_there_is_no_gradient_and_no_division_by_zero(micro_batches: list[Batch]) -> None:
    step = TrainStep(model(), TranslationTask())
    assert add_gradients(step, micro_batches) == (0.0, 1)
    assert gradients(step) == {}


def test_frozen_parameters_stay_out() -> None:
    step = TrainStep(model(), TranslationTask())
    step.model.transformer.tokens.weight.requires_grad_(False)
    add_gradients(step, [batch()])
    assert len(gradients(step)) == len(list(step.parameters())) - 1


def test_bfloat16_computes_but_weights_and_gradients_stay_float32() -> None:
    full, half = (TrainStep(model(), TranslationTask(0.1), dtype) for dtype in (torch.float32, torch.bfloat16))
    dtypes = []
    half.model.transformer.decoder.layers[0].ffn.up.register_forward_hook(lambda *a: dtypes.append(a[-1].dtype))
    (total, _), (rough, _) = add_gradients(full, [batch()]), add_gradients(half, [batch()])
    assert dtypes == [torch.bfloat16]
    assert rough != total and rough == pytest.approx(total, rel=0.02)
    for name, gradient in gradients(half).items():
        exact = gradients(full)[name]
        assert gradient.dtype == torch.float32
        if not name.endswith("k.bias"):  # which softmax cannot feel: its gradient is rounding and nothing else
            assert (gradient - exact).norm() < 0.2 * exact.norm(), name


def test_whatever_wraps_the_step_sees_every_forward() -> None:
    """The loop calls the module it was given and nothing inside it (architecture, decision 6)."""

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.calls = TrainStep(model(), TranslationTask()), 0

        def forward(self, batch: Batch) -> tuple[Tensor, int]:
            self.calls += 1
            return self.inner(batch)

    wrapper = Wrapper()
    add_gradients(wrapper, batch().split(3))
    assert wrapper.calls == 3 and len(gradients(wrapper)) == len(list(wrapper.parameters()))


def test_alone_there_is_one_process() -> None:
    assert world_size() == 1
