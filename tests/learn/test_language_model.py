"""A decoder learns to copy: after a prompt "a b c =" it says "a b c" and an end, in rows of different lengths."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.model import Model, Rope, TransformerConfig, make_language_model
from regard.tasks.losses import linear_cross_entropy

PAD, EQUALS, EOS, V = 0, 1, 2, 13


@dataclass(frozen=True)
class Texts:
    """ids (B, T), and where the copy and its end stand, which alone are to be learned."""

    ids: Tensor
    taught: Tensor

    @property
    def count(self) -> int:
        return int(self.taught.sum())


class CopyTask:
    """Next-token cross entropy, where something is taught."""

    def hidden(self, model: Model, batch: Texts) -> Tensor:
        return model.transformer.decode(batch.ids[:, :-1], model.transformer.start())

    def loss(self, model: Model, hidden: Tensor, batch: Texts) -> Tensor:
        taught = batch.taught[:, 1:]
        return linear_cross_entropy(hidden[taught], model.transformer.tokens.weight, batch.ids[:, 1:][taught])


def words(n: int, seed: int) -> list[list[int]]:
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 7, (n,), generator=random).tolist()
    return [torch.randint(3, V, (length,), generator=random).tolist() for length in lengths]


def texts(step: int) -> Texts:
    rows = words(64, seed=step)
    ids = pad_sequence([torch.tensor([*row, EQUALS, *row, EOS]) for row in rows], batch_first=True)
    place, n = torch.arange(ids.size(1)), torch.tensor([len(row) for row in rows])[:, None]
    return Texts(ids, (place > n) & (place <= 2 * n + 1))


@torch.no_grad()
def continued(model: Model, rows: list[list[int]], steps: int) -> list[list[int]]:
    """What each row, followed by "=", goes on with, all in one batch."""
    prompts = [torch.tensor([*row, EQUALS]) for row in rows]
    ids, n = pad_sequence(prompts, batch_first=True), torch.tensor([len(prompt) for prompt in prompts])
    state = model.transformer.start(capacity=ids.size(1) + steps)
    hidden = model.transformer.decode(ids, state, real=torch.arange(ids.size(1)) < n[:, None])
    last, said = hidden[torch.arange(len(rows)), n - 1][:, None], []
    for _ in range(steps):
        said.append(model.logits(last).argmax(-1))
        last = model.transformer.decode(said[-1], state)
    return torch.cat(said, 1).tolist()


def test_learns_to_copy(train) -> None:
    config = TransformerConfig(
        vocab_size=V, d_model=32, n_heads=4, d_ff=64, n_decoder_layers=2, norm="rms", norm_order="pre",
        positions=Rope(theta=100.0), bias="none", max_len=16,
    )  # fmt: skip
    learned = train(make_language_model(config), CopyTask(), texts, 300)
    rows = words(200, seed=10**6)
    right = [said[: len(row) + 1] == [*row, EOS] for said, row in zip(continued(learned, rows, 7), rows, strict=True)]
    assert sum(right) >= 196
