"""DistilBERT (Sanh et al. 2019): BERT's encoder at half its depth, without segments and without a pooler.

What is unusual: names of its own for everything, an epsilon that config.json does not tell, and a classifier of texts
with relu where BERT's has tanh.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from regard.hub.families.bert import SPAN_ROWS, TAGGER_ROWS, TASKS, find_head, refuse_other_encoders
from regard.hub.families.common import ACTIVATIONS, activation_name
from regard.hub.fields import Fields
from regard.hub.keymap import Family, Opened, Row
from regard.model import Learned, TransformerConfig

_EPSILON = 1e-12
_HEADS = {"vocab_transform.": "masked-lm"}
_ARCHITECTURES = {
    "masked-lm": "DistilBertForMaskedLM", "none": "DistilBertModel",
    "relu-classifier": "DistilBertForSequenceClassification", "tagger": "DistilBertForTokenClassification",
    "span": "DistilBertForQuestionAnswering",
}  # fmt: skip
_THEIRS, _OURS = "distilbert.transformer.layer.{i}", "encoder.layers.{i}"
_ENCODER = (
    Row("distilbert.embeddings.word_embeddings", "tokens"),
    Row("distilbert.embeddings.position_embeddings.weight", "encoder.positions.weight"),
    Row("distilbert.embeddings.LayerNorm", "encoder.embed_norm"),
    Row(f"{_THEIRS}.attention.q_lin", f"{_OURS}.self_attn.q"),
    Row(f"{_THEIRS}.attention.k_lin", f"{_OURS}.self_attn.k"),
    Row(f"{_THEIRS}.attention.v_lin", f"{_OURS}.self_attn.v"),
    Row(f"{_THEIRS}.attention.out_lin", f"{_OURS}.self_attn.o"),
    Row(f"{_THEIRS}.sa_layer_norm", f"{_OURS}.self_attn_norm"),
    Row(f"{_THEIRS}.ffn.lin1", f"{_OURS}.ffn.up"),
    Row(f"{_THEIRS}.ffn.lin2", f"{_OURS}.ffn.down"),
    Row(f"{_THEIRS}.output_layer_norm", f"{_OURS}.ffn_norm"),
)
_OF_HEAD: dict[str, tuple[Row, ...]] = {
    "masked-lm": (
        Row("vocab_transform", "head.dense"),
        Row("vocab_layer_norm", "head.norm"),
        Row("vocab_projector.weight", "head.weight"),
        Row("vocab_projector.bias", "head.bias"),
    ),
    "none": (),
    "relu-classifier": (Row("pre_classifier", "head.pooler.dense"), Row("classifier", "head.out")),
    "tagger": TAGGER_ROWS,
    "span": SPAN_ROWS,
}


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    head = find_head(fields, names, _HEADS, classifier="relu-classifier", by="pre_classifier.")
    config = TransformerConfig(
        vocab_size=fields.need(int, "vocab_size"),
        d_model=fields.need(int, "dim", "hidden_size"),
        n_heads=fields.need(int, "n_heads", "num_attention_heads"),
        d_ff=fields.need(int, "hidden_dim", "intermediate_size"),
        n_encoder_layers=fields.need(int, "n_layers", "num_hidden_layers"),
        positions=Learned(),
        max_len=fields.need(int, "max_position_embeddings"),
        norm_eps=_EPSILON,
        activation=fields.chosen(ACTIVATIONS, "activation", default="gelu"),
        embed_norm=True,
        tie_embeddings=fields.get(bool, "tie_word_embeddings") is not False,
        head_bias=head == "masked-lm",
    )
    return Opened(config, head)


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    refuse_other_encoders(
        config, head, heads=_ARCHITECTURES, positions=Learned(), n_token_types=0, norm_eps=_EPSILON
    )  # fmt: skip
    return {
        "architectures": [_ARCHITECTURES[head]],
        "vocab_size": config.vocab_size,
        "dim": config.d_model,
        "n_heads": config.n_heads,
        "hidden_dim": config.d_ff,
        "n_layers": config.n_encoder_layers,
        "max_position_embeddings": config.max_len,
        "activation": activation_name(config.activation),
        "tie_word_embeddings": config.tie_embeddings,
    }


DISTILBERT = Family(
    name="DistilBERT",
    model_types=("distilbert",),
    read=read,
    write=write,
    rows=lambda config, head: _ENCODER + _OF_HEAD[head],
    base="distilbert.",
    heads=(r"vocab_(transform|layer_norm|projector)\.", *map(re.escape, TASKS)),
    buffers=(r"distilbert\.embeddings\.position_ids",),
    copies=(("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),),
)
