"""A model on trial: the few ways in which laws run it and compare what it says.

What is unusual: every law is written once for encoders, decoders and both. A source is drawn only where there is
something to look at it, and `None` flows through otherwise.
What it does not know: any law.

Shapes: B rows, T tokens, S source tokens, V vocabulary. "Said" is the logits, or hidden states under another head.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.model import DecodeState, LMHead, Model, watch

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
"""Largest gap, in standard deviations of the logits. In float32 a deep trained model rounds up to some 1e-5, while a
real fault moves logits by 1e-2 and more. Half precision would drown it, so such a model is judged by a float32 copy."""


class NotApplicable(Exception):
    """The law says nothing about such a subject."""


class Undecided(Exception):
    """This subject's numbers cannot tell; trying another seed may."""


class Broken(Exception):
    """The law is broken, in a way that is not a matter of size."""


class Trial:
    """One law's run on one model; `ids` are drawn by `seed`."""

    def __init__(self, model: Model, seed: int) -> None:
        self.model, self.config, self.transformer = model, model.config, model.transformer
        self.random = torch.Generator().manual_seed(seed)
        self.encodes, self.decodes = self.config.n_encoder_layers > 0, self.config.n_decoder_layers > 0
        self.vocabulary = min(self.config.vocab_size, self.config.target_vocab_size)
        """How many ids both sides know."""
        if self.config.max_len < 16:
            raise NotApplicable("the laws need room for 16 tokens")

    @classmethod
    @contextmanager
    def ready(cls, given: Model, seed: int) -> Iterator[Self]:
        """A model on trial, in evaluation mode and without gradients; it is left as it was."""
        judged = given if _dtype(given) in TOLERANCE else copy.deepcopy(given).float()
        modes = {module: module.training for module in judged.modules()}
        devices = [judged.device] if judged.device.type == "cuda" else []
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            try:
                judged.eval()
                yield cls(judged, seed)
            finally:
                for module, mode in modes.items():
                    module.training = mode

    @property
    def tolerance(self) -> float:
        """The largest gap that is rounding, in the precision of the model that is judged."""
        return TOLERANCE[_dtype(self.model)]

    def needs_decoder(self) -> None:
        """Stop unless the model has a decoder."""
        if not self.decodes:
            raise NotApplicable("the model has no decoder")

    def ids(self, rows: int, length: int) -> Tensor:
        """Random tokens, (rows, length)."""
        drawn = torch.randint(self.vocabulary, (rows, length), generator=self.random)
        return drawn.to(self.model.device)

    def source(self, rows: int, length: int = 5) -> Tensor | None:
        """Random source tokens, where there are both an encoder to read and a decoder to look at them."""
        return self.ids(rows, length) if self.encodes and self.decodes else None

    def real(self, lengths: Sequence[int], width: int) -> Tensor:
        """True for the first `lengths[b]` of `width` tokens of each row b."""
        return torch.arange(width, device=self.model.device) < torch.tensor(lengths, device=self.model.device)[:, None]

    def padded(self, rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Rows of different lengths as one batch padded on the right, and where it is real."""
        ids = pad_sequence(list(rows), batch_first=True)
        return ids, self.real([len(row) for row in rows], ids.size(1))

    def encoded(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        """What the encoder gives; an encoder with a language-model head: what it says."""
        memory = self.transformer.encode(ids, real=real)
        return memory if self.decodes else self.said(memory)

    def start(self, source: Tensor | None, real: Tensor | None = None, *, capacity: int = 0) -> DecodeState:
        """A state to decode with, after encoding the source if there is one."""
        memory = None if source is None else self.transformer.encode(source, real=real)
        return self.transformer.start(memory, real, capacity=capacity)

    def decoded(
        self,
        ids: Tensor,
        state: DecodeState,
        *,
        real: Tensor | None = None,
        pos: Tensor | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """What the decoder says after each of these tokens."""
        return self.said(self.transformer.decode(ids, state, real=real, pos=pos, documents=documents))

    def said(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary, or the hidden states themselves under another head."""
        return self.model.logits(hidden) if isinstance(self.model.head, LMHead) else hidden

    def gap(self, ours: Tensor, theirs: Tensor) -> float:
        """The largest difference, in standard deviations of `theirs`."""
        size = theirs.std()
        if size < 1e-6:
            raise Undecided("what the model says hardly varies")
        return float((ours - theirs).abs().max() / size)

    def differing(self, ours: Tensor, theirs: Tensor) -> float:
        """How many numbers are not the same to the last bit."""
        return float((ours != theirs).sum())

    @contextmanager
    def inputs(self) -> Iterator[list[Tensor]]:
        """Gradients on, and the embeddings that enter each stack caught as leaves, in the order in which stacks run."""
        leaves: list[Tensor] = []

        def catch(_: str, x: Tensor) -> Tensor:
            leaves.append(x.detach().requires_grad_())
            return leaves[-1]

        with torch.enable_grad(), watch(self.model, "*coder.embed", edit=catch):
            yield leaves


def _dtype(model: Model) -> torch.dtype:
    return model.transformer.tokens.weight.dtype


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """An attribute of a module, of a network or of Python's, replaced for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
