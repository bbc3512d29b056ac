"""The logit lens (nostalgebraist 2020): what a decoder would say if it stopped after each of its layers.

    layer l's output -> the stack's last norm -> the head -> softmax

What is unusual: the last layer is the model itself, to the last bit, and how far a layer is from it is a number:
KL(p_last || p_layer) in nats. It is an approximation: a layer writes for the layers after it, not for the head, and
where it looks wrong the model need not be (Belrose et al. 2023).
What it does not know: pictures.

Shapes: L layers and the embeddings before them, T rows, D d_model, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.inspect.sides import shown
from regard.inspect.views import View
from regard.model import Model

LIKELIEST = 10


@dataclass(frozen=True)
class Lens:
    """What each layer would say.

    Attributes:
        layers: their names, the embeddings first: "embeddings", "layer 1", ...
        top: of each layer and row the likeliest tokens with their probabilities.
        divergence: of each layer and row KL(p_last || p_layer), in nats; 0 for the last layer.
    """

    layers: tuple[str, ...]
    top: tuple[tuple[tuple[tuple[str, float], ...], ...], ...]
    divergence: tuple[tuple[float, ...], ...]


@torch.no_grad()
def logit_lens(view: View) -> Lens:
    """The lens on a run.

    Raises:
        ConfigError: the model has no decoder.
    """
    model = view.loaded.model
    if view.target is None:
        raise ConfigError("only a decoder has a logit lens", where=view.loaded.path, expected="a model that writes",
                          got=f"a model of the task {view.loaded.task}")  # fmt: skip
    n_layers = model.config.n_decoder_layers
    places = ["decoder.layers.0.resid_in", *(f"decoder.layers.{i}.resid_out" for i in range(n_layers))]
    states = [torch.from_numpy(view.tensors[place]) for place in places]  # (T, D) each
    last = _log_p(model, states[-1])
    top, divergence = list[tuple[tuple[tuple[str, float], ...], ...]](), list[tuple[float, ...]]()
    for state in states:
        log_p = _log_p(model, state)  # (T, V)
        best = log_p.topk(min(LIKELIEST, log_p.size(-1)))
        pieces = [shown(view.loaded.target_tokenizer, ids) for ids in best.indices.tolist()]
        shares = best.values.exp().tolist()
        top.append(tuple(tuple(zip(*row, strict=True)) for row in zip(pieces, shares, strict=True)))
        # A token that one of them rules out adds nothing where p is 0; rounding may leave -1e-17.
        kl = (last.exp() * (last - log_p)).nan_to_num(0.0).sum(-1).clamp(min=0)
        divergence.append(tuple(kl.tolist()))
    names = ("embeddings", *(f"layer {i}" for i in range(1, n_layers + 1)))
    return Lens(names, tuple(top), tuple(divergence))


def _log_p(model: Model, state: Tensor) -> Tensor:
    """log p of the next token from (T, D) of the residual stream: (T, V), in float64 on the CPU."""
    stack = model.transformer.decoder
    assert stack is not None
    parameter = model.transformer.output_embedding
    state = state.to(parameter)[None]
    hidden = state if stack.norm is None else stack.norm(state)
    return model.logits(hidden)[0].double().log_softmax(-1).cpu()
