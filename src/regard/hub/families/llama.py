"""LLaMA and its line (Touvron et al. 2023): pre-norm decoders with RMSNorm, rotary positions and a gated feed-forward.

What is unusual: one table of names serves them all. What a member does in its own way stands in a `Member`, as data
that is read in both directions; no code asks which member it serves.

    Llama 1, 2, 3   biases by two switches; RoPE's angles scaled for long texts
    Mistral         a sliding window
    Qwen2           biases of q, k and v alone; a window by a switch
    Qwen3           no such biases, and a norm of each head's queries and keys
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from regard.errors import ConfigError
from regard.hub.families.common import ACTIVATIONS, activation_name, refuse_others
from regard.hub.families.rotary import read_rope, write_rope
from regard.hub.fields import Fields
from regard.hub.keymap import Family, Opened, Row
from regard.model import Rope, TransformerConfig, Window
from regard.model.config import Biases

_LAYER = "decoder.layers.{i}"
ROWS = (
    Row("model.embed_tokens", "tokens"),
    Row("model.layers.{i}.input_layernorm", f"{_LAYER}.self_attn_norm"),
    *(Row(f"model.layers.{{i}}.self_attn.{x}_proj", f"{_LAYER}.self_attn.{x}") for x in "qkvo"),
    *(Row(f"model.layers.{{i}}.self_attn.{x}_norm", f"{_LAYER}.self_attn.{x}_norm") for x in "qk"),
    Row("model.layers.{i}.post_attention_layernorm", f"{_LAYER}.ffn_norm"),
    *(Row(f"model.layers.{{i}}.mlp.{x}_proj", f"{_LAYER}.ffn.{x}") for x in ("up", "gate", "down")),
    Row("model.norm", "decoder.norm"),
    Row("lm_head.weight", "head.weight"),
)


def _one_window(fields: Fields, size: int | None, kinds: set[str]) -> Window | None:
    """The window that all layers have, or none has. Raises ConfigError when layers differ.

    Args:
        kinds: what the layers are where `layer_types` does not say it.
    """
    said = fields.values.get("layer_types")
    kinds = kinds if said is None else {str(kind) for kind in said} if isinstance(said, list) else {str(said)}
    if kinds == {"full_attention"}:
        return None
    if kinds == {"sliding_attention"} and size is not None:
        return Window(size=size)
    raise ConfigError("regard gives all layers the same window", where="config.json: layer_types, sliding_window",
                      expected="full_attention in all layers, or sliding_attention with a size",
                      got=f"{', '.join(sorted(kinds))} and {size}")  # fmt: skip


def _read_plain(fields: Fields) -> Window | None:
    return _one_window(fields, None, {"full_attention"})


def _read_sliding(fields: Fields) -> Window | None:
    size = fields.get(int, "sliding_window")
    return _one_window(fields, size, {"full_attention" if size is None else "sliding_attention"})


def _read_switched(fields: Fields) -> Window | None:
    """Layers from `max_window_layers` on look back less far, and only when `use_sliding_window` says so."""
    size = fields.get(int, "sliding_window") if fields.get(bool, "use_sliding_window") else None
    first, layers = fields.need(int, "max_window_layers"), fields.need(int, "num_hidden_layers")
    full = {"full_attention"} if size is None or first > 0 else set()
    return _one_window(fields, size, full | ({"sliding_attention"} if size is not None and first < layers else set()))


def _write_sliding(config: TransformerConfig) -> dict[str, Any]:
    return {"sliding_window": config.window.size if config.window else None}


def _write_switched(config: TransformerConfig) -> dict[str, Any]:
    kind = "full_attention" if config.window is None else "sliding_attention"
    return _write_sliding(config) | {
        "use_sliding_window": config.window is not None,
        "max_window_layers": config.n_decoder_layers if config.window is None else 0,
        "layer_types": [kind] * config.n_decoder_layers,
    }


@dataclass(frozen=True, kw_only=True)
class Member:
    """What one member of the line does in its own way.

    Attributes:
        model_type: its name in config.json.
        architecture: its class in transformers.
        biases: our bias axis -> the switches that say so, off where missing; no other value can be written.
        read_window: the window in its configuration.
        write_window: the fields that say it; None: there is no window.
        missing: what a missing field means, where that is a value of its own.
    """

    model_type: str
    architecture: str
    biases: Mapping[Biases, Mapping[str, bool]]
    read_window: Callable[[Fields], Window | None] = _read_plain
    write_window: Callable[[TransformerConfig], dict[str, Any]] | None = None
    qk_norm: bool = False
    missing: Mapping[str, Any] = field(default_factory=dict)


def read(member: Member, given: Fields, names: Collection[str]) -> Opened:
    """A member's configuration to ours."""
    fields = Fields({**member.missing, **given.values}, given.seen)
    heads, width = fields.need(int, "num_attention_heads"), fields.need(int, "hidden_size")
    kv_heads, head_width = fields.get(int, "num_key_value_heads"), fields.get(int, "head_dim")
    config = TransformerConfig(
        vocab_size=fields.need(int, "vocab_size"),
        d_model=width,
        n_heads=heads,
        n_kv_heads=None if kv_heads == heads else kv_heads,
        d_head=None if head_width is not None and head_width * heads == width else head_width,
        d_ff=fields.need(int, "intermediate_size"),
        n_decoder_layers=fields.need(int, "num_hidden_layers"),
        positions=read_rope(fields),
        max_len=fields.need(int, "max_position_embeddings"),
        qk_norm=member.qk_norm,
        window=member.read_window(fields),
        norm="rms",
        norm_order="pre",
        norm_eps=fields.get_or(1e-6, "rms_norm_eps"),
        activation=fields.chosen(ACTIVATIONS, "hidden_act", default="silu"),
        gated_ffn=True,
        bias=_read_bias(member, fields),
        tie_embeddings=fields.get(bool, "tie_word_embeddings") is True,
    )
    return Opened(config, "language-model")


