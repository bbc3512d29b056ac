"""The same function in other numbers: weights rewritten so that a family's configuration can say what they are.

    split_positions    sines and cosines interleaved (the chapter's order) -> all sines, then all cosines (Marian's)
    fold_scales        any embed_scale and logit_scale -> sqrt(d_model) and 1

What is unusual: nothing of what a model computes changes but the order of its sums. A LayerNorm, an RMSNorm and a
matrix product do not mind in which order the width lies, so the residual stream is permuted as a whole; and a factor on
the last hidden state can stand in the last norm. (The last digits differ: logits are equal to about 1e-6.)
What it does not know: families and files. It needs the whole of a model with a language-model head, for the hidden
states themselves do come out in another order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from regard.model import Sinusoidal, TransformerConfig

Tensors = Mapping[str, Tensor]
Relayout = Callable[[TransformerConfig, Tensors], tuple[TransformerConfig, dict[str, Tensor]]]

# Where the width lies in each tensor of a model with sinusoidal positions: along its first axis, or along its last.
_FIRST = re.compile(r".*\.(self_attn|cross_attn)\.o\.\w+|.*\.ffn\.down\.\w+|.*(?<![qk]_)norm\.\w+")
_LAST = re.compile(
    r".*\.(self_attn|cross_attn)\.[qkv]\.weight|.*\.ffn\.(up|gate)\.weight|"
    r"transformer\.(decoder_)?tokens\.weight|.*\.types\.weight|head\.weight"
)


def relayouts(config: TransformerConfig, head: str) -> Iterator[Relayout]:
    """All that may be tried on a model, the simplest first; the first of them changes nothing."""
    yield lambda config, tensors: (config, dict(tensors))
    if head != "language-model":
        return
    interleaved = isinstance(config.positions, Sinusoidal) and config.positions.layout == "interleaved"
    if interleaved:
        yield split_positions
    yield fold_scales
    if interleaved:
        yield lambda config, tensors: fold_scales(*split_positions(config, tensors))


def split_positions(config: TransformerConfig, tensors: Tensors) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model with interleaved sinusoidal positions as one with split ones; `tensors` is a Model's state dict."""
    assert isinstance(config.positions, Sinusoidal) and config.positions.layout == "interleaved"
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])  # (D,)
    moved = {
        name: tensor[order] if _FIRST.fullmatch(name) else tensor[..., order] if _LAST.fullmatch(name) else tensor
        for name, tensor in tensors.items()
    }
    return replace(config, positions=replace(config.positions, layout="split")), moved


def fold_scales(config: TransformerConfig, tensors: Tensors) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model as one with embed_scale = sqrt(d_model), the paper's, and logit_scale = 1.

    The embeddings take what is left of the first, and the last norm, which only the head reads, takes the second; where
    the two matrices are one, what the embeddings took is taken back there.
    """
    wanted = math.sqrt(config.d_model)
    embeddings = config.embed_scale / wanted
    last = config.logit_scale / (embeddings if config.tie_embeddings else 1.0)
    stack = "decoder" if config.n_decoder_layers else "encoder"
    layers = config.n_decoder_layers or config.n_encoder_layers
    norm = f"{stack}.layers.{layers - 1}.ffn_norm" if config.norm_order == "post" else f"{stack}.norm"
    factors = {
        "transformer.tokens.weight": embeddings, "transformer.decoder_tokens.weight": embeddings,
        f"transformer.{norm}.weight": last, f"transformer.{norm}.bias": last,
    }  # fmt: skip
    scaled = {name: tensor * factors[name] if name in factors else tensor for name, tensor in tensors.items()}
    return replace(config, embed_scale=wanted, logit_scale=1.0), scaled
