"""Marian and Opus-MT (Junczys-Dowmunt et al. 2018): the chapter's Transformer, with sines first and then cosines.

What is unusual: some have two vocabularies, each with its own embeddings; the output is tied to those of the target.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.hub.families.seq2seq import (
    BASE,
    COMPUTED_POSITIONS,
    COPIES,
    HEAD,
    LAYERS,
    OUTSIDE_BASE,
    SHARED,
    computed_positions,
    read_sizes,
    write_sizes,
)
from regard.hub.fields import Fields
from regard.hub.keymap import Family, Opened, Row
from regard.model import Sinusoidal, TransformerConfig

SEPARATE = (Row("model.encoder.embed_tokens", "tokens"), Row("model.decoder.embed_tokens", "decoder_tokens"))
POINT: dict[str, Any] = {"positions": Sinusoidal(layout="split"), "norm_order": "post", "embed_norm": False}


def rows(config: TransformerConfig, head: str) -> tuple[Row, ...]:
    """The table, for one vocabulary or for two."""
    return (*((SHARED,) if config.decoder_vocab_size is None else SEPARATE), *LAYERS, *HEAD)


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    sizes = read_sizes(fields, names)
    shared = fields.get(bool, "share_encoder_decoder_embeddings") is not False
    own = None if shared else fields.get_or(sizes["vocab_size"], "decoder_vocab_size")
    return Opened(TransformerConfig(decoder_vocab_size=own, **sizes, **POINT), "language-model")


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    shared = config.decoder_vocab_size is None
    fields = write_sizes(config, head, tie_embeddings=True if shared else (True, False), **POINT)
    return {
        "architectures": ["MarianMTModel"],
        **fields,
        "share_encoder_decoder_embeddings": shared,
        "decoder_vocab_size": config.target_vocab_size,
        "normalize_before": False,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    }


MARIAN = Family(
    name="Marian",
    model_types=("marian",),
    read=read,
    write=write,
    rows=rows,
    base=BASE,
    heads=OUTSIDE_BASE,
    buffers=COMPUTED_POSITIONS,
    computed=computed_positions,
    copies=(*COPIES, ("lm_head.weight", "model.decoder.embed_tokens.weight")),
)
