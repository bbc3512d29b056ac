"""GPT-NeoX (Black et al. 2022) and Pythia: decoders with both sublayers side by side, and part of each head turned.

What is unusual: q, k and v are one tensor, which goes by head, and within a head by q, k, v.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.errors import ConfigError
from regard.hub.families.common import ACTIVATIONS, activation_name, refuse_others
from regard.hub.families.rotary import read_rope, write_rope
from regard.hub.fields import Fields
from regard.hub.keymap import BY_HEADS, Family, Opened, Row
from regard.model import Rope, TransformerConfig

_LAYER = "decoder.layers.{i}"
ROWS = (
    Row("gpt_neox.embed_in", "tokens"),
    Row("gpt_neox.layers.{i}.input_layernorm", f"{_LAYER}.self_attn_norm"),
    Row("gpt_neox.layers.{i}.attention.query_key_value", tuple(f"{_LAYER}.self_attn.{x}" for x in "qkv"), BY_HEADS),
    Row("gpt_neox.layers.{i}.attention.dense", f"{_LAYER}.self_attn.o"),
    Row("gpt_neox.layers.{i}.post_attention_layernorm", f"{_LAYER}.ffn_norm"),
    Row("gpt_neox.layers.{i}.mlp.dense_h_to_4h", f"{_LAYER}.ffn.up"),
    Row("gpt_neox.layers.{i}.mlp.dense_4h_to_h", f"{_LAYER}.ffn.down"),
    Row("gpt_neox.final_layer_norm", "decoder.norm"),
    Row("embed_out.weight", "head.weight"),
)


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    config = TransformerConfig(
        vocab_size=fields.need(int, "vocab_size"),
        d_model=fields.need(int, "hidden_size"),
        n_heads=fields.need(int, "num_attention_heads"),
        d_ff=fields.need(int, "intermediate_size"),
        n_decoder_layers=fields.need(int, "num_hidden_layers"),
        positions=read_rope(fields, theta="rotary_emb_base", fraction="rotary_pct", share=0.25),
        max_len=fields.need(int, "max_position_embeddings"),
        norm_order="pre" if fields.get(bool, "use_parallel_residual") is False else "parallel",
        norm_eps=fields.get_or(1e-5, "layer_norm_eps"),
        activation=fields.chosen(ACTIVATIONS, "hidden_act", default="gelu"),
        bias="ffn" if fields.get(bool, "attention_bias") is False else "all",
        tie_embeddings=fields.get(bool, "tie_word_embeddings") is True,
    )
    return Opened(config, "language-model")


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    refuse_others(
        config, head, heads=("language-model",), n_encoder_layers=0, n_kv_heads=(None, config.n_heads),
        d_head=(None, config.d_model / config.n_heads), attn_scale=(None, config.head_width**-0.5), window=None,
        norm="layer", norm_order=("parallel", "pre"), gated_ffn=False, bias=("all", "ffn"), embed_scale=1.0,
        embed_norm=False, head_bias=False, logit_scale=1.0, qk_norm=False,
    )  # fmt: skip
    if not isinstance(config.positions, Rope):
        raise ConfigError("the family has no counterpart of this axis value", where="positions", expected="Rope",
                          got=config.positions)  # fmt: skip
    rope, fraction = write_rope(config.positions), config.positions.fraction
    rope["rope_parameters"]["partial_rotary_factor"] = fraction
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_decoder_layers,
        "num_attention_heads": config.n_heads,
        "max_position_embeddings": config.max_len,
        "layer_norm_eps": config.norm_eps,
        "hidden_act": activation_name(config.activation),
        "use_parallel_residual": config.norm_order == "parallel",
        "attention_bias": config.bias == "all",
        "tie_word_embeddings": config.tie_embeddings,
        "rotary_pct": fraction,
        "rotary_emb_base": config.positions.theta,
        **rope,
    }


NEOX = Family(
    name="GPT-NeoX, Pythia",
    model_types=("gpt_neox",),
    read=read,
    write=write,
    rows=lambda config, head: ROWS,
    base="gpt_neox.",
    heads=(r"embed_out\.",),
    buffers=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
    copies=(("embed_out.weight", "gpt_neox.embed_in.weight"),),
)
