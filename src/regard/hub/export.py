"""Our model as a folder that `transformers` opens: its words for the configuration, its names for the weights.

    config.json  generation_config.json  model.safetensors  tokenizer.json  tokenizer_config.json  README.md

What is unusual: no code knows which family a model belongs to. Each family of `families` is asked whether it has words
for this one; where none has, the weights may be written in other numbers that compute the same (`relayout`), and they
are asked again. A model that no family can say is refused, with what each of them lacks.
What it does not know: whether the result computes the same. That is measured by `regard.tasks.parity`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import processors

from regard.errors import ConfigError
from regard.hub.families import FAMILIES
from regard.hub.folder import TARGET, ModelFolder, write_chat_template
from regard.hub.keymap import Family, to_theirs
from regard.hub.labels import write_labels
from regard.hub.relayout import Relayout, relayouts
from regard.hub.weights import WEIGHTS, state_tensors, write_weights
from regard.model import TransformerConfig, head_name
from regard.text import Tokenizer


@dataclass(frozen=True)
class Form:
    """A model as one family would say it.

    Attributes:
        fields: its config.json, without the ids of control tokens.
        relayout: what is done to our weights before they are renamed.
    """

    family: Family
    fields: Mapping[str, Any]
    relayout: Relayout


@dataclass(frozen=True)
class Ids:
    """Token ids that a model was trained to begin, end and read with, for the configuration.

    Attributes:
        start: what a decoder beside an encoder begins with; None for other models.
        ends: what ends an output.
        lead: what stands before each source, where it is always the same.
        forced: what each output begins with.
        banned: what no output holds.
    """

    start: int | None = None
    ends: tuple[int, ...] = ()
    lead: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    banned: tuple[int, ...] = ()


def find_form(config: TransformerConfig, head: str, first: str | None = None) -> Form:
    """The first family with words for such a model.

    Args:
        head: its name in `model.HEADS`.
        first: the name of a family to ask before the others: the one that the model came from.

    Raises:
        ConfigError: there is none; a line for each names the axis that it has no counterpart for.
    """
    families = sorted(FAMILIES, key=lambda family: family.name != first)
    reasons: dict[str, str] = {}
    for relayout in relayouts(config, head):
        told, _ = relayout(config, {})
        for family in families:
            try:
                return Form(family, family.write(told, head), relayout)
            except ConfigError as error:
                reasons[family.name] = _reason(error)
    width = max(map(len, reasons))
    pooled = ", and for a classifier with --set pooling=cls" if head == "classifier" else ""
    raise ConfigError(
        "no family of models that other tools open is like this one",
        got="".join(f"\n    {name:<{width}}  {reason}" for name, reason in reasons.items()),
        mend=f"train with axes that one of them has{pooled}, or use the model with regard",
    )


def write_hugging_face(folder: Path, found: ModelFolder, form: Form, ids: Ids) -> tuple[str, ...]:
    """Fill an empty folder with the model in that form.

    Returns:
        Sentences on what the folder does not say, for whoever uses it.
    """
    model, tokenizer = found.model, found.tokenizer
    both = bool(model.config.n_encoder_layers and model.config.n_decoder_layers)
    config, tensors = form.relayout(model.config, state_tensors(model))
    renamed, left = to_theirs(form.family.rows(config, head_name(model)), tensors, config)
    assert not left, f"{form.family.name} has no row for {left}"
    renamed |= form.family.computed(config) if form.family.computed else {}
    write_weights(folder / WEIGHTS, renamed)
    control = _control_tokens(tokenizer, ids)
    # Several families have an end of their own as default, which only a null takes from them.
    unforced = {"forced_eos_token_id": None} if both else {}
    of_task = unforced | write_labels(found.about, head_name(model))
    told = {"model_type": form.family.model_types[0], **control, **of_task, **form.fields, "dtype": "float32"}
    _write_json(folder / "config.json", told)
    if head_name(model) == "language-model":
        _write_json(folder / "generation_config.json", control | _generation(model.config, ids, both=both))
    _save_tokenizer(exported_tokenizer(found, ids), folder, model.config)
    write_chat_template(folder, found.about)
    write_card(folder, found, "transformers")
    if _reads_alike(tokenizer, found.target_tokenizer):
        return ()
    (folder / TARGET).mkdir()
    _save_tokenizer(found.target_tokenizer, folder / TARGET, model.config)
    return (
        "outputs have a vocabulary of their own, for which transformers has no one tokenizer: read them with "
        f'AutoTokenizer.from_pretrained(FOLDER, subfolder="{TARGET}")',
    )


def write_card(folder: Path, found: ModelFolder, library: str) -> None:
    """The model's own card, where it has one, with the library that opens the folder."""
    if (card := found.path / "README.md").is_file():
        text = card.read_text(encoding="utf-8")
        text = re.sub("^library_name: .*$", f"library_name: {library}", text, count=1, flags=re.MULTILINE)
        (folder / "README.md").write_text(text, encoding="utf-8")


