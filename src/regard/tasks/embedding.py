"""From texts to vectors: an encoder's hidden states, pooled (chapter 3.2).

What is unusual: any encoder will do, whatever head it was trained under. Texts of like length are read together, and
padding is no part of a mean. An empty text is what the vocabulary's template makes of it, [CLS] [SEP]; without a
template it has no token, and its vector is zero.
What it does not know: files; what a distance between vectors means.

Shapes: N texts, B of them at a time, T tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from regard.data import padded
from regard.errors import ConfigError
from regard.model import Model, mean_pool
from regard.tasks.conventions import around
from regard.tasks.groups import alike, tokens_together
from regard.text import Tokenizer

Pooling = Literal["mean", "cls"]


def embed_texts(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], *, pooling: Pooling, normalize: bool
) -> tuple[np.ndarray, list[int]]:
    """The vectors of N texts, (N, D) float32, in their order; and of each how many tokens were too many to be read.

    Args:
        pooling: "mean": of the hidden states of all tokens, the template's too; "cls": that of the first token.
        normalize: scale each vector to length 1; zero stays zero.

    Raises:
        ConfigError: another pooling.
    """
    if pooling not in get_args(Pooling):
        raise ConfigError("unknown pooling", where="pooling", expected=" or ".join(get_args(Pooling)), got=pooling)
    before, after = around(tokenizer)
    most = model.config.max_len - len(before) - len(after)
    encoded = tokenizer.encode_batch(list(texts))
    read = [tokenizer.wrap(ids[:most]) for ids in encoded]
    vectors = torch.zeros(len(read), model.config.d_model)
    for rows in alike([len(ids) for ids, _ in read], tokens_together(model.device)):
        vectors[rows] = _pooled(model, [read[i] for i in rows], pooling)
    if normalize:
        vectors = vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)
    return vectors.numpy(), [max(0, len(ids) - most) for ids in encoded]


@torch.no_grad()
def _pooled(model: Model, texts: Sequence[tuple[list[int], list[int]]], pooling: Pooling) -> Tensor:
    """Ids and types of B texts -> (B, D) on the CPU."""
    ids, real = padded([ids for ids, _ in texts], 0, 1)  # (B, T)
    types, _ = padded([types for _, types in texts], 0, 1)
    if not ids.size(1):  # no text has a token
        return torch.zeros(len(texts), model.config.d_model)
    real = real.to(model.device)
    hidden = model.transformer.encode(ids.to(model.device), real=real, types=types.to(model.device))  # (B, T, D)
    pooled = mean_pool(hidden.float(), real) if pooling == "mean" else hidden[:, 0].float() * real[:, :1]
    return pooled.cpu()
