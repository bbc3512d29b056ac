"""What Marian, Pegasus and BART have in common: the names of their tensors, and of most fields of their config.json.

What is unusual: the three are one architecture at three points of our axes; each family's file names its point and the
few rows that are its own. What it does not know: where norms stand, and how order enters.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.hub.families.common import ACTIVATIONS, activation_name, refuse_others
from regard.hub.fields import Fields
from regard.hub.keymap import AS_ROW, Row
from regard.model import TransformerConfig
from regard.model.positions import make_positions

_SELF = {f"self_attn.{x}_proj": f"self_attn.{x}" for x in "qkv"}
_CROSS = {f"encoder_attn.{x}_proj": f"cross_attn.{x}" for x in "qkv"}
_LAYER = _SELF | {
    "self_attn.out_proj": "self_attn.o",
    "self_attn_layer_norm": "self_attn_norm",
    "fc1": "ffn.up",
    "fc2": "ffn.down",
    "final_layer_norm": "ffn_norm",
}
_DECODER_LAYER = _CROSS | {"encoder_attn.out_proj": "cross_attn.o", "encoder_attn_layer_norm": "cross_attn_norm"}
LAYERS = tuple(
    Row(f"model.{stack}.layers.{{i}}.{theirs}", f"{stack}.layers.{{i}}.{ours}")
    for stack, parts in (("encoder", _LAYER), ("decoder", _LAYER | _DECODER_LAYER))
    for theirs, ours in parts.items()
)
"""The blocks of both stacks."""
SHARED = Row("model.shared", "tokens")
"""The one matrix of embeddings."""
HEAD = (Row("lm_head.weight", "head.weight"), Row("final_logits_bias", "head.bias", AS_ROW))
"""The output projection, where it is not tied, and its constant term, which some files leave out."""

BASE = "model."
"""What all names begin with, but those that OUTSIDE_BASE fits."""
OUTSIDE_BASE = (r"lm_head\.", "final_logits_bias")
COPIES = (
    ("model.encoder.embed_tokens.weight", "model.shared.weight"),
    ("model.decoder.embed_tokens.weight", "model.shared.weight"),
    ("lm_head.weight", "model.shared.weight"),
)
"""What some files hold once more."""
COMPUTED_POSITIONS = (r"model\.(encoder|decoder)\.embed_positions\.weight",)
"""Tables of sinusoids, which some files of Marian and Pegasus hold."""


def computed_positions(config: TransformerConfig) -> dict[str, Tensor]:
    """What COMPUTED_POSITIONS fits, for a file of ours: (max_len, D) for each stack."""
    nothing, pos = torch.zeros(1, config.max_len, config.d_model), torch.arange(config.max_len)[None]
    table = make_positions(config, causal=False).embed(nothing, pos)[0]  # (T, D)
    return {f"model.{stack}.embed_positions.weight": table for stack in ("encoder", "decoder")}


def read_sizes(fields: Fields, names: Collection[str]) -> dict[str, Any]:
    """The axes that all three read alike, as arguments of TransformerConfig."""
    fields.only("is_encoder_decoder", True)
    width = fields.need(int, "d_model")
    return {
        "vocab_size": fields.need(int, "vocab_size"),
        "d_model": width,
        "n_heads": _alike(fields, "attention_heads"),
        "d_ff": _alike(fields, "ffn_dim"),
        "n_encoder_layers": fields.need(int, "encoder_layers"),
        "n_decoder_layers": fields.need(int, "decoder_layers"),
        "max_len": fields.need(int, "max_position_embeddings"),
        "activation": fields.chosen(ACTIVATIONS, "activation_function", default="gelu"),
        "embed_scale": math.sqrt(width) if fields.get(bool, "scale_embedding") else 1.0,
        "tie_embeddings": fields.get(bool, "tie_word_embeddings") is not False,
        "head_bias": "final_logits_bias" in names,
    }


def write_sizes(config: TransformerConfig, head: str, **axes: Any) -> dict[str, Any]:
    """Ours to the fields that all three write alike.

    Args:
        axes: those of the family's own point, name -> the one value it has, or a tuple of them.

    Raises:
        ConfigError: the family has no counterpart of an axis; the message names it.
    """
    refuse_others(
        config, head, heads=("language-model",), n_kv_heads=(None, config.n_heads),
        d_head=(None, config.d_model / config.n_heads), attn_scale=(None, config.head_width**-0.5), qk_norm=False,
        window=None, norm="layer", norm_eps=1e-5, gated_ffn=False, bias="all", n_token_types=0, logit_scale=1.0, **axes,
    )  # fmt: skip
    need_both_stacks(config)
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_len,
        "activation_function": activation_name(config.activation),
        "scale_embedding": _is_scaled(config),
        "tie_word_embeddings": config.tie_embeddings,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
    }


def need_both_stacks(config: TransformerConfig) -> None:
    """Raise ConfigError for a model that lacks its encoder or its decoder."""
    if not (config.n_encoder_layers and config.n_decoder_layers):
        raise ConfigError("the family has an encoder and a decoder", where="n_encoder_layers, n_decoder_layers",
                          got=f"{config.n_encoder_layers}, {config.n_decoder_layers}")  # fmt: skip


def _alike(fields: Fields, name: str) -> int:
    """A size that both stacks must have in common."""
    of_encoder, of_decoder = fields.need(int, f"encoder_{name}"), fields.need(int, f"decoder_{name}")
    if of_encoder != of_decoder:
        raise ConfigError("regard has one such size for encoder and decoder", where=f"config.json: decoder_{name}",
                          expected=f"{of_encoder}, as encoder_{name}", got=of_decoder)  # fmt: skip
    return of_encoder


def _is_scaled(config: TransformerConfig) -> bool:
    """Whether embeddings are multiplied by sqrt(d_model), the one factor but 1 that the families know."""
    root = math.sqrt(config.d_model)
    if config.embed_scale != 1 and not math.isclose(config.embed_scale, root, rel_tol=1e-6):
        raise ConfigError("the family has no counterpart of this axis value", where="embed_scale",
                          expected=f"1 or sqrt(d_model) = {root}", got=config.embed_scale)  # fmt: skip
    return config.embed_scale != 1
