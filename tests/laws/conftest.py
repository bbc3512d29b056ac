"""Tiny models that mean something: every parameter is random (a zero bias would hide a wiring fault), logits vary."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch

from regard.model import (
    Alibi,
    Learned,
    LinearScaling,
    Model,
    NoPositions,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    make_language_model,
)

Build = Callable[..., Model]

STACKS = {
    "encoder": {"n_encoder_layers": 2},
    "decoder": {"n_decoder_layers": 2},
    "both": {"n_encoder_layers": 2, "n_decoder_layers": 2},
}
SCHEMES = {
    "none": NoPositions(),
    "sinusoidal": Sinusoidal(),
    "split": Sinusoidal(layout="split"),
    "learned": Learned(),
    "offset": Learned(offset=2),
    "rope": Rope(theta=100.0),
    "partial rope": Rope(theta=100.0, fraction=0.7, scaling=LinearScaling(factor=2.0)),
    "alibi": Alibi(),
    "relative": Relative(buckets=8, max_distance=12),
}
VARIANTS = {
    "chapter": {"norm_order": "post", "norm": "layer"},
    "llama": {
        "norm_order": "pre", "norm": "rms", "n_kv_heads": 2, "gated_ffn": True, "activation": "silu",
        "bias": "none", "tie_embeddings": False,
    },
    "bert": {
        "norm_order": "post", "norm": "rms", "activation": "gelu", "embed_norm": True, "n_token_types": 2,
        "head_bias": True, "n_heads": 6, "d_head": 6, "n_kv_heads": 3, "attn_scale": 0.5, "embed_scale": 2.0,
    },
    "mistral": {
        "norm_order": "pre", "norm": "layer", "activation": "gelu_tanh", "window": Window(size=4), "n_kv_heads": 1,
        "logit_scale": 1.5,
    },
    "neox": {"norm_order": "parallel", "activation": "gelu", "bias": "ffn", "qk_norm": True, "tie_embeddings": False},
    "qwen": {"norm_order": "pre", "norm": "rms", "bias": "qkv", "qk_norm": True, "gated_ffn": True},
    "marian": {"norm_order": "post", "activation": "silu", "bias": "attention", "decoder_vocab_size": 31},
}  # fmt: skip


def fits(stack: str, variant: str) -> bool:
    """Side by side there is no place for cross-attention, and two vocabularies need both stacks."""
    return variant not in {"encoder": ("marian",), "decoder": ("marian",), "both": ("neox",)}[stack]


CASES = [
    (stack, scheme, variants[(2 * i + j) % len(variants)])
    for i, stack in enumerate(STACKS)
    for j, scheme in enumerate(SCHEMES)
    if (variants := [variant for variant in VARIANTS if fits(stack, variant)])
]
"""Every stack with every scheme; and, over these, every variant with every stack and nearly every scheme."""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """For matrices this small, two threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def build() -> Build:
    """`build("both", "rope", "llama", vocab_size=..)` makes a tiny model, in evaluation mode, whose logits vary."""

    def make(stack: str, scheme: str = "sinusoidal", variant: str = "chapter", **axes: object) -> Model:
        sizes = {"vocab_size": 23, "d_model": 24, "n_heads": 4, "d_ff": 32, "max_len": 20}
        config = TransformerConfig(
            **{**sizes, "positions": SCHEMES[scheme], **STACKS[stack], **VARIANTS[variant], **axes}
        )
        torch.manual_seed(1)
        model = make_language_model(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.mul_(2.0)
                else:
                    parameter.add_(torch.randn_like(parameter) * 0.3)
            ids = torch.randint(config.vocab_size, (2, 12))
            encoder, decoder = model.transformer.encoder, model.transformer.decoder
            memory = None if encoder is None else model.transformer.encode(ids)
            hidden = memory if decoder is None else model.transformer.decode(ids, model.transformer.start(memory))
            size = float(model.logits(hidden).std())
        assert size >= 1 and math.isfinite(size), f"logits of {stack} {scheme} {variant} have size {size}"
        return model

    return make


@pytest.fixture(scope="session", params=CASES, ids="-".join)
def model(request: pytest.FixtureRequest, build: Build) -> Model:
    """One tiny model of each case."""
    return build(*request.param)
