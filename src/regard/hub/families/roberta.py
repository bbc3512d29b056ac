"""RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT's encoder, whose positions are counted from its pad's id.

What is unusual: the first token of a text stands at pad + 1, so that many rows of the position table come before it.
They are kept, and nobody looks them up. In transformers a pad token inside a text is not counted; here it is, as every
token (a text has none). The masked-LM head has gelu, whatever the encoder has. A classifier of texts has BERT's pooler
under names of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from regard.errors import ConfigError
from regard.hub.families.bert import (
    SPAN_ROWS,
    TAGGER_ROWS,
    TASKS,
    encoder_rows,
    find_head,
    read_encoder,
    refuse_other_encoders,
    write_encoder,
)
from regard.hub.fields import Fields
from regard.hub.keymap import Family, Opened, Row
from regard.model import Learned, TransformerConfig

_HEADS = {"lm_head.": "masked-lm", "roberta.pooler.": "pooler"}
_ARCHITECTURES = {
    "masked-lm": "RobertaForMaskedLM", "pooler": "RobertaModel", "none": "RobertaModel",
    "cls-classifier": "RobertaForSequenceClassification", "tagger": "RobertaForTokenClassification",
    "span": "RobertaForQuestionAnswering",
}  # fmt: skip


def rows(config: TransformerConfig, head: str) -> tuple[Row, ...]:
    """The whole table; which of two names the head's bias has, as in BERT."""
    of_head = {
        "masked-lm": (
            Row("lm_head.dense", "head.dense"),
            Row("lm_head.layer_norm", "head.norm"),
            Row("lm_head.decoder.weight", "head.weight"),
            Row("lm_head.bias" if config.tie_embeddings else "lm_head.decoder.bias", "head.bias"),
        ),
        "pooler": (Row("roberta.pooler.dense", "head.dense"),),
        "none": (),
        "cls-classifier": (Row("classifier.dense", "head.pooler.dense"), Row("classifier.out_proj", "head.out")),
        "tagger": TAGGER_ROWS,
        "span": SPAN_ROWS,
    }
    return encoder_rows("roberta.") + of_head[head]


def read(fields: Fields, names: Collection[str]) -> Opened:
    """Their configuration to ours."""
    head = find_head(fields, names, _HEADS, classifier="cls-classifier", by="classifier.dense.")
    pad = fields.get(int, "pad_token_id")
    config = read_encoder(fields, head, offset=2 if pad is None else pad + 1)
    _refuse_other_head(config, head, where="config.json: hidden_act")
    return Opened(config, head)


def write(config: TransformerConfig, head: str) -> dict[str, Any]:
    """Ours to theirs. The pad's id is part of it, since positions are counted from there."""
    refuse_other_encoders(config, head, heads=_ARCHITECTURES)
    _refuse_other_head(config, head, where="activation")
    positions = config.positions
    if not isinstance(positions, Learned) or positions.offset < 1:
        raise ConfigError("the family has no counterpart of this axis value", where="positions",
                          expected="Learned, with an offset of at least 1", got=positions)  # fmt: skip
    return {
        "architectures": [_ARCHITECTURES[head]],
        "pad_token_id": positions.offset - 1,
        **write_encoder(config, offset=positions.offset),
    }


def _refuse_other_head(config: TransformerConfig, head: str, *, where: str) -> None:
    if head == "masked-lm" and config.activation != "gelu":
        raise ConfigError("the masked-LM head of RoBERTa has gelu, and ours has what the encoder has", where=where,
                          expected="gelu", got=config.activation)  # fmt: skip


ROBERTA = Family(
    name="RoBERTa",
    model_types=("roberta", "xlm-roberta", "camembert"),
    read=read,
    write=write,
    rows=rows,
    base="roberta.",
    heads=(r"lm_head\.", *map(re.escape, TASKS)),
    buffers=(r"roberta\.embeddings\.position_ids",),
    unused=(r"roberta\.pooler\..*", r"lm_head\.bias"),
    copies=(
        ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
        ("lm_head.decoder.bias", "lm_head.bias"),
    ),
)
