"""The decoder families against transformers: every option that changes the mathematics, in one variant or another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from tokenizers import Tokenizer

from regard.hub.families.gpt2 import GPT2
from regard.hub.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from regard.hub.families.neox import NEOX
from regard.hub.keymap import Family

from .harness import (
    TOLERANCE,
    Peer,
    Texts,
    check_full_pass,
    check_greedy,
    check_mutants,
    check_ragged,
    check_round_trip,
    check_written_config,
    make_peer,
    opened,
    our_greedy,
    texts,
    worst,
)

pytestmark = pytest.mark.usefixtures("one_thread")

KINDS: dict[Family, tuple[type[Any], type[Any]]] = {
    GPT2: (hf.GPT2Config, hf.GPT2LMHeadModel),
    LLAMA: (hf.LlamaConfig, hf.LlamaForCausalLM),
    MISTRAL: (hf.MistralConfig, hf.MistralForCausalLM),
    QWEN2: (hf.Qwen2Config, hf.Qwen2ForCausalLM),
    QWEN3: (hf.Qwen3Config, hf.Qwen3ForCausalLM),
    NEOX: (hf.GPTNeoXConfig, hf.GPTNeoXForCausalLM),
}
SIZES = {
    "vocab_size": 61, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 40,
    "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = {"num_attention_heads": 6, "num_key_value_heads": 2}
GPT2_SIZES = {name: SIZES[name] for name in ("vocab_size", "bos_token_id", "eos_token_id")} | {
    "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 64,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}

VARIANTS: dict[str, tuple[Family, dict[str, Any]]] = {
    "gpt2": (GPT2, {}),
    "gpt2 untied, unscaled, narrow": (
        GPT2,
        {"tie_word_embeddings": False, "scale_attn_weights": False, "n_inner": 20, "activation_function": "relu"},
    ),
    "llama": (LLAMA, {}),
    "llama tied, grouped, wide heads": (
        LLAMA, {"tie_word_embeddings": True, **GROUPED, "head_dim": 10, "hidden_act": "gelu"},
    ),
    "llama attention biases": (LLAMA, {"attention_bias": True}),
    "llama ffn biases": (LLAMA, {"mlp_bias": True}),
    "llama all biases": (LLAMA, {"attention_bias": True, "mlp_bias": True, "rms_norm_eps": 0.1}),
    "llama linear": (LLAMA, {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0}}),
    "llama llama3": (LLAMA, {"rope_parameters": LLAMA3, **GROUPED}),
    "llama yarn": (LLAMA, {"rope_parameters": YARN}),
    "llama yarn growth": (LLAMA, {"rope_parameters": {**YARN, "attention_factor": 1.3, "beta_fast": 8.0}}),
    "llama yarn mscale": (LLAMA, {"rope_parameters": {**YARN, "mscale": 1.5, "mscale_all_dim": 0.5, "beta_slow": 2}}),
    "mistral": (MISTRAL, {"sliding_window": None, **GROUPED}),
    "mistral window": (MISTRAL, {"sliding_window": 7, "num_key_value_heads": 1}),
    "qwen2": (QWEN2, {"num_key_value_heads": None}),
    "qwen2 tied, grouped": (QWEN2, {"tie_word_embeddings": True, **GROUPED, "rope_parameters": YARN}),
    "qwen2 window": (
        QWEN2, {**GROUPED, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0},
    ),
    "qwen3": (QWEN3, {**GROUPED, "head_dim": 8}),
    "qwen3 tied, biases, window": (
        QWEN3,
        {
            "tie_word_embeddings": True, "attention_bias": True, "num_key_value_heads": 1, "head_dim": 8,
            "use_sliding_window": True, "sliding_window": 6, "layer_types": ["sliding_attention"] * 2,
        },
    ),
    "neox": (NEOX, {"hidden_size": 48}),
    "neox one after another, half turned, tied": (
        NEOX,
        {
            "use_parallel_residual": False, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},
            "tie_word_embeddings": True, "hidden_act": "gelu_new",
        },
    ),
    "neox without attention biases, scaled": (
        NEOX, {"attention_bias": False, "rope_parameters": {**YARN, "partial_rotary_factor": 1.0}},
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=VARIANTS)
def peer(request: pytest.FixtureRequest) -> Peer:
    """One tiny model of each variant."""
    family, options = VARIANTS[request.param]
    config_class, model_class = KINDS[family]
    config = config_class(**{**(GPT2_SIZES if family is GPT2 else SIZES), **options})
    return make_peer(family, model_class, config)


def test_texts_of_several_lengths(peer: Peer) -> None:
    check_full_pass(peer)


def test_texts_side_by_side(peer: Peer) -> None:
    check_ragged(peer)


def test_greedy_with_caches(peer: Peer) -> None:
    check_greedy(peer)


def test_tensors_and_configuration_come_back(peer: Peer) -> None:
    check_round_trip(peer)


def test_transformers_reads_what_is_written(peer: Peer) -> None:
    check_written_config(peer, *KINDS[peer.family])


def test_a_wrong_model_is_noticed(peer: Peer) -> None:
    names = check_mutants(peer)
    wrongs = {name.split(": ")[1] for name in names}
    assert wrongs >= {"q and k swapped", "missing", "positions moved"}
    assert ("bias dropped" in wrongs) == any(name.endswith(".bias") for name in peer.ours.state_dict())


OLD: dict[Family, tuple[str, ...]] = {
    GPT2: ("h.0.attn.bias", "h.1.attn.masked_bias"),
    LLAMA: ("layers.0.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"),
    NEOX: ("layers.1.attention.bias", "layers.0.attention.masked_bias", "layers.0.attention.rotary_emb.inv_freq"),
}
"""Tensors that hold nothing learned, in the files of former years."""


@pytest.mark.parametrize("family", OLD, ids=lambda family: family.name)
def test_files_of_former_years(family: Family) -> None:
    config_class, model_class = KINDS[family]
    config = config_class(**(GPT2_SIZES if family is GPT2 else SIZES), tie_word_embeddings=True)
    peer = make_peer(family, model_class, config)
    bare = {name.removeprefix(family.base): tensor for name, tensor in peer.tensors.items()}
    ((copy, of),) = family.copies
    bare |= {copy: peer.tensors[of].clone()} | {name: torch.ones(4, 4) for name in OLD[family]}
    again = opened(bare, peer.fields, family).state_dict()
    assert again.keys() == peer.ours.state_dict().keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in peer.ours.state_dict().items())


def test_a_long_text_sees_the_last_bit_of_an_angle() -> None:
    scaled = {**LLAMA3, "rope_theta": 500000.0, "original_max_position_embeddings": 1024}
    sizes = {**SIZES, "hidden_size": 64, "num_attention_heads": 2, "max_position_embeddings": 4096}
    peer = make_peer(LLAMA, hf.LlamaForCausalLM, hf.LlamaConfig(**sizes, rope_parameters=scaled))
    assert worst(peer, texts(peer, (2000,))) <= TOLERANCE


def test_a_trained_model_says_its_published_text(model_dir: Callable[[str], Path]) -> None:
    folder = model_dir("stories260k")
    fields = json.loads((folder / "config.json").read_text())
    ours = opened(load_file(folder / "model.safetensors"), fields, LLAMA)
    start = torch.tensor([[fields["bos_token_id"]]])
    given = Texts(start, torch.ones_like(start, dtype=torch.bool))
    said, _ = our_greedy(ours, given, steps=150)
    theirs = hf.LlamaForCausalLM.from_pretrained(folder).eval()
    assert said[0, :32].tolist() == theirs.generate(start, do_sample=False, max_new_tokens=32)[0, 1:].tolist()
    text = Tokenizer.from_file(str(folder / "tokenizer.json")).decode(said[0].tolist())
    # As shared/models/README.md prints it: Karpathy's description of the model, greedy from <s>.
    assert text.startswith(
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    )
    assert "Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know what to do." in text
    long = torch.tensor([[1, *said[0].tolist()]])
    given = Texts(long, torch.ones_like(long, dtype=torch.bool))
    peer = Peer(LLAMA, theirs, fields, {}, ours)
    assert worst(peer, given) <= TOLERANCE
