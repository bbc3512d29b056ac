"""A batch of token ids as tensors: the one thing that passes from the data to a training step.

What it is: `Batch`, and `collate`, which makes one from lists of ids.
What is unusual: where the control tokens go is written here and nowhere else. For the target "a b":

    source    a b </s>            the encoder sees where its text ends
    tgt_in    <s> a b             what the decoder is given
    tgt_out   a b </s>            what it must say, one place further: exactly one </s> to learn

Padding is on the right, always; `real` is False there.
What it does not know: texts, devices' memory, and how samples were chosen (`data.batching`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

TENSORS = ("src", "src_real", "tgt_in", "tgt_out", "tgt_real")


@dataclass(frozen=True)
class Batch:
    """B pairs, padded.

    Attributes:
        src: (B, S) int64 source ids, each row ending in </s>.
        src_real: (B, S) bool, False at padding.
        tgt_in: (B, T) int64 target ids after <s>.
        tgt_out: (B, T) int64 target ids before </s>; the labels.
        tgt_real: (B, T) bool, where `tgt_in` and `tgt_out` are not padding.
        count: how many labels there are, sum(tgt_real).
    """

    src: Tensor
    src_real: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    tgt_real: Tensor
    count: int

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in TENSORS})

    def split(self, n: int) -> list[Batch]:
        """At most `n` micro-batches of contiguous rows, together this batch; none is empty unless this one is."""
        n = max(1, min(n, len(self.src)))
        parts = zip(*(getattr(self, name).tensor_split(n) for name in TENSORS), strict=True)
        named = [dict(zip(TENSORS, tensors, strict=True)) for tensors in parts]
        return [Batch(**tensors, count=int(tensors["tgt_real"].sum())) for tensors in named]


def collate(
    src_ids: Sequence[Sequence[int]],
    tgt_ids: Sequence[Sequence[int]],
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    multiple: int = 1,
) -> Batch:
    """One batch from B source and B target texts as ids without control tokens; either may be empty.

    Widths are rounded up to a `multiple`, so that a compiled model meets few shapes.
    """
    src, src_real = padded([[*ids, eos_id] for ids in src_ids], pad_id, multiple)
    tgt_in, tgt_real = padded([[bos_id, *ids] for ids in tgt_ids], pad_id, multiple)
    tgt_out, _ = padded([[*ids, eos_id] for ids in tgt_ids], pad_id, multiple)
    return Batch(src, src_real, tgt_in, tgt_out, tgt_real, count=sum(len(ids) + 1 for ids in tgt_ids))


def padded(rows: Sequence[Sequence[int]], pad_id: int, multiple: int) -> tuple[Tensor, Tensor]:
    """B rows of ids as one (B, T), padded on the right to a multiple, and (B, T) True where it is real."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    width = -(-max(lengths, default=1) // multiple) * multiple
    real = np.arange(width) < lengths[:, None]  # (B, width)
    ids = np.full(real.shape, pad_id, dtype=np.int64)
    ids[real] = np.fromiter((token for row in rows for token in row), dtype=np.int64, count=int(lengths.sum()))
    return torch.from_numpy(ids), torch.from_numpy(real)
