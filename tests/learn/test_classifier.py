"""An encoder learns to classify: in which half of a sequence does token X occur more often?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model import Learned, Model, TransformerConfig, make_classifier

X, V, WIDTH = 3, 8, 12


@dataclass(frozen=True)
class Labelled:
    """ids (B, T), which of them are real, and a label (B,)."""

    ids: Tensor
    real: Tensor
    label: Tensor

    @property
    def count(self) -> int:
        return len(self.label)


class HalvesTask:
    """Cross entropy over the two halves."""

    def hidden(self, model: Model, batch: Labelled) -> Tensor:
        return model.transformer.encode(batch.ids, real=batch.real)

    def loss(self, model: Model, hidden: Tensor, batch: Labelled) -> Tensor:
        return F.cross_entropy(model.head(hidden, batch.real), batch.label, reduction="sum")


def labelled(step: int, n: int = 64) -> Labelled:
    """Padding of any length on the right; the halves are those of the full width, so places must be known."""
    random = torch.Generator().manual_seed(step)
    ids = torch.randint(1, V, (6 * n, WIDTH), generator=random)
    ids[torch.rand(ids.shape, generator=random) < 0.3] = X
    real = torch.arange(WIDTH) < torch.randint(WIDTH // 2, WIDTH + 1, (len(ids), 1), generator=random)
    counts = ((ids == X) & real).unflatten(1, (2, -1)).sum(-1)  # (B, 2)
    clear = (counts[:, 0] != counts[:, 1]).nonzero()[:, 0]
    first, second = (clear[counts[clear].argmax(1) == half][: n // 2] for half in (0, 1))
    rows = torch.cat([first, second])
    return Labelled(ids[rows].masked_fill(~real[rows], 0), real[rows], counts[rows].argmax(1))


def test_learns_which_half_holds_more(train) -> None:
    config = TransformerConfig(
        vocab_size=V, d_model=32, n_heads=4, d_ff=64, n_encoder_layers=1, positions=Learned(), max_len=WIDTH
    )
    learned, held_out = train(make_classifier(config, 2), HalvesTask(), labelled, 150), labelled(10**6, n=300)
    assert 0.4 < held_out.label.float().mean() < 0.6
    with torch.no_grad():
        said = learned.head(HalvesTask().hidden(learned, held_out), held_out.real).argmax(1)
    assert (said == held_out.label).float().mean() >= 0.97