def write(member: Member, config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to a member's configuration."""
    refuse_others(
        config, head, heads=("language-model",), n_encoder_layers=0, attn_scale=(None, config.head_width**-0.5),
        norm="rms", norm_order="pre", gated_ffn=True, bias=tuple(member.biases), qk_norm=member.qk_norm,
        window=config.window if member.write_window else None, embed_scale=1.0, embed_norm=False, head_bias=False,
        logit_scale=1.0,
    )  # fmt: skip
    if not isinstance(config.positions, Rope) or config.positions.fraction != 1:
        raise ConfigError("the family has no counterpart of this axis value", where="positions",
                          expected="Rope, of whole heads", got=config.positions)  # fmt: skip
    return {
        "architectures": [member.architecture],
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_decoder_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_width,
        "hidden_act": activation_name(config.activation),
        "max_position_embeddings": config.max_len,
        "rms_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tie_embeddings,
        **member.biases[config.bias],
        **(member.write_window(config) if member.write_window else {}),
        **write_rope(config.positions),
    }


def _read_bias(member: Member, fields: Fields) -> Biases:
    """The value of our axis whose switches stand as the configuration has them."""
    for bias, switches in member.biases.items():
        if all((fields.get(bool, name) or False) is on for name, on in switches.items()):
            return bias
    raise AssertionError("a member's biases cover all positions of its switches")


def _family(name: str, member: Member) -> Family:
    return Family(
        name=name,
        model_types=(member.model_type,),
        read=partial(read, member),
        write=partial(write, member),
        rows=lambda config, head: ROWS,
        base="model.",
        heads=(r"lm_head\.",),
        buffers=(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",),
        copies=(("lm_head.weight", "model.embed_tokens.weight"),),
    )


LLAMA = _family("Llama", Member(
    model_type="llama",
    architecture="LlamaForCausalLM",
    biases={
        "none": {"attention_bias": False, "mlp_bias": False},
        "attention": {"attention_bias": True, "mlp_bias": False},
        "ffn": {"attention_bias": False, "mlp_bias": True},
        "all": {"attention_bias": True, "mlp_bias": True},
    },
))  # fmt: skip
MISTRAL = _family("Mistral", Member(
    model_type="mistral",
    architecture="MistralForCausalLM",
    biases={"none": {}},
    read_window=_read_sliding,
    write_window=_write_sliding,
    missing={"sliding_window": 4096, "num_key_value_heads": 8},
))  # fmt: skip
QWEN2 = _family("Qwen2", Member(
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    biases={"qkv": {}},
    read_window=_read_switched,
    write_window=_write_switched,
    missing={"sliding_window": 4096, "max_window_layers": 28, "num_key_value_heads": 32},
))  # fmt: skip
QWEN3 = _family("Qwen3", Member(
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    biases={"none": {"attention_bias": False}, "attention": {"attention_bias": True}},
    qk_norm=True,
    read_window=_read_switched,
    write_window=_write_switched,
    missing={"sliding_window": 4096, "max_window_layers": 28, "num_key_value_heads": 32, "head_dim": 128},
))  # fmt: skip
