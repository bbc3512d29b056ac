"""How a model begins: one function, one table.

    token, position and type vectors    N(0, 1 / D), so that e_t * sqrt(D), and tied logits, start at about unit size
    matrices of the blocks              uniform, Xavier (Glorot and Bengio 2010), the variance a sum of D terms keeps
    what ends a residual branch         the same, divided by sqrt(2 n_layers) in a pre-norm stack, whose sum would grow
    biases 0, norms 1 and 0

What is unusual: nothing is drawn in constructors, so a model can be built on the meta device, filled from a file, or
begun from a seed, by choice. What it does not know: training.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from regard.model.config import TransformerConfig


@torch.no_grad()
def initialise(model: nn.Module, config: TransformerConfig) -> None:
    """Give every parameter of `model` its first value, from torch's global random generator."""
    depth = max(config.n_encoder_layers, config.n_decoder_layers)
    ends = 1 / math.sqrt(2 * depth) if config.norm_order != "post" else 1.0
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif "norm" in name.rsplit(".", 2)[-2] if "." in name else False:
            parameter.fill_(1)
        elif ".layers." in name and parameter.ndim == 2:
            nn.init.xavier_uniform_(parameter, gain=ends if name.endswith(("attn.o.weight", "ffn.down.weight")) else 1)
        else:
            parameter.normal_(std=config.d_model**-0.5)
