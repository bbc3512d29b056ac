"""BART (Lewis et al. 2020): post-norm encoder and decoder, learned positions, a norm right after the embeddings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.hub.families.seq2seq import BASE, COPIES, HEAD, LAYERS, OUTSIDE_BASE, SHARED, read_sizes, write_sizes
from regard.hub.fields import Fields
from regard.hub.keymap import Family, Opened, Row
from regard.model import Learned, TransformerConfig

ROWS = (
    SHARED,
    *LAYERS,
    *HEAD,
    *(Row(f"model.{stack}.embed_positions.weight", f"{stack}.positions.weight") for stack in ("encoder", "decoder")),
    *(Row(f"model.{stack}.layernorm_embedding", f"{stack}.embed_norm") for stack in ("encoder", "decoder")),
)
POINT: dict[str, Any] = {"positions": Learned(offset=2), "norm_order": "post", "embed_norm": True}


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    return Opened(TransformerConfig(**read_sizes(fields, names), **POINT), "language-model")


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    fields = write_sizes(config, head, decoder_vocab_size=None, tie_embeddings=True, **POINT)
    norms = {"normalize_before": False, "normalize_embedding": True}  # older readers ask, CTranslate2's too
    return {"architectures": ["BartForConditionalGeneration"], **fields, **norms}


BART = Family(
    name="BART",
    model_types=("bart",),
    read=read,
    write=write,
    rows=lambda config, head: ROWS,
    base=BASE,
    heads=OUTSIDE_BASE,
    copies=COPIES,
)
