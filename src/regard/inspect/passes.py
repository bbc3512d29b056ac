"""A script through the model: whole sequences at once, under teacher forcing, one of them at a time.

What is unusual: there is no padding and no cache, so rows and columns of whatever is watched are the script's tokens.
What it does not know: who is watching.

Shapes: S source tokens, T rows, D d_model, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.inspect.scripts import Script
from regard.model import MaskedLMHead, Model


@torch.no_grad()
def memory_of(model: Model, script: Script) -> Tensor | None:
    """What the encoder makes of the source, (1, S, D); None where there is no source."""
    if script.source is None:
        return None
    ids = torch.tensor([script.source.ids], device=model.device)
    types = torch.tensor([list(script.types)], device=model.device) if model.config.n_token_types else None
    return model.transformer.encode(ids, types=types)


@torch.no_grad()
def hidden_of(model: Model, script: Script) -> Tensor:
    """What the model makes of its rows, (1, T, D): the target's, or of an encoder alone the source's."""
    memory = memory_of(model, script)
    if script.target is None:
        assert memory is not None
        return memory
    ids = torch.tensor([script.target.ids], device=model.device)
    return model.transformer.decode(ids, model.transformer.start(memory))


@torch.no_grad()
def logits_of(model: Model, script: Script) -> Tensor | None:
    """What it says of its vocabulary in each row, (T, V); None where its head is over something else."""
    hidden = hidden_of(model, script)
    return model.logits(hidden)[0] if script.target is not None or isinstance(model.head, MaskedLMHead) else None
