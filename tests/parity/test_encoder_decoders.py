"""The encoder-decoder families against transformers: every option that changes the mathematics, in some variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

from regard.errors import ConfigError
from regard.generate.beam import Hypothesis, beam_search
from regard.hub.families.bart import BART
from regard.hub.families.marian import MARIAN
from regard.hub.families.pegasus import PEGASUS
from regard.hub.families.t5 import T5
from regard.hub.fields import Fields
from regard.hub.keymap import Family
from regard.model import Learned, Relative, Sinusoidal, TransformerConfig, Window
from regard.model.positions import RelativePositions, make_positions

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
    our_logits,
    texts,
    worst,
)

IDS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
START, PAD = 0, 0
LIMIT = 24
"""Tokens that a beam search may say."""

SIZES = IDS | {
    "vocab_size": 61, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 256,
    "forced_eos_token_id": None,
}  # fmt: skip
MARIAN_SIZES = SIZES | {"decoder_vocab_size": 61}
T5_SIZES = IDS | {"vocab_size": 61, "d_model": 24, "d_kv": 10, "d_ff": 40, "num_layers": 2, "num_heads": 3}


def untied_t5(config: Any) -> nn.Module:
    """As a published v1.1 is: transformers 5 ties whatever config.json says, and unties when the file has both."""
    model = hf.T5ForConditionalGeneration(config)
    model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))
    model.all_tied_weights_keys.pop("lm_head.weight", None)
    return model


KINDS: dict[str, tuple[type[Any], Callable[[Any], nn.Module]]] = {
    "Marian": (hf.MarianConfig, hf.MarianMTModel),
    "Pegasus": (hf.PegasusConfig, hf.PegasusForConditionalGeneration),
    "BART": (hf.BartConfig, hf.BartForConditionalGeneration),
    "T5": (hf.T5Config, hf.T5ForConditionalGeneration),
}
VARIANTS: dict[str, tuple[Family, dict[str, Any]]] = {
    "marian": (MARIAN, MARIAN_SIZES | {"activation_function": "relu"}),
    "marian scaled, swish": (MARIAN, MARIAN_SIZES | {"scale_embedding": True, "activation_function": "swish"}),
    "marian two vocabularies": (
        MARIAN, MARIAN_SIZES | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 47},
    ),
    "marian two vocabularies, untied, uneven": (
        MARIAN,
        MARIAN_SIZES | {
            "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 47, "tie_word_embeddings": False,
            "encoder_layers": 3, "decoder_layers": 1,
        },
    ),
    "pegasus": (PEGASUS, SIZES | {"activation_function": "gelu"}),
    "pegasus scaled, relu, uneven": (
        PEGASUS, SIZES | {"scale_embedding": True, "activation_function": "relu", "encoder_layers": 1},
    ),
    "bart": (BART, SIZES),
    "bart scaled, relu": (BART, SIZES | {"scale_embedding": True, "activation_function": "relu"}),
    "t5": (T5, T5_SIZES),
    "t5 near buckets, uneven": (
        T5,
        T5_SIZES | {
            "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "num_decoder_layers": 1,
            "layer_norm_epsilon": 0.01,
        },
    ),
    "t5 v1.1": (T5, T5_SIZES | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5 gated silu": (T5, T5_SIZES | {"feed_forward_proj": "gated-silu"}),
}  # fmt: skip
UNTIED = ("t5 v1.1",)


@pytest.fixture(scope="module", params=VARIANTS)
def peer(request: pytest.FixtureRequest) -> Peer:
    """One tiny model of each variant."""
    return made(request.param)


@cache
def made(variant: str) -> Peer:
    return make(variant)


def make(variant: str, **more: Any) -> Peer:
    torch.set_num_threads(1)
    family, options = VARIANTS[variant]
    config_class, _ = KINDS[family.name]
    seed = 2 if family is T5 else 1  # none of whose outputs hangs on two tokens that are nearly even
    return make_peer(family, model_of(variant), config_class(**options | more), seed=seed, fixed=family.buffers)


def model_of(variant: str) -> Callable[[Any], nn.Module]:
    return untied_t5 if variant in UNTIED else KINDS[VARIANTS[variant][0].name][1]


def test_texts_of_several_lengths(peer: Peer) -> None:
    check_full_pass(peer)


def test_texts_side_by_side(peer: Peer) -> None:
    check_ragged(peer)


def test_texts_beyond_the_largest_distance(peer: Peer) -> None:
    assert worst(peer, texts(peer, (190, 133), target=170)) <= TOLERANCE


def test_greedy_with_caches(peer: Peer) -> None:
    check_greedy(peer, start=START)


def test_tensors_and_configuration_come_back(peer: Peer) -> None:
    check_round_trip(peer)


@pytest.mark.parametrize("variant", ["marian two vocabularies", "pegasus scaled, relu, uneven", "bart", "t5 v1.1"])
def test_a_wrong_model_is_noticed(variant: str) -> None:
    names = check_mutants(peer := made(variant))
    wrongs = {name.split(": ")[1] for name in names}
    assert wrongs >= {"q and k swapped", "missing", "positions moved"}
    assert ("bias dropped" in wrongs) == any(name.endswith(".bias") for name in peer.ours.state_dict())


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformers_reads_what_is_written(variant: str) -> None:
    peer = made(variant)
    check_written_config(peer, KINDS[peer.family.name][0], model_of(variant), **IDS)


@torch.no_grad()
def our_best(peer: Peer, given: Texts, eos: int) -> list[Hypothesis]:
    transformer, n = peer.ours.transformer, len(given.ids)
    state = transformer.start(transformer.encode(given.ids, real=given.real), given.real, capacity=LIMIT)
    first, limits = torch.full((n, 1), START), torch.full((n,), LIMIT)
    found = beam_search(peer.ours, state, first, ends=(eos,), limits=limits, beam=4, banned=(PAD,))
    return [hypotheses[0] for hypotheses in found]


def their_best(peer: Peer, given: Texts, eos: int) -> list[tuple[list[int], float]]:
    """Ids without the end, and the score, of each source.

    "never" is what our search does: go on as long as a living hypothesis could win by the greatest length.
    """
    assert isinstance(peer.theirs, hf.GenerationMixin)
    peer.theirs.generation_config = hf.GenerationConfig(
        num_beams=4, early_stopping="never", length_penalty=1.0, do_sample=False, max_new_tokens=LIMIT,
        suppress_tokens=[PAD], eos_token_id=eos, pad_token_id=PAD, decoder_start_token_id=START,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    found = peer.theirs.generate(given.ids, attention_mask=given.real.long())
    said = [[*ids, eos] for ids in found.sequences[:, 1:].tolist()]
    return [(ids[: ids.index(eos)][:LIMIT], score) for ids, score in
            zip(said, found.sequences_scores.tolist(), strict=True)]  # fmt: skip


@pytest.mark.parametrize("variant", ["marian", "marian two vocabularies", "pegasus", "bart", "t5", "t5 v1.1"])
def test_beam_search(variant: str) -> None:
    peer = made(variant)
    given = texts(peer, (7, 3, 12, 5, 9))
    # What is often said serves as the end, so that outputs do end.
    often = Counter(our_greedy(peer.ours, given, START)[0].flatten().tolist()).most_common(4)
    tried = ((our_best(peer, given, token), token) for token, _ in often if token != PAD)
    ours, eos = next((found, token) for found, token in tried if any(one.finished for one in found))
    for found, (ids, score) in zip(ours, their_best(peer, given, eos), strict=True):
        assert found.score >= score - TOLERANCE
        assert found.score > score + TOLERANCE or list(found.ids) == ids


def test_sinusoids_are_those_of_a_table_made_in_float64() -> None:
    table = MarianSinusoidalPositionalEmbedding(2000, 24).create_weight()
    config = TransformerConfig(vocab_size=2, d_model=24, n_heads=1, d_ff=1, n_decoder_layers=1,
                               positions=Sinusoidal(layout="split"))  # fmt: skip
    ours = make_positions(config, causal=True).embed(torch.zeros(1, 2000, 24), torch.arange(2000)[None])
    assert (ours[0] - table).abs().max() < 1e-6


def test_a_long_text_under_scaled_embeddings() -> None:
    peer = make("marian scaled, swish", max_position_embeddings=512)
    assert worst(peer, texts(peer, (500,), target=400)) <= TOLERANCE


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (6, 50), (32, 64), (64, 256)])
def test_buckets_of_distance(buckets: int, reach: int, causal: bool) -> None:
    config = TransformerConfig(vocab_size=2, d_model=2, n_heads=1, d_ff=1, n_decoder_layers=1,
                               positions=Relative(buckets=buckets, max_distance=reach))  # fmt: skip
    ours = make_positions(config, causal=causal)
    assert isinstance(ours, RelativePositions)
    distance = torch.arange(-600, 601)
    theirs = T5Attention._relative_position_bucket(-distance, not causal, buckets, reach)
    assert torch.equal(ours.bucket(distance), theirs)


def same(peer: Peer, fields: dict[str, Any], tensors: dict[str, Tensor]) -> bool:
    """Whether another way to write the same model opens as the same model."""
    model = opened(tensors, fields, peer.family)
    given = texts(peer, (3, 9))
    return model.config == peer.ours.config and torch.equal(our_logits(model, given), our_logits(peer.ours, given))


def test_files_in_other_words() -> None:
    marian, t5, v11 = made("marian"), made("t5"), made("t5 v1.1")
    shared = marian.tensors["model.shared.weight"]
    copies = {name: shared for name, _ in MARIAN.copies}
    table = {"model.encoder.embed_positions.weight": torch.zeros(256, 24)}
    assert same(marian, marian.fields, marian.tensors | copies | table)
    bare = {name.removeprefix("model."): tensor for name, tensor in marian.tensors.items()}
    assert same(marian, marian.fields, bare)
    assert same(marian, marian.fields | {"tie_word_embeddings": None, "decoder_vocab_size": None}, marian.tensors)
    for peer in (t5, v11):
        old = {name: value for name, value in peer.fields.items()
               if name not in ("scale_decoder_outputs", "is_gated_act", "dense_act_fn")}  # fmt: skip
        old |= {"tie_word_embeddings": peer is t5, "num_decoder_layers": None, "relative_attention_max_distance": None}
        copies = {name: peer.tensors["shared.weight"] for name, _ in T5.copies if name not in peer.tensors}
        ignored = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.ones(32, 3)}
        assert same(peer, old, peer.tensors | copies | ignored)


def test_an_untied_bart_as_transformers_4_saved_it() -> None:
    theirs = hf.BartForConditionalGeneration(hf.BartConfig(**SIZES, tie_word_embeddings=False))
    peer = make_peer(BART, lambda config: theirs, theirs.config)
    # Without the three that transformers 5 unties with the output; transformers 4 never did.
    stacks = [f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")]
    with torch.no_grad():
        for name in stacks:
            theirs.get_parameter(name).copy_(theirs.model.shared.weight)
    assert worst(peer, texts(peer, (4, 9))) <= TOLERANCE
    assert peer.ours.head.weight is not None
    with pytest.raises(ConfigError, match="tie_embeddings"):
        BART.write(peer.ours.config, "language-model")


def test_a_file_without_a_constant_term_for_the_logits() -> None:
    peer = make("bart")
    assert isinstance(peer.theirs, hf.BartForConditionalGeneration)
    peer.theirs.final_logits_bias.zero_()
    tensors = {name: tensor for name, tensor in peer.tensors.items() if name != "final_logits_bias"}
    less = replace(peer, tensors=tensors, ours=opened(tensors, peer.fields, BART))
    assert not less.ours.config.head_bias
    assert worst(less, texts(less, (5, 9))) <= TOLERANCE
    check_round_trip(less)


@pytest.mark.parametrize(
    ("variant", "change", "where"),
    [
        ("bart", {"decoder_ffn_dim": 44}, "decoder_ffn_dim"),
        ("marian", {"decoder_attention_heads": 6}, "decoder_attention_heads"),
        ("pegasus", {"is_encoder_decoder": False}, "is_encoder_decoder"),
        ("pegasus", {"activation_function": "tanh"}, "activation_function"),
        ("marian", {"d_model": None}, "d_model"),
        ("t5", {"is_encoder_decoder": False}, "is_encoder_decoder"),
        ("t5", {"feed_forward_proj": "gated-tanh", "dense_act_fn": None}, "feed_forward_proj"),
        ("t5", {"relative_attention_num_buckets": 2}, "positions"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(variant: str, change: dict[str, Any], where: str) -> None:
    family, options = VARIANTS[variant]
    with pytest.raises(ConfigError) as caught:
        family.read(Fields(options | change), ())
    assert where in str(caught.value)


OTHERS: dict[str, Any] = {
    "norm": ("layer", "rms"), "norm_order": ("post", "pre"), "norm_eps": (1e-6, 1e-5), "bias": ("all", "none"),
    "positions": (Sinusoidal(), Learned(), Learned(offset=2), Relative()), "gated_ffn": (False, True),
    "embed_norm": (False, True), "embed_scale": (1.0, 2.0, 24**0.5), "logit_scale": (1.0, 24**-0.5, 0.5),
    "attn_scale": (None, 1.0, 0.3), "n_kv_heads": (None, 1), "d_head": (None, 9), "n_token_types": (0, 2),
    "qk_norm": (False, True), "window": (None, Window(size=4)), "head_bias": (False, True),
    "tie_embeddings": (True, False), "decoder_vocab_size": (None, 47), "n_decoder_layers": (0, 1),
    "n_encoder_layers": (1,), "activation": ("relu", "gelu", "gelu_tanh", "silu"),
}  # fmt: skip


@pytest.mark.parametrize("family", [MARIAN, PEGASUS, BART, T5], ids=lambda family: family.name)
def test_one_axis_moved_is_either_refused_by_its_name_or_comes_back(family: Family) -> None:
    base = next(made(name).ours.config for name, (its, _) in VARIANTS.items() if its is family)
    refused, kept = set(), set()
    for axis, values in OTHERS.items():
        for value in values:
            try:
                config = replace(base, **{axis: value})
            except ConfigError:
                continue
            tensors = ("final_logits_bias",) * config.head_bias + ("lm_head.weight",) * (not config.tie_embeddings)
            try:
                fields = family.write(config, "language-model")
            except ConfigError as error:
                assert axis in str(error.where)
                refused.add(axis)
            else:
                kept.add(axis)
                again = family.read(Fields(fields), tensors).config
                assert again == replace(config, attn_scale=again.attn_scale, d_head=again.d_head)
                assert (again.scale, again.head_width) == (config.scale, config.head_width)
    assert refused >= {"norm", "norm_order", "positions", "bias", "n_kv_heads", "qk_norm", "window", "n_decoder_layers"}
    assert kept >= {"activation", "logit_scale", "embed_scale", "head_bias"}


def test_an_embedding_scale_written_with_few_digits() -> None:
    config = replace(made("pegasus").ours.config, d_model=120, embed_scale=10.954451)
    assert PEGASUS.write(config, "language-model")["scale_embedding"] is True
    with pytest.raises(ConfigError, match="embed_scale"):
        PEGASUS.write(replace(config, embed_scale=10.95), "language-model")
