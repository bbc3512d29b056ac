from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import collate

PAD, BOS, EOS = 0, 1, 2
ROWS = st.lists(st.tuples(*[st.lists(st.integers(3, 99), max_size=9)] * 2), min_size=1, max_size=9)


def _collate(rows, multiple: int = 1):
    return collate(*zip(*rows, strict=True), pad_id=PAD, bos_id=BOS, eos_id=EOS, multiple=multiple)


def test_law_19_where_the_control_tokens_go() -> None:
    batch = _collate([([7, 8, 9], [5, 6]), ([], [])])
    assert batch.src.tolist() == [[7, 8, 9, EOS], [EOS, PAD, PAD, PAD]]
    assert batch.tgt_in.tolist() == [[BOS, 5, 6], [BOS, PAD, PAD]]
    assert batch.tgt_out.tolist() == [[5, 6, EOS], [EOS, PAD, PAD]]
    assert batch.tgt_real.tolist() == [[True, True, True], [True, False, False]]
    assert batch.count == 4


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, multiple=st.integers(1, 8))
def test_batch_holds_each_row_and_pads_on_the_right(rows, multiple: int) -> None:
    batch = _collate(rows, multiple)
    assert batch.src.dtype == batch.tgt_in.dtype == batch.tgt_out.dtype == torch.int64
    assert batch.src.shape[1] % multiple == batch.tgt_in.shape[1] % multiple == 0
    assert batch.tgt_in.shape == batch.tgt_out.shape == batch.tgt_real.shape
    assert batch.src.shape[1] - max(len(source) + 1 for source, _ in rows) in range(multiple)
    for i, (source, target) in enumerate(rows):
        assert batch.src[i][batch.src_real[i]].tolist() == [*source, EOS]
        assert batch.tgt_in[i][batch.tgt_real[i]].tolist() == [BOS, *target]
        assert batch.tgt_out[i][batch.tgt_real[i]].tolist() == [*target, EOS]
        assert batch.src_real[i].tolist() == sorted(batch.src_real[i].tolist(), reverse=True)
    for ids, real in ((batch.src, batch.src_real), (batch.tgt_in, batch.tgt_real), (batch.tgt_out, batch.tgt_real)):
        assert (ids[~real] == PAD).all()
    assert batch.count == batch.tgt_real.sum() == (batch.tgt_out[batch.tgt_real] != PAD).sum()
    assert (batch.tgt_out == EOS).sum() == len(rows)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, n=st.integers(1, 12))
def test_micro_batches_together_are_the_batch(rows, n: int) -> None:
    batch = _collate(rows)
    parts = batch.split(n)
    assert len(parts) == min(n, len(rows)) and all(len(part.src) for part in parts)
    assert sum(part.count for part in parts) == batch.count
    for name in ("src", "src_real", "tgt_in", "tgt_out", "tgt_real"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(batch, name))


def test_to_moves_every_tensor() -> None:
    moved = _collate([([7], [5])]).to("meta")
    assert {getattr(moved, name).device.type for name in ("src", "src_real", "tgt_in", "tgt_out", "tgt_real")} == {
        "meta"
    }
    assert moved.count == 2
