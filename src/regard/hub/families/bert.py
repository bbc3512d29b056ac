"""BERT (Devlin et al. 2019) and models of its shape, such as MiniLM: a post-norm encoder, learned positions, segments.

What is unusual: one config.json serves the bare encoder, the one with a pooler and the one that guesses hidden words,
so the names of the tensors say which head there is. A file of the first training has both heads; the pooler is left.
A classifier of texts and one of tokens have the same names, and old files of the latter a pooler as well, so there the
architecture's name decides, where there is one.
What it does not know: what classes are called (`hub.labels`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from regard.errors import ConfigError
from regard.hub.families.common import ACTIVATIONS, activation_name, refuse_others
from regard.hub.fields import Fields
from regard.hub.keymap import Family, Opened, Row
from regard.hub.labels import PURPOSES
from regard.model import Learned, TransformerConfig

_OURS = "encoder.layers.{i}"
TASKS = ("classifier.", "pre_classifier.", "qa_outputs.")
"""What the tensors of heads for a task begin with, in every family of encoders."""
_HEADS = {"cls.predictions.": "masked-lm", "bert.pooler.": "pooler"}
TAGGER_ROWS, SPAN_ROWS = (Row("classifier", "head.out"),), (Row("qa_outputs", "head.out"),)
"""The tables of the heads that are named alike in every family."""
_ARCHITECTURES = {
    "masked-lm": "BertForMaskedLM", "pooler": "BertModel", "none": "BertModel",
    "cls-classifier": "BertForSequenceClassification", "tagger": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}  # fmt: skip


def find_head(fields: Fields, names: Collection[str], heads: Mapping[str, str], *, classifier: str, by: str) -> str:
    """The head of a task of which there are tensors, else the first other of which there are.

    Args:
        heads: what the tensors' names of a head of no task begin with -> its name in `model.HEADS`.
        classifier: the head over classes of a text, by its name there.
        by: what the name of a tensor begins with that a classifier of texts has, and one of tokens has not.

    Raises:
        ConfigError: the head is of a task that regard does not have.
    """

    def there(*begins: str) -> bool:
        return any(name.startswith(begins) for name in names)

    if not there(*TASKS):
        return next((head for begin, head in heads.items() if there(begin)), "none")
    of_task = {"classification": classifier, "tagging": "tagger", "question-answering": "span"}
    told = fields.values.get("architectures")
    purpose = str(told[0]).partition("For")[2] if isinstance(told, list) and told else ""
    if purpose in PURPOSES:
        return of_task[PURPOSES[purpose]]
    if purpose and purpose not in ("PreTraining", "MaskedLM"):
        raise ConfigError(
            "the head of this model answers a task that regard does not have",
            where="config.json: architectures", expected=" or ".join(f"...For{name}" for name in PURPOSES), got=told,
            mend="with transformers: AutoModel.from_pretrained(DIR).save_pretrained(OUT) keeps the encoder alone",
        )  # fmt: skip
    return "span" if there("qa_outputs.") else classifier if there(by) else "tagger"


def encoder_rows(base: str) -> tuple[Row, ...]:
    """The table of the encoder itself, all of whose names begin with `base`."""
    theirs = f"{base}encoder.layer.{{i}}"
    return (
        Row(f"{base}embeddings.word_embeddings", "tokens"),
        Row(f"{base}embeddings.position_embeddings.weight", "encoder.positions.weight"),
        Row(f"{base}embeddings.token_type_embeddings.weight", "encoder.types.weight"),
        Row(f"{base}embeddings.LayerNorm", "encoder.embed_norm"),
        Row(f"{theirs}.attention.self.query", f"{_OURS}.self_attn.q"),
        Row(f"{theirs}.attention.self.key", f"{_OURS}.self_attn.k"),
        Row(f"{theirs}.attention.self.value", f"{_OURS}.self_attn.v"),
        Row(f"{theirs}.attention.output.dense", f"{_OURS}.self_attn.o"),
        Row(f"{theirs}.attention.output.LayerNorm", f"{_OURS}.self_attn_norm"),
        Row(f"{theirs}.intermediate.dense", f"{_OURS}.ffn.up"),
        Row(f"{theirs}.output.dense", f"{_OURS}.ffn.down"),
        Row(f"{theirs}.output.LayerNorm", f"{_OURS}.ffn_norm"),
    )


def rows(config: TransformerConfig, head: str) -> tuple[Row, ...]:
    """The whole table.

    The bias of the masked-LM head has two names. They are one tensor when the embeddings are tied; when they are not,
    `decoder.bias` is the one that transformers adds.
    """
    bias = "cls.predictions.bias" if config.tie_embeddings else "cls.predictions.decoder.bias"
    of_head = {
        "masked-lm": (
            Row("cls.predictions.transform.dense", "head.dense"),
            Row("cls.predictions.transform.LayerNorm", "head.norm"),
            Row("cls.predictions.decoder.weight", "head.weight"),
            Row(bias, "head.bias"),
        ),
        "pooler": (Row("bert.pooler.dense", "head.dense"),),
        "none": (),
        "cls-classifier": (Row("bert.pooler.dense", "head.pooler.dense"), Row("classifier", "head.out")),
        "tagger": TAGGER_ROWS,
        "span": SPAN_ROWS,
    }
    return encoder_rows("bert.") + of_head[head]


def read_encoder(fields: Fields, head: str, *, offset: int) -> TransformerConfig:
    """A configuration in BERT's words; `offset` rows of the position table come before that of position 0."""
    fields.only("position_embedding_type", "absolute")
    fields.only("is_decoder", False)
    fields.only("add_cross_attention", False)
    types = fields.get(int, "type_vocab_size")
    return TransformerConfig(
        vocab_size=fields.need(int, "vocab_size"),
        d_model=fields.need(int, "hidden_size"),
        n_heads=fields.need(int, "num_attention_heads"),
        d_ff=fields.need(int, "intermediate_size"),
        n_encoder_layers=fields.need(int, "num_hidden_layers"),
        positions=Learned(offset=offset),
        max_len=fields.need(int, "max_position_embeddings") - offset,
        norm_eps=fields.get_or(1e-12, "layer_norm_eps"),
        activation=fields.chosen(ACTIVATIONS, "hidden_act", default="gelu"),
        n_token_types=2 if types is None else types,
        embed_norm=True,
        tie_embeddings=fields.get(bool, "tie_word_embeddings") is not False,
        head_bias=head == "masked-lm",
    )


