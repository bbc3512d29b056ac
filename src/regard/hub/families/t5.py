"""T5 (Raffel et al. 2020), v1.0 and v1.1 with FLAN: pre-norm, RMSNorm, no biases, relative positions, unscaled scores.

What is unusual: v1.0 ties the output to the embeddings and scales what goes into it, v1.1 does neither, and config.json
says both by one field, `tie_word_embeddings`. transformers 5 always writes true there, and the scale in a field of its
own, `scale_decoder_outputs`; whether the two are tied is then seen by the output's tensor, there or not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.errors import ConfigError
from regard.hub.families.common import ACTIVATIONS, activation_name, refuse_others
from regard.hub.families.seq2seq import need_both_stacks
from regard.hub.fields import Fields
from regard.hub.keymap import Family, Opened, Row
from regard.model import Relative, TransformerConfig
from regard.model.config import Activation

_SELF, _CROSS = ("0.SelfAttention", "self_attn"), ("1.EncDecAttention", "cross_attn")


def _stack(stack: str, attentions: tuple[tuple[str, str], ...], *, gated: bool) -> tuple[Row, ...]:
    layer, ours = f"{stack}.block.{{i}}.layer", f"{stack}.layers.{{i}}"
    ffn = f"{layer}.{len(attentions)}"
    up = {"wi_0": "gate", "wi_1": "up"} if gated else {"wi": "up"}
    return (
        Row(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", f"{stack}.positions.weight"),
        *(Row(f"{layer}.{a}.{x}", f"{ours}.{b}.{x}") for a, b in attentions for x in "qkvo"),
        *(Row(f"{layer}.{a[0]}.layer_norm", f"{ours}.{b}_norm") for a, b in attentions),
        *(Row(f"{ffn}.DenseReluDense.{a}", f"{ours}.ffn.{b}") for a, b in up.items()),
        Row(f"{ffn}.DenseReluDense.wo", f"{ours}.ffn.down"),
        Row(f"{ffn}.layer_norm", f"{ours}.ffn_norm"),
        Row(f"{stack}.final_layer_norm", f"{stack}.norm"),
    )


def rows(config: TransformerConfig, head: str) -> tuple[Row, ...]:
    """The table, for a plain or a gated feed-forward sublayer."""
    return (
        Row("shared", "tokens"),
        *_stack("encoder", (_SELF,), gated=config.gated_ffn),
        *_stack("decoder", (_SELF, _CROSS), gated=config.gated_ffn),
        Row("lm_head.weight", "head.weight"),
    )


def _feed_forward(fields: Fields) -> tuple[bool, Activation]:
    """Gated or not, and the activation; "gated-gelu" means the tanh form, unless `dense_act_fn` says otherwise."""
    told = fields.get(str, "feed_forward_proj") or "relu"
    gated, name = fields.get(bool, "is_gated_act"), fields.get(str, "dense_act_fn")
    implied = "gelu_new" if told == "gated-gelu" else told.removeprefix("gated-")
    activation = Fields({"feed_forward_proj": name or implied}).chosen(ACTIVATIONS, "feed_forward_proj")
    return told.startswith("gated-") if gated is None else gated, activation


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    fields.only("is_encoder_decoder", True)
    width, layers = fields.need(int, "d_model"), fields.need(int, "num_layers")
    gated, activation = _feed_forward(fields)
    declared = fields.get(bool, "tie_word_embeddings") is not False
    told = fields.get(bool, "scale_decoder_outputs")
    scaled = declared if told is None else told
    config = TransformerConfig(
        vocab_size=fields.need(int, "vocab_size"),
        d_model=width,
        n_heads=fields.need(int, "num_heads"),
        d_head=fields.need(int, "d_kv"),
        d_ff=fields.need(int, "d_ff"),
        n_encoder_layers=layers,
        n_decoder_layers=fields.get_or(layers, "num_decoder_layers"),
        attn_scale=1.0,
        positions=Relative(
            buckets=fields.get_or(32, "relative_attention_num_buckets"),
            max_distance=fields.get_or(128, "relative_attention_max_distance"),
        ),
        max_len=fields.get_or(512, "n_positions"),
        norm="rms",
        norm_order="pre",
        norm_eps=fields.get_or(1e-6, "layer_norm_epsilon"),
        activation=activation,
        gated_ffn=gated,
        bias="none",
        tie_embeddings=declared and (scaled or "lm_head.weight" not in names),
        logit_scale=width**-0.5 if scaled else 1.0,
    )
    return Opened(config, "language-model")


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    refuse_others(
        config, head, heads=("language-model",), decoder_vocab_size=None, n_kv_heads=(None, config.n_heads),
        attn_scale=1.0, qk_norm=False, window=None, norm="rms", norm_order="pre", bias="none", n_token_types=0,
        embed_scale=1.0, embed_norm=False, head_bias=False, logit_scale=(1.0, config.d_model**-0.5),
    )  # fmt: skip
    need_both_stacks(config)
    if not isinstance(config.positions, Relative):
        raise ConfigError("T5 has relative positions", where="positions", got=config.positions)
    name = activation_name(config.activation)
    told = "gelu" if config.gated_ffn and name == "gelu_new" else name
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "d_kv": config.head_width,
        "d_ff": config.d_ff,
        "num_heads": config.n_heads,
        "num_layers": config.n_encoder_layers,
        "num_decoder_layers": config.n_decoder_layers,
        "relative_attention_num_buckets": config.positions.buckets,
        "relative_attention_max_distance": config.positions.max_distance,
        "n_positions": config.max_len,
        "layer_norm_epsilon": config.norm_eps,
        "feed_forward_proj": f"gated-{told}" if config.gated_ffn else told,
        "dense_act_fn": name,
        "is_gated_act": config.gated_ffn,
        "tie_word_embeddings": config.tie_embeddings,
        "scale_decoder_outputs": config.logit_scale != 1,
        "dropout_rate": 0.0,
    }


T5 = Family(
    name="T5",
    model_types=("t5",),
    read=read,
    write=write,
    rows=rows,
    buffers=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    copies=(
        ("encoder.embed_tokens.weight", "shared.weight"),
        ("decoder.embed_tokens.weight", "shared.weight"),
        ("lm_head.weight", "shared.weight"),
    ),
)
