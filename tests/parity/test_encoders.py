"""BERT, RoBERTa and DistilBERT, opened here, say what they say in transformers; and a real MiniLM does what it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForMultipleChoice,
    DistilBertForQuestionAnswering,
    DistilBertForSequenceClassification,
    DistilBertForTokenClassification,
    DistilBertModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
    XLMRobertaForSequenceClassification,
)

from regard.errors import ConfigError
from regard.hub.families import FAMILIES
from regard.hub.families.bert import BERT
from regard.hub.families.distilbert import DISTILBERT
from regard.hub.families.roberta import ROBERTA
from regard.hub.fields import Fields
from regard.hub.keymap import Family, place
from regard.model import Learned, TransformerConfig, head_name
from regard.model.heads import mean_pool

from . import harness
from .harness import TOLERANCE, Peer

SIZES = {
    "vocab_size": 61, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 40,
    "max_position_embeddings": 48,
}  # fmt: skip
DISTIL = {"vocab_size": 61, "dim": 24, "n_heads": 3, "n_layers": 2, "hidden_dim": 40, "max_position_embeddings": 48}

KINDS: dict[str, tuple[Family, str, Any, Any, dict[str, Any]]] = {
    "bert": (BERT, "masked-lm", BertForMaskedLM, BertConfig, SIZES),
    "bert, untied": (BERT, "masked-lm", BertForMaskedLM, BertConfig, SIZES | {"tie_word_embeddings": False}),
    "bert, relu, a large epsilon, one segment": (
        BERT, "masked-lm", BertForMaskedLM, BertConfig,
        SIZES | {"hidden_act": "relu", "layer_norm_eps": 0.1, "type_vocab_size": 1},
    ),
    "bert, pooler, three segments": (BERT, "pooler", BertModel, BertConfig, SIZES | {"type_vocab_size": 3}),
    "bert, bare": (BERT, "none", partial(BertModel, add_pooling_layer=False), BertConfig, SIZES),
    "roberta": (ROBERTA, "masked-lm", RobertaForMaskedLM, RobertaConfig, SIZES | {"type_vocab_size": 1}),
    "roberta, untied": (
        ROBERTA, "masked-lm", RobertaForMaskedLM, RobertaConfig, SIZES | {"tie_word_embeddings": False},
    ),
    "roberta, pooler, pad 0": (ROBERTA, "pooler", RobertaModel, RobertaConfig, SIZES | {"pad_token_id": 0}),
    "roberta, bare, tanh": (
        ROBERTA, "none", partial(RobertaModel, add_pooling_layer=False), RobertaConfig,
        SIZES | {"hidden_act": "gelu_new"},
    ),
    "xlm-roberta": (ROBERTA, "masked-lm", XLMRobertaForMaskedLM, XLMRobertaConfig, SIZES),
    "camembert, pooler": (ROBERTA, "pooler", CamembertModel, CamembertConfig, SIZES),
    "distilbert": (DISTILBERT, "masked-lm", DistilBertForMaskedLM, DistilBertConfig, DISTIL),
    "distilbert, untied, relu": (
        DISTILBERT, "masked-lm", DistilBertForMaskedLM, DistilBertConfig,
        DISTIL | {"tie_word_embeddings": False, "activation": "relu"},
    ),
    "distilbert, bare": (DISTILBERT, "none", DistilBertModel, DistilBertConfig, DISTIL),
    "bert, classes": (BERT, "cls-classifier", BertForSequenceClassification, BertConfig, SIZES | {"num_labels": 3}),
    "bert, tags": (BERT, "tagger", BertForTokenClassification, BertConfig, SIZES | {"num_labels": 5}),
    "bert, answers": (BERT, "span", BertForQuestionAnswering, BertConfig, SIZES),
    "roberta, classes": (
        ROBERTA, "cls-classifier", RobertaForSequenceClassification, RobertaConfig, SIZES | {"num_labels": 3},
    ),
    "roberta, tags": (ROBERTA, "tagger", RobertaForTokenClassification, RobertaConfig, SIZES | {"num_labels": 5}),
    "roberta, answers": (ROBERTA, "span", RobertaForQuestionAnswering, RobertaConfig, SIZES),
    "xlm-roberta, classes": (ROBERTA, "cls-classifier", XLMRobertaForSequenceClassification, XLMRobertaConfig, SIZES),
    "distilbert, classes": (
        DISTILBERT, "relu-classifier", DistilBertForSequenceClassification, DistilBertConfig,
        DISTIL | {"num_labels": 3},
    ),
    "distilbert, tags": (
        DISTILBERT, "tagger", DistilBertForTokenClassification, DistilBertConfig, DISTIL | {"num_labels": 5},
    ),
    "distilbert, answers": (DISTILBERT, "span", DistilBertForQuestionAnswering, DistilBertConfig, DISTIL),
}  # fmt: skip
"""What is tried -> the table, the head that it must find, their model and configuration; three heads everywhere."""


@pytest.fixture(scope="module")
def peer_of() -> Callable[[str], Peer]:
    made: dict[str, Peer] = {}

    def peer(name: str) -> Peer:
        if name not in made:
            family, _, model, config, sizes = KINDS[name]
            made[name] = harness.make_peer(family, model, config(**sizes))
        return made[name]

    return peer


@pytest.mark.parametrize("name", KINDS)
def test_theirs_and_ours_say_the_same_and_both_ways(peer_of: Callable[[str], Peer], name: str) -> None:
    peer, (_, head, model, config, _) = peer_of(name), KINDS[name]
    assert head_name(peer.ours) == head
    harness.check_full_pass(peer)
    harness.check_ragged(peer)
    harness.check_round_trip(peer)
    labels = {name: peer.fields[name] for name in ("id2label", "label2id") if name in peer.fields}
    harness.check_written_config(peer, config, model, **labels)


WRONGLY = ["bert", "bert, pooler, three segments", "roberta", "distilbert", "distilbert, bare", "bert, classes",
           "roberta, classes", "distilbert, classes", "bert, tags", "roberta, answers"]  # fmt: skip


@pytest.mark.parametrize("name", WRONGLY)
def test_a_wrong_model_does_not_agree(peer_of: Callable[[str], Peer], name: str) -> None:
    tried = " ".join(harness.check_mutants(peer_of(name)))
    for wrong in ("self_attn: q and k swapped", "ffn.up: bias dropped", "embed_norm: missing", "positions moved"):
        assert wrong in tried


@pytest.mark.parametrize("name", ["bert, pooler, three segments", "bert", "roberta, untied"])
def test_segments_are_seen(peer_of: Callable[[str], Peer], name: str) -> None:
    given = harness.texts(peer_of(name), (9, 30))
    assert given.types is not None and len(set(given.types[1].tolist())) > 1, "both in one row"
    theirs, blind = harness.their_logits(peer_of(name), given), replace(given, types=None)
    assert (harness.our_logits(peer_of(name).ours, blind) - theirs).abs().max() > 10 * TOLERANCE


def test_a_file_of_berts_first_training_gives_its_masked_lm_head() -> None:
    theirs = BertForPreTraining(BertConfig(**SIZES, attn_implementation="eager")).eval()
    harness.draw(theirs, 0)
    fields, tensors = harness.saved(theirs)
    ours = harness.opened(tensors, fields, BERT)
    assert head_name(ours) == "masked-lm"
    rows = BERT.rows(ours.config, "masked-lm")
    left = {name for name in tensors if place(rows, name) is None}
    assert left == {f"{module}.{leaf}" for module in ("bert.pooler.dense", "cls.seq_relationship")
                    for leaf in ("weight", "bias")}  # fmt: skip
    given = harness.texts(Peer(BERT, theirs, fields, tensors, ours), (8, 20))
    with torch.no_grad():
        said = theirs(given.ids, attention_mask=given.real.long(), token_type_ids=given.types).prediction_logits
    assert (harness.our_logits(ours, given) - said)[given.real].abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", ["bert, bare", "roberta, pooler, pad 0", "distilbert, bare"])
def test_names_with_and_without_the_base_prefix_are_the_same(peer_of: Callable[[str], Peer], name: str) -> None:
    peer = peer_of(name)
    assert not any(key.startswith(peer.family.base) for key in peer.tensors), "transformers left it out"
    buffer = {f"{peer.family.base}embeddings.position_ids": torch.arange(48)[None]}
    with_base = {peer.family.base + key: tensor for key, tensor in peer.tensors.items()}
    again = harness.opened(with_base | buffer, peer.fields, peer.family)
    assert all(torch.equal(again.state_dict()[key], tensor) for key, tensor in peer.ours.state_dict().items())


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_copies_of_tied_tensors_are_no_tensors_of_their_own(peer_of: Callable[[str], Peer], name: str) -> None:
    peer = peer_of(name)
    copies = {copy: peer.tensors[of] for copy, of in peer.family.copies}
    assert copies and not copies.keys() & peer.tensors.keys()
    assert copies.keys() <= peer.theirs.state_dict().keys(), "names that they have"
    again = harness.opened(peer.tensors | copies, peer.fields, peer.family)
    assert again.state_dict().keys() == peer.ours.state_dict().keys()


def test_the_names_of_norms_in_old_files_are_understood(peer_of: Callable[[str], Peer]) -> None:
    peer = peer_of("bert")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in peer.tensors.items()
    }
    assert sum(name.endswith(("gamma", "beta")) for name in old) == 2 * (1 + 2 * 2 + 1)
    renamed = replace(peer, ours=harness.opened(old, peer.fields, BERT))
    assert harness.worst(renamed, harness.texts(peer, (12, 30))) <= TOLERANCE


@pytest.mark.parametrize(
    ("family", "theirs"),
    [
        (BERT, lambda: BertForMultipleChoice(BertConfig(**SIZES))),
        (ROBERTA, lambda: RobertaForMultipleChoice(RobertaConfig(**SIZES))),
        (DISTILBERT, lambda: DistilBertForMultipleChoice(DistilBertConfig(**DISTIL))),
    ],
)
def test_heads_of_other_tasks_are_refused_by_name(family: Family, theirs: Callable[[], torch.nn.Module]) -> None:
    model = theirs()
    names = {family.full_name(name.removeprefix(family.base)) for name in model.state_dict()}
    fields = json.loads(json.dumps(model.config.to_dict())) | {"architectures": [type(model).__name__]}
    with pytest.raises(ConfigError, match=type(model).__name__):
        family.read(Fields(fields), names)


@pytest.mark.parametrize("name", [name for name in KINDS if name.endswith(("classes", "tags", "answers"))])
def test_without_an_architecture_the_tensors_say_which_head_there_is(peer_of: Callable[[str], Peer], name: str) -> None:
    peer = peer_of(name)
    names = {peer.family.full_name(key) for key in peer.tensors}
    for change in ({"architectures": None}, {"architectures": []}, {}):
        assert peer.family.read(Fields(peer.fields | change), names).head == KINDS[name][1]


def test_an_old_tagger_has_a_pooler_that_nobody_asks(peer_of: Callable[[str], Peer]) -> None:
    peer = peer_of("bert, tags")
    pooler = {f"bert.pooler.dense.{leaf}": torch.ones(24, 24)[: 1 if leaf == "bias" else 24].squeeze()
              for leaf in ("weight", "bias")}  # fmt: skip
    again = harness.opened(peer.tensors | pooler, peer.fields, BERT)
    assert head_name(again) == "tagger"
    assert again.state_dict().keys() == peer.ours.state_dict().keys()


LEAST = {
    BERT: {"vocab_size": 61, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2,
           "intermediate_size": 40, "max_position_embeddings": 48, "type_vocab_size": None},
    ROBERTA: {"vocab_size": 61, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2,
              "intermediate_size": 40, "max_position_embeddings": 50, "layer_norm_eps": None},
    DISTILBERT: DISTIL | {"activation": None},
}  # fmt: skip


@pytest.mark.parametrize("family", LEAST, ids=lambda family: family.name)
def test_fields_that_are_missing_or_null_mean_what_they_mean_in_transformers(family: Family) -> None:
    config = family.read(Fields(LEAST[family]), ()).config
    assert config == TransformerConfig(
        vocab_size=61, d_model=24, n_heads=3, d_ff=40, n_encoder_layers=2, max_len=48,
        positions=Learned(offset=2 * (family is ROBERTA)), n_token_types=2 * (family is not DISTILBERT),
        norm_eps=1e-12, activation="gelu", embed_norm=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("family", "names", "change"),
    [
        (BERT, (), {"position_embedding_type": "relative_key"}),
        (BERT, (), {"is_decoder": True}),
        (ROBERTA, (), {"add_cross_attention": True}),
        (BERT, (), {"hidden_act": "mish"}),
        (ROBERTA, ("lm_head.dense.weight",), {"hidden_act": "relu"}),
        (DISTILBERT, (), {"activation": "mish"}),
        (BERT, (), {"hidden_size": "24"}),
        (DISTILBERT, (), {"n_heads": None}),
    ],
)
def test_what_has_no_counterpart_here_is_refused_by_the_fields_name(
    family: Family, names: tuple[str, ...], change: dict[str, Any]
) -> None:
    family.read(Fields(LEAST[family]), names)
    with pytest.raises(ConfigError, match=next(iter(change))):
        family.read(Fields(LEAST[family] | change), names)


@pytest.mark.parametrize(
    ("family", "change"),
    [
        (BERT, {"norm_order": "pre"}),
        (BERT, {"n_token_types": 0}),
        (BERT, {"positions": Learned(offset=2)}),
        (BERT, {"head_bias": True}),
        (ROBERTA, {"positions": Learned()}),
        (ROBERTA, {"attn_scale": 1.0}),
        (DISTILBERT, {"n_token_types": 2}),
        (DISTILBERT, {"norm_eps": 1e-5}),
    ],
)
def test_axes_without_a_counterpart_there_are_not_written(family: Family, change: dict[str, Any]) -> None:
    config = family.read(Fields(LEAST[family]), ()).config
    family.write(config, "none")
    with pytest.raises(ConfigError, match=next(iter(change))):
        family.write(replace(config, **change), "none")


def test_the_families_are_registered() -> None:
    assert {BERT, ROBERTA, DISTILBERT} <= set(FAMILIES)


def test_a_real_minilm_finds_texts_as_similar_as_published(minilm: Path) -> None:
    model = harness.opened(
        load_file(minilm / "model.safetensors"), json.loads((minilm / "config.json").read_text()), BERT
    )
    assert head_name(model) == "pooler" and model.config.n_encoder_layers == 6
    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    texts = ("That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day")
    encodings = [tokenizer.encode(text) for text in texts]
    length = max(len(encoding.ids) for encoding in encodings)
    ids = torch.tensor([encoding.ids + [0] * (length - len(encoding.ids)) for encoding in encodings])
    real = torch.tensor([[t < len(encoding.ids) for t in range(length)] for encoding in encodings])
    assert not real.all(), "ragged"
    with torch.no_grad():
        vectors = F.normalize(mean_pool(model.transformer.encode(ids, real=real), real), dim=-1)
    for similarity, expected in zip((vectors[:1] @ vectors[1:].T)[0], (0.69458, 0.94292, 0.25688), strict=True):
        assert abs(float(similarity) - expected) <= 1e-4
