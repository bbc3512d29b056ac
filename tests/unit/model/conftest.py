"""Tiny models whose logits vary, for what the laws do not say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from regard.model import Model, TransformerConfig, make_language_model


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """For matrices this small, two threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def build() -> Callable[..., Model]:
    def make(**axes: object) -> Model:
        sizes = {"vocab_size": 19, "d_model": 16, "n_heads": 2, "d_ff": 24, "max_len": 64}
        torch.manual_seed(1)
        model = make_language_model(TransformerConfig(**{**sizes, **axes})).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0) if parameter.ndim == 2 else parameter.add_(torch.randn_like(parameter) * 0.3)
        return model

    return make


@pytest.fixture
def full() -> Callable[..., Tensor]:
    """`full(model, ids, source)`: the logits of one pass over whole sequences."""

    def run(model: Model, ids: Tensor, source: Tensor | None = None) -> Tensor:
        memory = None if source is None else model.transformer.encode(source)
        return model.logits(model.transformer.decode(ids, model.transformer.start(memory)))

    return run