def exported_tokenizer(found: ModelFolder, ids: Ids) -> Tokenizer:
    """The model's own, for a translator with what stands around a source (lead, text, end) where it does not say so."""
    tokenizer, config = found.tokenizer, found.model.config
    if not (config.n_encoder_layers and config.n_decoder_layers) or tokenizer.backend.post_processor is not None:
        return tokenizer

    def part(name: str, numbers: Sequence[int]) -> dict[str, Any]:
        return {"id": name, "ids": list(numbers), "tokens": [tokenizer.backend.id_to_token(i) or "" for i in numbers]}

    backend = Backend.from_str(tokenizer.backend.to_str())
    backend.encode_special_tokens = tokenizer.backend.encode_special_tokens
    backend.post_processor = processors.TemplateProcessing(
        single=["lead", "$A", "end"] if ids.lead else ["$A", "end"],
        special_tokens=[*([part("lead", ids.lead)] if ids.lead else []), part("end", [tokenizer.eos_id])],
    )
    return replace(tokenizer, backend=backend)


def _reads_alike(one: Tokenizer, other: Tokenizer) -> bool:
    """Whether both make the same text of each id, as where two vocabularies differ only in how they cut a text."""
    if one is other:
        return True
    ids = [[i, i] for i in range(other.vocab_size)]
    return one.vocab_size == other.vocab_size and one.backend.decode_batch(ids) == other.backend.decode_batch(ids)


def _save_tokenizer(tokenizer: Tokenizer, folder: Path, config: TransformerConfig) -> None:
    """Its files, with what transformers would otherwise guess: what of its result the model is given, and how much."""
    tokenizer.save(folder)
    path = folder / "tokenizer_config.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    types = ["token_type_ids"] if config.n_token_types else []
    told |= {"model_input_names": ["input_ids", *types, "attention_mask"], "model_max_length": config.max_len}
    _write_json(path, told)


def _control_tokens(tokenizer: Tokenizer, ids: Ids) -> dict[str, Any]:
    ends = list(ids.ends)
    start = {} if ids.start is None else {"decoder_start_token_id": ids.start}
    return {
        "bos_token_id": tokenizer.role("bos"),
        "eos_token_id": ends if len(ends) > 1 else next(iter(ends), None),
        "pad_token_id": tokenizer.role("pad"),
        **start,
    }


def _generation(config: TransformerConfig, ids: Ids, *, both: bool) -> dict[str, Any]:
    """How outputs are searched for when nobody says how: as `regard translate` and `regard generate` do."""
    forced = {"forced_bos_token_id": ids.forced[0]} if ids.forced else {}
    banned = {"suppress_tokens": list(ids.banned)} if ids.banned else {}
    return forced | banned | ({"max_length": config.max_len, "num_beams": 4} if both else {})


def _reason(error: ConfigError) -> str:
    """One line: the axis, its value, and what would have done."""
    wanted = "" if error.expected is None else f" (it has {error.expected})"
    return error.what if error.where is None else f"{error.where} = {error.got}{wanted}"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
