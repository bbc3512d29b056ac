"""A Hugging Face folder as one of our models: its config.json by the family's reader, its tensors by its table.

What is unusual: nothing is guessed. A field, a tensor or a kind of file that we have no place for is refused by name or
told in a note; code that a configuration brings along is never run.
What it does not know: any family (`families/`), and how a vocabulary is read (`regard.text.foreign`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError, ConfigError
from regard.hub.atomic import inside, reading
from regard.hub.description import Description, of_file
from regard.hub.families import FAMILIES
from regard.hub.fields import Fields
from regard.hub.instead import CTRANSLATE2, is_ctranslate2
from regard.hub.keymap import Family, Opened, matches, place
from regard.hub.labels import read_labels
from regard.hub.layout import Stored, parse_json
from regard.hub.weights import equal_bytes, find_weights
from regard.model import CLASSIFIERS
from regard.text import Tokenizer

CODE = ("auto_map", "_target_", "trust_remote_code")
"""Fields of a configuration that ask to run code."""
_PURPOSE = re.compile("For[A-Z][A-Za-z]*$")
"""How the class of a model ends that has a head: ForCausalLM, ForSequenceClassification."""
LONGEST = 3.0
"""Tokens of an output for each of its source, at most: more than any pair of languages needs, and an end to loops."""


def family_of(model_type: object) -> Family | None:
    """The family that has this `model_type` of config.json."""
    return next((family for family in FAMILIES if model_type in family.model_types), None)


def describe_foreign(folder: Path, values: Mapping[str, Any]) -> Description:
    """What a folder with this config.json holds, from the headers of its weights.

    Raises:
        CheckpointError: an unknown family, a field or a tensor that has no counterpart here, sizes that cannot be,
            weights that are damaged or not in safetensors.
    """
    path = folder / "config.json"
    if values.get("model_type") is None and is_ctranslate2(folder):
        what, mend = CTRANSLATE2
        raise CheckpointError("this folder holds no model that regard reads", where=folder, got=what, mend=mend)
    family = _known(values, path)
    named: dict[str, Stored] = {}
    for name, stored in find_weights(folder).items():
        if (full := family.full_name(name)) in named:
            raise CheckpointError("two tensors are the same weight", where=folder, got=f"{name}, {full}")
        named[full] = stored
    fields = Fields(values)
    try:
        opened = family.read(fields, named.keys())
        told = read_labels(fields, opened.head, opened.config)
    except ConfigError as error:
        raise of_file(_in_their_words(error, fields), path) from None
    weights, unused = _needed(family, opened, named, folder)
    about: dict[str, Any] = {"task": _task(opened), "family": family.name, "languages": [None, None], **told}
    if about["task"] == "translation":
        about["length_ratio"] = LONGEST
    return Description(
        path=folder, config=opened.config, head=opened.head, about=about, weights=weights, family=family,
        notes=(*_notes(folder, values, unused), *_on_config(folder, values, family, opened)),
    )  # fmt: skip


def conventions(described: Description, source: Tokenizer, target: Tokenizer) -> dict[str, Any]:
    """How the model begins and ends what it says: {"start": id | None, "ends": ids, "lead": ids, "forced": ids}.

    "start" is the first token that a decoder with a source is given, "ends" are those that end an output, "lead" is
    what the vocabulary puts before a source, "forced" what every output begins with.

    Raises:
        CheckpointError: a field holds no id of the model's; a decoder with a source lacks its first token.
    """
    folder, size = described.path, described.config.target_vocab_size
    both = described.config.n_encoder_layers > 0 and described.config.n_decoder_layers > 0
    files = _generation_files(folder)
    start = _ids(files, ("decoder_start_token_id", "bos_token_id"), size) if both else []
    if both and not start:
        raise CheckpointError("nothing says which token an output starts with", where=folder,
                              expected="decoder_start_token_id in generation_config.json or config.json",
                              mend="take the config.json that was published with these weights")  # fmt: skip
    ends = [i for i in _ids(files, ("eos_token_id",), None) if i < size]  # one beyond the vocabulary is never said
    if not ends and (end := target.role("eos")) is not None:
        ends = [end]
    return {
        "start": start[0] if both else None,
        "ends": ends,
        "lead": _lead(source) if both else [],
        "forced": _ids(files, ("forced_bos_token_id",), size) if both else [],
    }


def _known(values: Mapping[str, Any], path: Path) -> Family:
    if values.get("text_config") is not None:
        raise CheckpointError("a model of several parts, which regard does not read", where=f"{path}: text_config",
                              expected="a model of text alone")  # fmt: skip
    if (how := values.get("quantization_config")) is not None:
        method = how.get("quant_method") if isinstance(how, Mapping) else how
        raise CheckpointError("weights that were rounded to few bits, in a form that regard does not read",
                              where=f"{path}: quantization_config", got=method or "no quant_method",
                              mend="take the model as it was before: float32, float16 or bfloat16")  # fmt: skip
    model_type = values.get("model_type")
    if (family := family_of(model_type)) is None:
        types = [name for family in FAMILIES for name in family.model_types]
        near = difflib.get_close_matches(str(model_type), types, n=1)
        raise CheckpointError(
            "a family of models that regard does not know" if model_type else "the configuration names no model_type",
            where=path,
            expected=", ".join(f"{family.name} ({', '.join(family.model_types)})" for family in FAMILIES),
            got=repr(model_type)[:80],
            mend=f"did you mean {near[0]}?" if near else "regard opens these families, and what it wrote itself",
        )
    return family


def _task(opened: Opened) -> str:
    if opened.config.n_decoder_layers:
        return "translation" if opened.config.n_encoder_layers else "language-model"
    if opened.head in CLASSIFIERS:
        return "classification"
    return {"masked-lm": "masked-lm", "tagger": "tagging", "span": "question-answering"}.get(opened.head, "embedding")


def _needed(
    family: Family, opened: Opened, named: Mapping[str, Stored], folder: Path
) -> tuple[dict[str, Stored], list[str]]:
    """The tensors that the model is made of, or that do not fit it; and the names of learned ones left out."""
    rows = family.rows(opened.config, opened.head)
    weights = {name: stored for name, stored in named.items() if not matches(family.buffers, name)}
    for copy, original in family.copies:
        found, repeated = place(rows, copy), place(rows, original)
        tied = found is None or (found.ours == ("head.weight",) and opened.config.tie_embeddings)
        if copy not in weights or repeated is None or not tied:
            continue
        stored = weights.pop(copy)
        if original not in weights:  # some tools keep either of the two names
            weights[original] = stored
        elif not equal_bytes(stored, weights[original]):
            raise CheckpointError(
                "two tensors should be the same, and are not", where=folder, expected=f"{copy} to repeat {original}",
                got="other values, or another shape",
                mend='if both are meant: "tie_word_embeddings": false in config.json',
            )  # fmt: skip
    unused = [name for name in weights if matches(family.unused, name) and place(rows, name) is None]
    return {name: stored for name, stored in weights.items() if name not in unused}, sorted(unused)


def _notes(folder: Path, values: Mapping[str, Any], unused: Sequence[str]) -> list[str]:
    notes = []
    if unused:
        more = f" and {len(unused) - 4:,} more" if len(unused) > 4 else ""
        notes.append(f"weights that this model does not use were left out: {', '.join(unused[:4])}{more}")
    if code := [name for name in CODE if name in values]:
        notes.append(f"config.json asks to run code of its own ({', '.join(code)}), which regard never does")
    if (folder / "adapter_config.json").exists():
        notes.append("the adapter that lies beside the model (adapter_config.json) was not applied")
    return notes


def _on_config(folder: Path, values: Mapping[str, Any], family: Family, opened: Opened) -> Iterator[str]:
    """What config.json says of the head and of the ends, and is not so here."""
    size = opened.config.target_vocab_size
    if beyond := [i for i in _ids(_generation_files(folder), ("eos_token_id",), None) if i >= size]:
        listed = ", ".join(map(str, beyond[:4]))
        yield f"eos_token_id {listed}: beyond the vocabulary of {size:,}, so nothing ever ends with it"
    try:
        ours = family.write(opened.config, opened.head)["architectures"][0]
    except ConfigError:  # it can be read, and not be written
        return
    told = values.get("architectures")
    for name in told if isinstance(told, list) else []:
        kind = _PURPOSE.search(str(name))
        if kind and kind[0] != "ForPreTraining" and not str(ours).endswith(kind[0]):
            yield f"config.json names {str(name)[:80]}, but it opens as a {ours}: with that head, and no other"


def _in_their_words(error: ConfigError, fields: Fields) -> ConfigError:
    """What is wrong with our axes, with the numbers as the file names them, where a mend would name ours."""
    if str(error.where or "").startswith("config.json") or not fields.seen:
        return error
    read = ", ".join(f"{name} = {value}" for name, value in fields.seen.items())
    return ConfigError(error.what, where=error.where, expected=error.expected, got=error.got,
                       mend=f"correct config.json, where this was read: {read}")  # fmt: skip


def _generation_files(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """What says how outputs begin and end, the first before the second."""
    places = [inside(folder, name) for name in ("generation_config.json", "config.json")]
    with reading(folder):
        return [(path, parse_json(path.read_bytes(), path)) for path in places if path.is_file()]


def _ids(files: Sequence[tuple[Path, Mapping[str, Any]]], fields: Sequence[str], size: int | None) -> list[int]:
    """The ids, one or a list, that the first of the files with the first of the fields has; [] where none has."""
    for field in fields:
        for path, values in files:
            value = values.get(field)
            if value is None:
                continue
            ids = value if isinstance(value, list) else [value]
            if not all(type(i) is int and i >= 0 and (size is None or i < size) for i in ids):
                expected = "an id" if size is None else f"an id below {size:,}, the size of the vocabulary"
                raise CheckpointError("not a token of the model", where=f"{path}: {field}", expected=expected,
                                      got=repr(value)[:80],
                                      mend="write the number that the vocabulary gives the token")  # fmt: skip
            return ids
    return []


def _lead(tokenizer: Tokenizer) -> list[int]:
    """What the vocabulary's template puts before a text: all before the place where two texts begin to differ."""
    one, other = (tokenizer.wrap([index])[0] for index in (0, 1))
    return one[: next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)]
