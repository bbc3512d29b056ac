"""What `gpu_check` asks of tiny models of each kind, and the rows and the setting that its parts share.

The laws run as `regard doctor` runs them; gradients are held against the CPU's, bfloat16 against float32.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.laws import report_card
from regard.machine import self_test
from regard.model import (
    Alibi,
    Learned,
    Model,
    NoPositions,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    make_language_model,
)

SLACK = 2e-3
"""Largest difference of a gradient from the CPU's, as a share of its largest number: the sums are of another order."""
HALF = 0.1
"""Root mean square of what bfloat16 changes of a tiny model's logits, in their standard deviations; of a fault 1."""
LAST = 85.0
"""Seconds after which no further kind is begun."""

KINDS: dict[str, dict[str, Any]] = {
    "encoder-decoder, chapter": {"n_encoder_layers": 2, "n_decoder_layers": 2, "positions": Sinusoidal()},
    "encoder, BERT's": {
        "n_encoder_layers": 2, "positions": Learned(), "activation": "gelu", "embed_norm": True, "n_token_types": 2,
    },
    "decoder, GPT-2's": {
        "n_decoder_layers": 2, "positions": Learned(), "norm_order": "pre", "activation": "gelu_tanh",
    },
    "decoder, Llama's": {
        "n_decoder_layers": 2, "positions": Rope(theta=100.0), "norm_order": "pre", "norm": "rms", "n_kv_heads": 2,
        "gated_ffn": True, "activation": "silu", "bias": "none", "tie_embeddings": False,
    },
    "decoder, Mistral's": {
        "n_decoder_layers": 2, "positions": Rope(theta=100.0), "norm_order": "pre", "norm": "rms", "n_kv_heads": 1,
        "window": Window(size=4), "qk_norm": True,
    },
    "encoder-decoder, T5's": {
        "n_encoder_layers": 2, "n_decoder_layers": 2, "positions": Relative(buckets=8, max_distance=12),
        "norm_order": "pre", "norm": "rms", "bias": "none",
    },
    "decoder, ALiBi": {"n_decoder_layers": 2, "positions": Alibi(), "norm_order": "pre"},
    "decoder, no positions, parallel": {"n_decoder_layers": 2, "positions": NoPositions(), "norm_order": "parallel"},
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Where, and how large.

    Attributes:
        seconds: of each timing.
        shape: of the large model.
        context: its longest row.
        rows: in a step of training; None: what the memory holds.
        prompt, said: tokens given and said in decoding.
        kinds: how many of `KINDS`.
    """

    device: torch.device
    seconds: float = 6.0
    shape: tuple[int, int, int, int] = (50_304, 12, 12, 768)
    """Vocabulary, layers, heads, width; GPT-2's, its vocabulary rounded up to a multiple of 64."""
    context: int = 1024
    rows: int | None = None
    prompt: int = 128
    said: int = 128
    kinds: int = len(KINDS)


@dataclass(frozen=True)
class Row:
    """A line of the table; `outcome` is ok, FAILED, skipped, or nothing where there is only a number to tell."""

    part: str
    what: str
    outcome: str
    found: str


def judged(part: str, what: str, holds: bool, found: str) -> Row:
    return Row(part, what, "ok" if holds else "FAILED", found)


def tiny(axes: dict[str, Any]) -> Model:
    """A model whose logits vary, every parameter random, on the CPU."""
    torch.manual_seed(1)
    sizes = {"vocab_size": 23, "d_model": 24, "n_heads": 4, "d_ff": 32, "max_len": 20}
    model = make_language_model(TransformerConfig(**{**sizes, **axes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0) if parameter.ndim == 2 else parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def logits(model: Model, ids: Tensor) -> Tensor:
    """Of whatever stacks it has, (B, T, V)."""
    both = model.transformer.encoder is not None and model.transformer.decoder is not None
    if model.transformer.decoder is None:
        return model.logits(model.transformer.encode(ids))
    memory = model.transformer.encode(ids.flip(1)) if both else None
    return model.logits(model.transformer.decode(ids, model.transformer.start(memory)))


def some_ids(model: Model) -> Tensor:
    drawn = torch.randint(model.config.vocab_size, (3, 12), generator=torch.Generator().manual_seed(2))
    return drawn.to(model.device)


def gradients(model: Model) -> list[Tensor]:
    """Of a sum of squares of the logits' logarithms of probability, which reaches every parameter."""
    model.zero_grad()
    logits(model, some_ids(model)).log_softmax(-1).square().mean().backward()
    return [p.grad.detach().cpu() for p in model.parameters() if p.grad is not None]


def laws(setting: Setting) -> Iterator[Row]:
    """Float32: the laws, and the CPU's gradients."""
    for name, held, sentence in self_test(setting.device):
        yield judged("laws", f"self-test: {name}", held, sentence)
    began = time.perf_counter()
    for name, axes in list(KINDS.items())[: setting.kinds]:
        if time.perf_counter() - began > LAST:
            yield Row("laws", name, "skipped", "no time left")
            continue
        model, twin = tiny(axes).to(setting.device), tiny(axes)
        card = report_card(model)
        broken = [f"law {v.number} ({v.name}): {v.sentence}" for v in card if v.outcome == "fail"]
        count = sum(v.outcome == "pass" for v in card)
        yield judged("laws", name, not broken, "; ".join(broken) or f"{count} laws hold, the others do not apply")
        pairs = zip(gradients(model), gradients(twin), strict=True)
        gap = max(float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-6)) for ours, theirs in pairs)
        yield judged("laws", f"{name}: gradients", gap <= SLACK, f"as the CPU's within {gap:.1e}")


@torch.no_grad()
def half(setting: Setting) -> Iterator[Row]:
    """bfloat16 beside float32, as weights and by autocast."""
    for name, axes in list(KINDS.items())[: setting.kinds]:
        model = tiny(axes).to(setting.device)
        right = logits(model, some_ids(model))
        with torch.autocast(setting.device.type, dtype=torch.bfloat16):
            mixed = logits(model, some_ids(model))
        narrow = logits(copy.deepcopy(model).bfloat16(), some_ids(model))
        gaps = [float((found.float() - right).square().mean().sqrt() / right.std()) for found in (narrow, mixed)]
        holds = all(gap <= HALF for gap in gaps)
        yield judged("half", name, holds, f"bfloat16 weights {gaps[0]:.3f}, autocast {gaps[1]:.3f} std of the logits")
    yield Row("half", "law 21, float16 loss scaling", "skipped", "regard does not train in float16")
