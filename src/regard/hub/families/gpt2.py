"""GPT-2 (Radford et al. 2019): a pre-norm decoder with learned positions; matrices stored as (in, out)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from regard.errors import ConfigError
from regard.hub.families.common import ACTIVATIONS, activation_name, refuse_others
from regard.hub.fields import Fields
from regard.hub.keymap import CONV1D, Family, Opened, Row
from regard.model import Learned, TransformerConfig

_LAYER = "decoder.layers.{i}"
ROWS = (
    Row("transformer.wte", "tokens"),
    Row("transformer.wpe.weight", "decoder.positions.weight"),
    Row("transformer.h.{i}.ln_1", f"{_LAYER}.self_attn_norm"),
    Row("transformer.h.{i}.attn.c_attn", tuple(f"{_LAYER}.self_attn.{x}" for x in "qkv"), CONV1D),
    Row("transformer.h.{i}.attn.c_proj", f"{_LAYER}.self_attn.o", CONV1D),
    Row("transformer.h.{i}.ln_2", f"{_LAYER}.ffn_norm"),
    Row("transformer.h.{i}.mlp.c_fc", f"{_LAYER}.ffn.up", CONV1D),
    Row("transformer.h.{i}.mlp.c_proj", f"{_LAYER}.ffn.down", CONV1D),
    Row("transformer.ln_f", "decoder.norm"),
    Row("lm_head.weight", "head.weight"),
)


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    fields.only("scale_attn_by_inverse_layer_idx", False)
    fields.only("add_cross_attention", False)
    width = fields.need(int, "n_embd", "hidden_size")
    scaled = fields.get(bool, "scale_attn_weights")
    config = TransformerConfig(
        vocab_size=fields.need(int, "vocab_size"),
        d_model=width,
        n_heads=fields.need(int, "n_head", "num_attention_heads"),
        d_ff=fields.get_or(4 * width, "n_inner"),
        n_decoder_layers=fields.need(int, "n_layer", "num_hidden_layers"),
        positions=Learned(),
        max_len=fields.need(int, "n_positions", "n_ctx", "max_position_embeddings"),
        attn_scale=None if scaled is None or scaled else 1.0,
        norm_order="pre",
        norm_eps=fields.get_or(1e-5, "layer_norm_epsilon"),
        activation=fields.chosen(ACTIVATIONS, "activation_function", default="gelu_new"),
        tie_embeddings=fields.get(bool, "tie_word_embeddings") is not False,
    )
    return Opened(config, "language-model")


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    refuse_others(
        config, head, heads=("language-model",), n_encoder_layers=0, n_kv_heads=(None, config.n_heads),
        d_head=(None, config.d_model / config.n_heads), positions=Learned(), window=None, norm="layer",
        norm_order="pre", gated_ffn=False, bias="all", embed_scale=1.0, embed_norm=False, head_bias=False,
        logit_scale=1.0, qk_norm=False,
    )  # fmt: skip
    usual = math.isclose(config.scale, config.head_width**-0.5)
    if not (usual or math.isclose(config.scale, 1.0)):
        raise ConfigError("the family has no counterpart of this axis value", where="attn_scale",
                          expected="1 / sqrt(d_head) or 1", got=config.attn_scale)  # fmt: skip
    return {
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocab_size,
        "n_embd": config.d_model,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "n_layer": config.n_decoder_layers,
        "n_positions": config.max_len,
        "scale_attn_weights": usual,
        "layer_norm_epsilon": config.norm_eps,
        "activation_function": activation_name(config.activation),
        "tie_word_embeddings": config.tie_embeddings,
    }


GPT2 = Family(
    name="GPT-2",
    model_types=("gpt2",),
    read=read,
    write=write,
    rows=lambda config, head: ROWS,
    base="transformer.",
    heads=(r"lm_head\.",),
    buffers=(r"transformer\.h\.\d+\.attn\.(masked_)?bias",),
    copies=(("lm_head.weight", "transformer.wte.weight"),),
)
