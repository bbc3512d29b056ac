"""Pegasus (Zhang et al. 2020): pre-norm encoder and decoder with sinusoids, sines first and then cosines.

What is unusual: it is the family in which translators that were trained here go out, being the one published
architecture at their point of the axes.
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

ROWS = (
    SHARED,
    *LAYERS,
    *HEAD,
    *(Row(f"model.{stack}.layer_norm", f"{stack}.norm") for stack in ("encoder", "decoder")),
)
POINT: dict[str, Any] = {"positions": Sinusoidal(layout="split"), "norm_order": "pre", "embed_norm": False}


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    return Opened(TransformerConfig(**read_sizes(fields, names), **POINT), "language-model")


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    fields = write_sizes(config, head, decoder_vocab_size=None, tie_embeddings=True, **POINT)
    # Older readers ask, CTranslate2's too.
    norms = {"normalize_before": True, "add_final_layer_norm": True, "normalize_embedding": False}
    return {
        "architectures": ["PegasusForConditionalGeneration"],
        **fields,
        **norms,
        "static_position_embeddings": True,
    }


PEGASUS = Family(
    name="Pegasus",
    model_types=("pegasus",),
    read=read,
    write=write,
    rows=lambda config, head: ROWS,
    base=BASE,
    heads=OUTSIDE_BASE,
    buffers=COMPUTED_POSITIONS,
    computed=computed_positions,
    copies=COPIES,
)
