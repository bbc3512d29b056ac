"""Products in every form, by every way, are the product; and what they end with is the activation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.model.layers import ACTIVATIONS
from regard.runtime import rows
from regard.runtime.products import FastLinear, int8_linear, pack, packed_linear, quantise_rows, slower_here
from regard.runtime.rows import Matrix, few_queries_attend, few_rows_times, int8_rows_times

compiled = pytest.mark.skipif(rows.absence() is not None, reason="there are no kernels here")
M, K, N = 7, 96, 50


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@compiled
@pytest.mark.parametrize("name", [None, *ACTIVATIONS])
@pytest.mark.parametrize("rows", range(1, M + 1))
def test_few_rows(name: str | None, rows: int) -> None:
    x, w, bias = numbers(rows, K), numbers(N, K, seed=1) / math.sqrt(K), numbers(N, seed=2)
    expected = torch.nn.functional.linear(x, w, bias)
    expected = ACTIVATIONS[name](expected) if name else expected
    layer = FastLinear(w, bias, few=M)
    assert (layer(x, name) - expected).abs().max() < 1e-5
    assert (FastLinear(w, bias)(x, name) - expected).abs().max() < 1e-5, "by many rows' way"


@compiled
def test_bfloat16_is_summed_in_float32_and_rounded_once() -> None:
    x, w = numbers(3, K).bfloat16(), numbers(N, K, seed=1).bfloat16()
    exact = x.double() @ w.double().T
    assert torch.equal(few_rows_times(x, Matrix(w), torch.bfloat16), exact.float().bfloat16())
    assert (few_rows_times(x, Matrix(w), torch.float32) - exact).abs().max() < 1e-4


@compiled
def test_rounding_to_bfloat16_is_to_nearest_even_and_keeps_what_is_no_number() -> None:
    bits = np.arange(0, 2**32, 9_973, dtype=np.uint64).astype(np.uint32)
    values = torch.from_numpy(bits.view(np.float32).copy())[None]  # (1, many), infinities and NaNs among them
    ours = few_rows_times(values.T.contiguous()[:, :1], Matrix(torch.ones(1, 1)), torch.bfloat16)[:, 0]
    theirs = values[0].bfloat16()
    tiny = values[0].abs() < 1.2e-38  # not every processor keeps numbers below the normal ones
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert torch.equal(ours[~ours.isnan() & ~tiny], theirs[~ours.isnan() & ~tiny])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_is_plain(dtype: torch.dtype) -> None:
    x, w, bias = numbers(40, K).to(dtype), numbers(N, K, seed=1).to(dtype), numbers(N, seed=2).to(dtype)
    packed = pack(w)
    if packed is None:
        pytest.skip("this torch packs nothing")
    expected = torch.nn.functional.linear(x.float(), w.float(), bias.float())
    assert (packed_linear(x, packed, bias).float() - expected).abs().max() < (1e-4 if dtype == torch.float32 else 0.3)
    assert torch.equal(packed.to_dense(), w)


def test_rounding_rows_to_int8_loses_a_254th_at_most() -> None:
    w = numbers(N, K) * torch.logspace(-6, 6, N)[:, None]
    whole, scale = quantise_rows(w)
    assert ((whole * scale[:, None] - w).abs() <= w.abs().amax(1, keepdim=True) / 253).all()
    assert whole.abs().amax(1).eq(127).all()
    zero, one = quantise_rows(torch.zeros(2, K))
    assert not zero.any() and one.isfinite().all()


@compiled
def test_the_two_ways_of_int8_agree_bit_by_bit_of_the_integers() -> None:
    x, bias = numbers(40, K) * torch.logspace(-3, 3, 40)[:, None], numbers(N, seed=2)
    whole, scale = quantise_rows(numbers(N, K, seed=1))
    ours, plain = int8_rows_times(x, whole, Matrix(whole, scale, bias)), int8_linear(x, whole, scale, bias)
    exact = x.double() @ (whole.double() * scale[:, None]).T + bias
    spread = exact.std(1, keepdim=True)
    assert ((ours - plain).abs() <= 1e-5 * spread + 1e-5).float().mean() > 0.99, "a tie may be rounded either way"
    assert ((ours - exact).abs() / spread).max() < 0.05


@pytest.mark.parametrize("form", ["bf16", "int8"])
@pytest.mark.parametrize("rows", [1, 40])
def test_widened_is_the_product_of_what_the_numbers_stand_for(form: str, rows: int) -> None:
    """Where a CPU has no units for a form: W in that form, the product in float32."""
    x, w, bias = numbers(rows, K), numbers(N, K, seed=1), numbers(N, seed=2)
    if form == "int8":
        whole, scale = quantise_rows(w)
        layer, w = FastLinear(whole, bias, scale=scale, widened=True), whole * scale[:, None]
    else:
        x, w = x.bfloat16(), w.bfloat16()
        layer = FastLinear(w, bias.bfloat16(), widened=True)
        bias = bias.bfloat16().float()
    expected = ACTIVATIONS["silu"](x.float() @ w.float().T + bias)
    assert torch.equal(layer(x, "silu"), expected.to(x.dtype))
    assert layer.weight is not None and layer.weight.element_size() <= 2, "no copy in float32 is kept"


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
def test_few_queries(dtype: torch.dtype, heads: tuple[int, int]) -> None:
    q, k, v = (numbers(3, n, t, 16, seed=n + t).to(dtype) for n, t in ((heads[0], 2), (heads[1], 30), (heads[1], 31)))
    v = v[:, :, :30]  # a view, as of a cache
    shown = torch.arange(30) < torch.tensor([30, 11, 0])[:, None]
    found = few_queries_attend(q, k, v, shown, 0.3).float()
    share = heads[0] // heads[1]
    keys, values = (x.float().repeat_interleave(share, 1) for x in (k, v))
    scores = (0.3 * q.float() @ keys.mT).masked_fill(~shown[:, None, None], -torch.inf)
    expected = scores.softmax(-1).nan_to_num() @ values
    assert (found - expected).abs().max() < (1e-5 if dtype == torch.float32 else 0.02)
    assert not found[2].any(), "who sees no key gives zero"
    everything = few_queries_attend(q[:2], k[:2], v[:2], None, 0.3)
    assert torch.equal(everything[0].float(), found[0])


@compiled
def test_scores_far_apart_and_scores_that_are_no_numbers() -> None:
    q, k, v = torch.ones(1, 1, 1, 8), numbers(1, 1, 20, 8) * 1e4, numbers(1, 1, 20, 8, seed=1)
    expected = (q @ k.mT).softmax(-1) @ v
    assert (few_queries_attend(q, k, v, None, 1.0) - expected).abs().max() < 1e-5
    k[0, 0, 3, 2] = torch.nan
    assert few_queries_attend(q, k, v, None, 1.0).isnan().all()


def test_what_a_machine_lacks_is_told_and_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another torch may have neither oneDNN's order nor a product of int8."""
    monkeypatch.setattr("regard.runtime.products.absence", lambda: "there is no Numba here")
    x, w = torch.randn(9, 64), torch.randn(48, 64)
    whole, scale = quantise_rows(w)
    expected = int8_linear(x, whole, scale, None)
    monkeypatch.delattr(torch, "_int_mm")
    monkeypatch.setattr("regard.runtime.products.can_pack", lambda dtype: False)
    assert slower_here() == ["this torch orders no matrices for oneDNN", "this torch has no product of int8"]
    assert (FastLinear(whole, None, scale=scale)(x) - expected).abs().max() < 0.05 * float(expected.std())
    assert torch.equal(FastLinear(w, None)(x), x @ w.T)
