"""Law 14, piece by piece: the kernel, attention in the open and the formula agree, in values and in gradients, for
every kind of mask, head grouping, scale and bias; in one piece, and in blocks of queries (forced small)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.model import Mask, attend, watch
from regard.model import equations as eq
from regard.model.equations import Array

B, H, T, D = 2, 4, 37, 6

ORDER = torch.arange(T)[None]
REAL = torch.arange(T) < torch.tensor([[T - 6], [0]])  # the second row is padding alone
DOCUMENTS = torch.tensor([[0] * 10 + [1] * 20 + [2] * 7, [0] * 30 + [1] * 7])
CACHED = torch.arange(T - 9, T)[None]  # nine more queries on a cache of T slots
RING = torch.tensor([[32, 33, 34, 35, 36, 25, 26, 27, 28, 29, 30, 31], [0, 1, 2, 3, 4, 5, 6, 7, 8, -3, -2, -1]])


def seen(*visible: Array) -> list[Array]:
    """What each row of the batch may look at."""
    return list(visible) if len(visible) == B else list(visible) * B


MASKS: dict[str, tuple[Mask, list[Array]]] = {
    "everything": (Mask(q_pos=ORDER, k_pos=ORDER, aligned=True), seen(np.ones((T, T), bool))),
    "causal": (Mask(q_pos=ORDER, k_pos=ORDER, causal=True, aligned=True), seen(eq.causal(T))),
    "causal, unaligned": (Mask(q_pos=ORDER, k_pos=ORDER, causal=True), seen(eq.causal(T))),
    "causal on a cache": (Mask(q_pos=CACHED, k_pos=ORDER, causal=True), seen(eq.causal(T)[-9:])),
    "window": (
        Mask(q_pos=ORDER, k_pos=ORDER, causal=True, window=5, aligned=True),
        seen(eq.causal(T) & eq.window(T, 5)),
    ),
    "window on a cache": (
        Mask(q_pos=CACHED, k_pos=ORDER, causal=True, window=5),
        seen((eq.causal(T) & eq.window(T, 5))[-9:]),
    ),
    "window on a ring": (
        Mask(q_pos=torch.tensor([[36], [8]]), k_pos=RING, causal=True, window=4, holes=True),
        seen(np.isin(RING[:1], [33, 34, 35, 36]), np.isin(RING[1:], [5, 6, 7, 8])),
    ),
    "padding": (
        Mask(q_pos=ORDER, k_pos=ORDER, real=REAL, aligned=True),
        seen(*(eq.padding(T, row) for row in REAL.tolist())),
    ),
    "padding, causal": (
        Mask(q_pos=ORDER, k_pos=ORDER, real=REAL, causal=True),
        seen(*(eq.padding(T, row) & eq.causal(T) for row in REAL.tolist())),
    ),
    "source": (
        Mask(q_pos=ORDER[:, :1], k_pos=ORDER[:, :20], real=REAL[:, 11:31]),
        seen(*(eq.padding(T, row) for row in REAL[:, 11:31].tolist())),
    ),
    "documents": (
        Mask(q_pos=ORDER, k_pos=ORDER, causal=True, documents=(DOCUMENTS, DOCUMENTS), aligned=True),
        seen(*(eq.documents(row) & eq.causal(T) for row in DOCUMENTS.tolist())),
    ),
}


def both_ways(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float, bias: Tensor | None
) -> dict[str, tuple[Tensor, list[Tensor]]]:
    """What each kernel gives, and its gradients with respect to q, k, v and the bias."""
    draw = None if bias is None else lambda rows: bias[:, :, rows]
    inputs = [x for x in (q, k, v, bias) if x is not None]
    results = {}
    for kernel in ("fused", "open"):
        out = attend(q, k, v, mask, scale=scale, bias=draw, kernel=kernel)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        results[kernel] = out.detach(), list(torch.autograd.grad((out * weights).sum(), inputs))
    return results


def drawn(queries: int, keys: int, kv_heads: int, dtype: torch.dtype, biased: bool) -> tuple[Tensor | None, ...]:
    shapes = [(B, H, queries, D), (B, kv_heads, keys, D), (B, kv_heads, keys, D)]
    q, k, v = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return q, k, v, torch.randn(1, H, queries, keys, dtype=dtype, requires_grad=True) if biased else None


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize("blocks", [False, True], ids=["whole", "blocks"])
def test_kernel_open_and_formula_agree(
    name: str, kv_heads: int, biased: bool, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype, tolerance = (torch.float32, 1e-5) if kv_heads == 2 else (torch.float64, 1e-9)
    if blocks:
        monkeypatch.setattr("regard.model.attention.BLOCK_ELEMENTS", 1)
    mask, visible = MASKS[name]
    queries, keys = visible[0].shape
    q, k, v, bias = drawn(queries, keys, kv_heads, dtype, biased)
    scale = 0.7 if biased else D**-0.5
    ways = both_ways(q, k, v, mask, scale, bias)
    for kernel, (out, gradients) in ways.items():
        for b in range(B):
            for h in range(H):
                Q, K, V = (
                    x[b, i].detach().double().numpy()
                    for x, i in ((q, h), (k, h * kv_heads // H), (v, h * kv_heads // H))
                )
                extra = 0.0 if bias is None else bias[0, h].detach().double().numpy()
                expected = eq.masked_attention(Q, K, V, visible[b], bias=extra, scale=scale)
                np.testing.assert_allclose(out[b, h].double(), expected, atol=tolerance, rtol=0, err_msg=kernel)
        nobody = torch.tensor(np.stack(visible)).any(-1)[:, None, :, None]  # (B, 1, T, 1) False: sees no key
        assert (out.masked_select(~nobody) == 0).all(), kernel
        assert all(gradient.isfinite().all() for gradient in gradients), kernel
    for ours, theirs in zip(ways["fused"][1], ways["open"][1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=10 * tolerance, rtol=0)


@pytest.mark.parametrize("name", ["causal", "window", "documents", "padding"])
def test_blocks_are_really_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would prove nothing if small blocks were not drawn block by block."""
    mask, visible = MASKS[name]
    q, k, v, _ = drawn(*visible[0].shape, 4, torch.float32, False)
    rows_drawn: list[int] = []
    draw = Mask.draw

    def counted(self: Mask, rows: slice, columns: slice) -> Tensor | None:
        rows_drawn.append(rows.stop - rows.start)
        return draw(self, rows, columns)

    monkeypatch.setattr(Mask, "draw", counted)
    monkeypatch.setattr("regard.model.attention.BLOCK_ELEMENTS", 1)
    with torch.no_grad():
        attend(q, k, v, mask, scale=1.0, kernel="open")
    assert rows_drawn == [16, 16, 5]


def test_a_window_reads_a_band_only() -> None:
    mask = MASKS["window"][0]
    assert mask.reach(slice(16, 32)) == slice(12, 32)


def test_dropout_of_weights_is_unbiased_and_takes_the_open_path() -> None:
    q, k, v, _ = drawn(T, T, 4, torch.float32, False)
    mask = MASKS["causal"][0]
    with torch.no_grad():
        kept = attend(q, k, v, mask, scale=0.4)
        dropped = torch.stack([attend(q, k, v, mask, scale=0.4, dropout=0.3) for _ in range(400)])
    assert dropped.std(0).max() > 0.01
    torch.testing.assert_close(dropped.mean(0), kept, atol=0.3, rtol=0)


def test_watching_weights_changes_nothing_but_the_path(build: Callable) -> None:
    model = build("both", "alibi", "llama")
    ids = torch.randint(23, (2, 9))
    with torch.no_grad():
        plain = model.transformer.decode(ids, model.transformer.start(model.transformer.encode(ids)))
        with watch(model, "*.weights") as weights:
            looked = model.transformer.decode(ids, model.transformer.start(model.transformer.encode(ids)))
    assert len(weights) == 6
    torch.testing.assert_close(looked, plain, atol=1e-5, rtol=0)
