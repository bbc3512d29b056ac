"""Tiny models of every kind to look into: random ones whose outputs vary, with a vocabulary and a task around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from regard.loaded import Loaded
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
    make_model,
)
from regard.text import Tokenizer

Tiny = Callable[..., Model]
Open = Callable[..., Loaded]

STACKS = {
    "encoder": {"n_encoder_layers": 2},
    "decoder": {"n_decoder_layers": 2},
    "both": {"n_encoder_layers": 2, "n_decoder_layers": 2},
}
SCHEMES = {
    "none": NoPositions(),
    "sinusoidal": Sinusoidal(),
    "learned": Learned(),
    "rope": Rope(theta=100.0),
    "partial rope": Rope(theta=100.0, fraction=0.5),
    "alibi": Alibi(),
    "relative": Relative(buckets=8, max_distance=12),
}
VARIANTS = {
    "post": {"norm_order": "post"},
    "pre": {"norm_order": "pre", "norm": "rms", "n_kv_heads": 2, "bias": "none", "gated_ffn": True, "qk_norm": True},
    "parallel": {"norm_order": "parallel", "activation": "gelu"},
    "window": {"norm_order": "pre", "window": Window(size=3), "n_kv_heads": 1, "attn_scale": 0.4},
}
HEADS = {
    "translation": ("both", "language-model"),
    "language-model": ("decoder", "language-model"),
    "masked-lm": ("encoder", "masked-lm"),
    "embedding": ("encoder", "none"),
    "classification": ("encoder", "classifier"),
    "tagging": ("encoder", "tagger"),
    "question-answering": ("encoder", "span"),
}
TEXT = ["A man rides a bicycle.", "Ein Mann fährt Fahrrad, 3 km!", "un café 😀 \n noir", "the cat sat on the mat"]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """For matrices this small, two threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    """`tiny("both", "rope", "pre", vocab_size=..)`: a random model, in evaluation mode, whose logits vary."""

    def make(
        stack: str, scheme: str = "sinusoidal", variant: str = "post", head: str = "language-model", n_labels: int = 3,
        **axes: object,
    ) -> Model:  # fmt: skip
        sizes = {"vocab_size": 23, "d_model": 16, "n_heads": 4, "d_ff": 24, "max_len": 64}
        chosen = {**sizes, "positions": SCHEMES[scheme], **STACKS[stack], **VARIANTS[variant], **axes}
        torch.manual_seed(1)
        config = TransformerConfig(**chosen)
        model = make_language_model(config) if head == "language-model" else make_model(config, head, n_labels)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0) if parameter.ndim == 2 else parameter.add_(torch.randn_like(parameter) * 0.3)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXT * 3, vocab_size=340, specials=["<to:de>", "<to:fr>"])


@pytest.fixture(scope="session")
def opened(tiny: Tiny, tokenizer: Tokenizer) -> Open:
    """`opened("tagging", "rope", "pre")`: such a model as `regard.load` gives it."""

    def make(task: str, scheme: str = "sinusoidal", variant: str = "post", **more: object) -> Loaded:
        stack, head = HEADS[task]
        vocabulary, writes = more.pop("tokenizer", tokenizer), more.pop("target_tokenizer", None)
        if writes is not None:
            more["decoder_vocab_size"] = writes.vocab_size
        about = {"task": task, **more.pop("about", {})}
        if task in ("classification", "tagging"):
            about = {"labels": ["O", "B-A", "B-B"], **about}
        if task == "question-answering":
            about |= {"answering": {"length": 60, "overlap": 8, "longest": 6, "null": True}}
        labels = len(about.get("labels", "1"))
        model = tiny(stack, scheme, variant, head, labels, vocab_size=vocabulary.vocab_size, **more)
        return Loaded(Path(task), model, vocabulary, writes or vocabulary, about)

    return make
