"""Muon orthogonalises, matches torch's, and resumes to the bit; a schedule is a share of the peak with known ends."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.model import TransformerConfig, make_language_model
from regard.training.optim import Muon, lr_factor, make_optimizers, orthogonalise, set_lr
from regard.training.recipe import OptimRecipe, ScheduleRecipe

SHAPES = {"tall": (48, 16), "wide": (16, 48), "square": (24, 24)}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_orthogonalise_brings_singular_values_near_one(shape: tuple[int, int], scale: float) -> None:
    """Whatever their size; and the directions stay those of the matrix: U f(S) V^T with f > 0."""
    u, _, vt = torch.linalg.svd(torch.randn(5, *shape), full_matrices=False)
    sizes = torch.linspace(1, 20, min(shape))
    matrices = u * (sizes * scale) @ vt
    ours = orthogonalise(matrices)
    values = torch.linalg.svdvals(ours)
    assert values.min() > 0.65 and values.max() < 1.25
    seen_from_them = u.mT @ ours @ vt.mT
    torch.testing.assert_close(seen_from_them.diagonal(dim1=1, dim2=2).sort().values, values.sort().values)
    off = seen_from_them - torch.diag_embed(seen_from_them.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-4


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_orthogonalise_takes_each_matrix_of_a_stack_alone(shape: tuple[int, int]) -> None:
    matrices = torch.randn(4, *shape) * torch.tensor([1e-3, 1.0, 10.0, 1e3])[:, None, None]
    one_by_one = torch.cat([orthogonalise(matrix[None]) for matrix in matrices])
    torch.testing.assert_close(orthogonalise(matrices), one_by_one, rtol=1e-4, atol=1e-5)


def test_orthogonalise_of_nothing_is_nothing() -> None:
    assert torch.equal(orthogonalise(torch.zeros(2, 3, 4)), torch.zeros(2, 3, 4))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_muon_moves_as_torch_muon_does(shape: tuple[int, int], weight_decay: float) -> None:
    """Over five steps with the same gradients; torch orthogonalises in bfloat16, so to a percent or two."""
    begun = torch.randn(shape)
    ours, theirs = nn.Parameter(begun.clone()), nn.Parameter(begun.clone())
    muon = Muon([ours], lr=0.02, momentum=0.9, weight_decay=weight_decay)
    reference = torch.optim.Muon(
        [theirs], lr=0.02, momentum=0.9, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"
    )
    trend = torch.randn(shape)
    for _ in range(5):
        ours.grad = trend + torch.randn(shape)
        theirs.grad = ours.grad.clone()
        muon.step()
        reference.step()
    assert (ours - theirs).norm() < 0.02 * (theirs - begun).norm()


@pytest.mark.parametrize("shape", [(3, 64, 64), (2, 32, 128), (2, 128, 32)])
def test_bfloat16_is_precision_enough_to_orthogonalise_in(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape)
    full, half = orthogonalise(matrices), orthogonalise(matrices.bfloat16()).float()
    assert (full - half).norm() < 0.05 * full.norm()
    values = torch.linalg.svdvals(half)
    assert values.quantile(0.05) > 0.3 and values.max() < 1.4, "as near to 1 as the quintic takes them in float32"


def test_muon_stacks_equal_shapes_and_leaves_alone_what_has_no_gradient() -> None:
    shapes = [(6, 4), (4, 6), (6, 4), (6, 4)]
    together = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    alone = [nn.Parameter(p.detach().clone()) for p in together]
    without = together[3].detach().clone()
    optimizers = [Muon(together, lr=0.1), *(Muon([p], lr=0.1) for p in alone)]
    for p, q in list(zip(together, alone, strict=True))[:3]:
        p.grad = torch.randn(p.shape)
        q.grad = p.grad.clone()
    for optimizer in optimizers:
        optimizer.step()
    for p, q in zip(together, alone, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    assert torch.equal(together[3], without) and not torch.equal(together[0], alone[2])


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_a_resumed_optimizer_continues_to_the_bit(kind: str) -> None:
    """Three steps, state_dict through fresh optimizers, three more: as six in one go."""
    recipe = OptimRecipe(kind=kind, weight_decay=0.01)
    whole, halved = _model(), _model()
    first = make_optimizers(whole, recipe)
    for step in range(6):
        _update(whole, first, step)
    before = make_optimizers(halved, recipe)
    for step in range(3):
        _update(halved, before, step)
    resumed = copy.deepcopy(halved)
    after = make_optimizers(resumed, recipe)
    for old, new in zip(before, after, strict=True):
        new.load_state_dict(copy.deepcopy(old.state_dict()))
    for step in range(3, 6):
        _update(resumed, after, step)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
        assert not torch.equal(value, halved.state_dict()[name]), name


def test_muon_has_the_matrices_of_the_blocks_and_adamw_the_rest_each_once() -> None:
    model = _model()
    adamw, muon = make_optimizers(model, OptimRecipe(weight_decay=0.1))
    names = {id(p): name for name, p in model.named_parameters()}
    by_muon = [names[id(p)] for group in muon.param_groups for p in group["params"]]
    by_adamw = [[names[id(p)] for p in group["params"]] for group in adamw.param_groups]
    assert all(".layers." in name and name.endswith("weight") for name in by_muon)
    assert set(by_adamw[0]) == {"transformer.tokens.weight", "head.weight"}
    assert all(name.endswith("bias") or "norm" in name for name in by_adamw[1])
    assert sorted([*by_muon, *by_adamw[0], *by_adamw[1]]) == sorted(names.values())
    assert [group["weight_decay"] for group in adamw.param_groups] == [0.1, 0.0]


def test_adamw_alone_takes_all_and_what_is_frozen_goes_to_nobody() -> None:
    model = _model()
    frozen = model.transformer.tokens.weight.requires_grad_(False)
    (adamw,) = make_optimizers(model, OptimRecipe(kind="adamw"))
    held = [p for group in adamw.param_groups for p in group["params"]]
    assert len(held) == len(list(model.parameters())) - 1 and all(p is not frozen for p in held)


def test_set_lr_gives_each_group_its_share_of_its_own_peak() -> None:
    optimizers = make_optimizers(_model(), OptimRecipe(lr=0.002, matrix_lr=0.01))
    for factor in (0.5, 0.25, 1.0):  # of the peak each time, not of the last rate
        assert set_lr(optimizers, factor) == pytest.approx(0.002 * factor)
        rates = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
        assert rates == pytest.approx([0.002 * factor, 0.002 * factor, 0.01 * factor])


KINDS = st.sampled_from(["wsd", "cosine", "inverse_sqrt"])


@settings(max_examples=100, deadline=None)
@given(kind=KINDS, warmup=st.integers(0, 50), spare=st.integers(0, 200), decay=st.floats(0.01, 0.5))
def test_a_schedule_warms_up_to_its_peak_and_then_only_falls(kind, warmup: int, spare: int, decay: float) -> None:
    schedule, total = ScheduleRecipe(kind=kind, warmup=warmup, decay=decay), 2 * warmup + spare + 2
    factors = [lr_factor(step, schedule, total) for step in range(total)]
    top = max(0, warmup - 1)
    assert factors[top] == pytest.approx(1.0) and all(0 < factor <= 1 for factor in factors)
    assert all(a < b for a, b in itertools.pairwise(factors[: top + 1]))
    assert all(a >= b for a, b in itertools.pairwise(factors[top:]))
    assert all(factor == pytest.approx((step + 1) / warmup) for step, factor in enumerate(factors[:warmup]))


@pytest.mark.parametrize("kind", ["wsd", "cosine"])
def test_a_schedule_with_an_end_ends_near_zero(kind: str) -> None:
    schedule = ScheduleRecipe(kind=kind, warmup=10, decay=0.5)
    factors = [lr_factor(step, schedule, 1000) for step in range(1001)]
    assert 0 < factors[999] < 0.01 and factors[1000] == pytest.approx(0.0, abs=1e-12)


def test_wsd_stays_at_its_peak_until_the_decay_and_then_falls_evenly() -> None:
    schedule = ScheduleRecipe(kind="wsd", warmup=10, decay=0.25)
    factors = [lr_factor(step, schedule, 400) for step in range(400)]
    assert set(factors[9:301]) == {1.0}
    assert factors[300:] == pytest.approx([1 - i / 100 for i in range(100)])


def test_inverse_sqrt_falls_as_its_name_says() -> None:
    schedule = ScheduleRecipe(kind="inverse_sqrt", warmup=100)
    assert [lr_factor(100 * n * n - 1, schedule, None) for n in (1, 2, 3, 10)] == pytest.approx(
        [1, 1 / 2, 1 / 3, 1 / 10]
    )


@pytest.mark.parametrize("kind", ["wsd", "cosine"])
def test_without_an_end_in_sight_nothing_decays(kind: str) -> None:
    schedule = ScheduleRecipe(kind=kind, warmup=10)
    assert lr_factor(4, schedule, None) == 0.5
    assert {lr_factor(step, schedule, None) for step in range(9, 10_000, 97)} == {1.0}


def _model() -> nn.Module:
    torch.manual_seed(3)
    config = TransformerConfig(
        vocab_size=11, d_model=8, n_heads=2, d_ff=12, n_encoder_layers=1, n_decoder_layers=1,
        tie_embeddings=False, head_bias=True,
    )  # fmt: skip
    return make_language_model(config)


def _update(model: nn.Module, optimizers: list[torch.optim.Optimizer], step: int) -> None:
    """One update with random gradients that are a function of the step."""
    generator = torch.Generator().manual_seed(step)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator)
    set_lr(optimizers, 1 / (step + 1))
    for optimizer in optimizers:
        optimizer.step()