def refuse_other_encoders(config: TransformerConfig, head: str, *, heads: Collection[str], **axes: Any) -> None:
    """Raise ConfigError for what is no post-norm encoder as BERT, RoBERTa and DistilBERT are; `axes` as there."""
    refuse_others(
        config, head, heads=tuple(heads), n_decoder_layers=0, n_kv_heads=(None, config.n_heads),
        d_head=(None, config.d_model // config.n_heads), attn_scale=(None, config.head_width**-0.5), window=None,
        norm="layer", norm_order="post", gated_ffn=False, bias="all", embed_scale=1.0, embed_norm=True,
        head_bias=head == "masked-lm", logit_scale=1.0, qk_norm=False, **axes,
    )  # fmt: skip


def write_encoder(config: TransformerConfig, *, offset: int) -> dict[str, Any]:
    """Ours in BERT's words."""
    if config.n_token_types < 1:
        raise ConfigError("the family adds the vector of a segment to every token", where="n_token_types",
                          expected="at least 1", got=config.n_token_types)  # fmt: skip
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_encoder_layers,
        "max_position_embeddings": config.max_len + offset,
        "type_vocab_size": config.n_token_types,
        "layer_norm_eps": config.norm_eps,
        "hidden_act": activation_name(config.activation),
        "tie_word_embeddings": config.tie_embeddings,
    }


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    head = find_head(fields, names, _HEADS, classifier="cls-classifier", by="bert.pooler.")
    return Opened(read_encoder(fields, head, offset=0), head)


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs."""
    refuse_other_encoders(config, head, heads=_ARCHITECTURES, positions=Learned())
    return {"architectures": [_ARCHITECTURES[head]], **write_encoder(config, offset=0)}


BERT = Family(
    name="BERT",
    model_types=("bert",),
    read=read,
    write=write,
    rows=rows,
    base="bert.",
    heads=(r"cls\.", *map(re.escape, TASKS)),
    buffers=(r"bert\.embeddings\.position_ids",),
    unused=(r"bert\.pooler\..*", r"cls\.seq_relationship\..*", r"cls\.predictions\.bias"),
    copies=(
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ),
    old_endings=((".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias")),
)
