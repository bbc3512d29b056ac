"""Decoders' config.json as people have them: old and new fields, nulls and gaps; what has no counterpart is refused.

The angles of scaled rotary positions are compared with transformers' own, for the numbers of published models.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as hf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from regard.errors import ConfigError
from regard.hub.families.gpt2 import GPT2
from regard.hub.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from regard.hub.families.neox import NEOX
from regard.hub.families.rotary import read_rope
from regard.hub.fields import Fields
from regard.hub.keymap import Family
from regard.model import (
    Alibi,
    Learned,
    LinearScaling,
    Llama3Scaling,
    NoPositions,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    YarnScaling,
)
from regard.model.positions import frequencies
from regard.model.reference import scaled_speed
from regard.model.scaling import growth, rescaled

SIZES = {
    "vocab_size": 61, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 40,
    "max_position_embeddings": 64,
}  # fmt: skip
GPT2_SIZES = {"vocab_size": 61, "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 64}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
FAMILIES = {family.model_types[0]: family for family in (GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, NEOX)}


def read(model_type: str, /, **fields: Any) -> TransformerConfig:
    sizes = GPT2_SIZES if model_type == "gpt2" else SIZES
    return FAMILIES[model_type].read(Fields({**sizes, **fields}), ()).config


SAME: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gpt2 nulls": ("gpt2", {"n_inner": None, "scale_attn_weights": None}, {}),
    "gpt2 n_positions": ("gpt2", {"n_ctx": 1}, {}),
    "gpt2 sizes by their common names": ("gpt2", {"n_inner": 96, "activation_function": "gelu_pytorch_tanh"}, {}),
    "llama nulls": ("llama", dict.fromkeys(["head_dim", "num_key_value_heads", "rope_scaling", "hidden_act"]), {}),
    "llama integers": ("llama", {"rope_theta": 500000},
                       {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}),
    "llama default head width": ("llama", {"head_dim": 8, "num_key_value_heads": 3}, {}),
    "llama training only": ("llama", {"pretraining_tp": 2, "attention_dropout": 0.1, "torch_dtype": "float16"}, {}),
    "llama type": ("llama", {"rope_scaling": {"type": "linear", "factor": 2}},
                   {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}),
    "llama3 old": ("llama", {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
                   {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}}),
    "yarn original length beside": (
        "qwen2", {"rope_scaling": {"type": "yarn", "factor": 2.0}, "original_max_position_embeddings": 32},
        {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32}}),
    "yarn original length is max_position_embeddings": (
        "qwen2", {"rope_scaling": {"type": "yarn", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}}),
    "mistral missing is 4096": ("mistral", {}, {"sliding_window": 4096, "num_key_value_heads": 8}),
    "qwen2 switched off": ("qwen2", {"sliding_window": 4096, "max_window_layers": 1}, {"sliding_window": None}),
    "qwen2 no layer is far enough": (
        "qwen2", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2}, {}),
    "qwen3 missing is 128": ("qwen3", {}, {"head_dim": 128}),
    "neox old": ("gpt_neox", {"rotary_pct": 0.5, "rotary_emb_base": 500},
                 {"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 500.0, "rope_type": "default"}}),
    "neox missing": ("gpt_neox", {}, {"rotary_pct": 0.25, "use_parallel_residual": True, "attention_bias": True}),
}  # fmt: skip
"""Two ways to write the same model; the first is also read by transformers, which is the judge."""


@pytest.mark.parametrize("name", SAME)
def test_two_ways_to_say_the_same(name: str) -> None:
    model_type, one, other = SAME[name]
    grouped = {"num_attention_heads": 32, "hidden_size": 256} if model_type in ("mistral", "qwen2", "qwen3") else {}
    ours = read(model_type, **grouped, **one)
    assert ours == read(model_type, **grouped, **other)
    given = {**(GPT2_SIZES if model_type == "gpt2" else SIZES), **grouped, **one}
    theirs = hf.AutoConfig.for_model(model_type, **{name: value for name, value in given.items() if value is not None})
    assert ours == read(model_type, **theirs.to_dict())


def test_what_transformers_itself_has_forgotten() -> None:
    assert read("gpt2", n_positions=None, n_ctx=32).max_len == 32


def test_a_null_is_not_a_gap_where_the_family_means_something_by_a_gap() -> None:
    more = {"num_attention_heads": 8, "hidden_size": 32}
    assert read("mistral", **more).window == Window(size=4096)
    assert read("mistral", **more, sliding_window=None).window is None
    assert read("mistral", **more, num_key_value_heads=None).n_kv_heads is None


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "gpt2 scores scaled by layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse"),
    "gpt2 cross attention": ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
    "dynamic": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "dynamic"),
    "longrope": ("llama", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0]}}, "longrope"),
    "no factor": ("llama", {"rope_scaling": {"type": "linear"}}, "factor"),
    "a factor of nothing": ("llama", {"rope_scaling": {"type": "linear", "factor": 0}}, "factor"),
    "llama3 lacks a number": ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
    "llama3 upside down": (
        "llama", {"rope_scaling": {"rope_type": "llama3", **LLAMA3, "low_freq_factor": 4.0}}, "low_freq_factor"),
    "yarn without rounding": (
        "llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": False}}, "truncate"),
    "by layer": ("llama", {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "full_attention"),
    "scaling is a number": ("llama", {"rope_scaling": 2.0}, "rope_scaling"),
    "angles that do not fall": ("llama", {"rope_theta": 1.0}, "base"),
    "more than a head": ("gpt_neox", {"rotary_pct": 1.5}, "share"),
    "llama half turned": ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    "llama layers differ": ("llama", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
    "qwen2 layers differ": (
        "qwen2", {"use_sliding_window": True, "max_window_layers": 1, "num_key_value_heads": 3}, "layer_types"),
    "qwen3 layers differ": ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
    "window without a size": ("qwen2", {"layer_types": ["sliding_attention"] * 2}, "sliding_window"),
    "layer types that are none": ("qwen2", {"layer_types": 7}, "layer_types"),
    "layer types of something else": ("qwen2", {"layer_types": [{"a": 1}]}, "layer_types"),
    "an activation": ("llama", {"hidden_act": "quick_gelu"}, "quick_gelu"),
    "a size in words": ("llama", {"hidden_size": "many"}, "hidden_size"),
    "no layers": ("gpt_neox", {"num_hidden_layers": None}, "num_hidden_layers"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused_by_name(name: str) -> None:
    model_type, fields, said = REFUSED[name]
    with pytest.raises(ConfigError, match=said):
        read(model_type, **fields)


CHANGES: dict[str, tuple[Any, ...]] = {
    "n_kv_heads": (1,),
    "d_head": (6,),
    "attn_scale": (0.3, 1.0),
    "positions": (
        NoPositions(), Sinusoidal(), Learned(), Learned(offset=2), Alibi(), Relative(), Rope(), Rope(theta=500.0),
        Rope(fraction=0.5), Rope(scaling=LinearScaling(factor=2.0)),
        Rope(scaling=Llama3Scaling(factor=8.0, original_len=32, low=1.5)),
        Rope(scaling=YarnScaling(factor=4.0, original_len=32, fast=16.0, growth=1.25)),
    ),
    "max_len": (33,),
    "qk_norm": (False, True),
    "window": (None, Window(size=5)),
    "norm": ("layer", "rms"),
    "norm_order": ("post", "pre", "parallel"),
    "norm_eps": (0.01,),
    "activation": ("relu", "gelu", "gelu_tanh", "silu"),
    "gated_ffn": (False, True),
    "bias": ("all", "none", "qkv", "attention", "ffn"),
    "embed_scale": (2.0,),
    "embed_norm": (True,),
    "tie_embeddings": (False, True),
    "head_bias": (True,),
    "logit_scale": (0.5,),
    "n_encoder_layers": (1,),
}  # fmt: skip
"""Every axis that an exported model may have a value on."""


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_each_axis_value_comes_back_or_is_refused(family: Family) -> None:
    sizes = {"num_key_value_heads": 3, "head_dim": 8, "sliding_window": None}
    plain = read(family.model_types[0], **({} if family is GPT2 else sizes))
    kept = 0
    for axis, values in CHANGES.items():
        for value in values:
            try:
                changed = replace(plain, **{axis: value})
            except ConfigError:
                continue
            try:
                written = json.loads(json.dumps(family.write(changed, "language-model")))
            except ConfigError as refused:
                assert refused.where == axis, (axis, value, refused.where)
                continue
            kept += 1
            assert family.read(Fields(written), ()).config == changed, (axis, value)
    assert kept >= 12
    with pytest.raises(ConfigError, match="head"):
        family.write(plain, "pooler")


def test_a_scale_that_is_the_usual_one_in_other_words() -> None:
    plain = read("gpt2")
    assert GPT2.write(replace(plain, attn_scale=1 / math.sqrt(8)), "language-model")["scale_attn_weights"] is True
    assert GPT2.write(replace(plain, attn_scale=1.0), "language-model")["scale_attn_weights"] is False


PUBLISHED = {
    "Llama 3.1": {"rope_type": "llama3", "rope_theta": 500000.0, **LLAMA3},
    "Llama 3.2": {"rope_type": "llama3", "rope_theta": 500000.0, **LLAMA3, "factor": 32.0},
    "Qwen2.5 long": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768,
    },
    "a narrow ramp": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 16.0, "original_max_position_embeddings": 4096,
        "beta_fast": 2.0, "beta_slow": 1.9, "mscale": 1.0, "mscale_all_dim": 0.7,
    },
    "Vicuna": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_scaled_angles(name: str) -> None:
    settings, width = PUBLISHED[name], 128
    config = hf.LlamaConfig(
        hidden_size=width, num_attention_heads=1, max_position_embeddings=131072, rope_parameters=dict(settings)
    )
    theirs, their_growth = ROPE_INIT_FUNCTIONS[settings["rope_type"]](config)
    rope = read_rope(Fields({"rope_parameters": settings, "max_position_embeddings": 131072}))
    ours = rescaled(frequencies(width, rope.theta, torch.zeros(1)), rope.theta, rope.scaling)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    assert growth(rope.scaling) == pytest.approx(their_growth, rel=1e-12)
    slow, reference_growth = scaled_speed(width, rope.theta, rope.scaling)
    torch.testing.assert_close(torch.tensor(slow), theirs, rtol=1e-6, atol=0)
    assert reference_growth == pytest.approx(their_growth, rel=1e-12)
    assert not torch.allclose(ours, frequencies(width, rope.theta, ours), rtol=1e-2)
