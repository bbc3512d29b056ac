"""The model folder: everything a model is, in files that other tools can read (interfaces.md, section 1).

    config.json  model.safetensors  tokenizer.json  tokenizer_config.json  generation_config.json  README.md
    target/ (a second vocabulary)  recipe.toml  run.jsonl  MANIFEST.sha256

What is unusual: a run folder is a model too, and so is a Hugging Face folder (`foreign.py`). `load_model` takes a run's
best checkpoint, else its latest; and nothing is allocated before the configuration, the vocabulary and the headers of
the weights have been found to fit one another.
What it does not know: what a task does with the model; a task's own facts (languages, labels) lie in `about`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import build, to_tree
from regard.errors import UNREADABLE, CheckpointError, ConfigError
from regard.hub.atomic import inside, read_pointer, reading, recover_folder, verify_manifest
from regard.hub.description import Description, of_file, read_model
from regard.hub.foreign import CODE, conventions, describe_foreign, family_of
from regard.hub.instead import what_is_there_instead
from regard.hub.layout import parse_json
from regard.hub.packaged import model_path
from regard.hub.weights import WEIGHTS, find_weights, state_tensors, write_weights
from regard.model import HEADS, LABELLED, Model, TransformerConfig, head_name
from regard.text import Tokenizer
from regard.text.chat import ChatTemplate
from regard.text.foreign import open_tokenizers

FORMAT = 1
"""Of config.json; a folder with a higher number was written by a later regard."""
TARGET = "target"
"""The folder within of a second vocabulary."""


@dataclass(frozen=True)
class ModelFolder:
    """A loaded model with what belongs to it."""

    path: Path
    model: Model
    tokenizer: Tokenizer
    """Of what the model reads."""
    target_tokenizer: Tokenizer
    """Of what it says: the same one, unless there are two vocabularies."""
    about: dict[str, Any]
    """The task's facts: {"task": "translation", "languages": [..], ...}, and the run's ("training")."""
    notes: tuple[str, ...] = ()
    """Sentences on what another family's folder has and the model has not."""


def write_model(
    folder: Path,
    model: Model,
    tokenizer: Tokenizer,
    about: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    *,
    target_tokenizer: Tokenizer | None = None,
) -> None:
    """Fill an empty folder; give this to `commit_folder`, which makes it whole or nothing.

    Args:
        about: JSON-friendly facts for config.json; "task" is one of them.
        texts: further files by name, e.g. recipe.toml, README.md.
        target_tokenizer: of what the model says, where it is another one.
    """
    kind = {"model_type": "regard", "format": FORMAT, "head": head_name(model)}
    said = target_tokenizer or tokenizer
    write_weights(folder / WEIGHTS, state_tensors(model))
    tokenizer.save(folder)
    write_chat_template(folder, about)
    if said is not tokenizer:
        (folder / TARGET).mkdir()
        said.save(folder / TARGET)
    _write_json(folder / "config.json", {**kind, **about, "transformer": to_tree(model.config)})
    _write_json(folder / "generation_config.json", _generation(said, about.get("conventions")))
    for name, text in (texts or {}).items():
        (folder / name).write_text(text, encoding="utf-8")


def write_chat_template(folder: Path, about: Mapping[str, Any]) -> None:
    """Say in tokenizer_config.json how a conversation is written, where the model was trained on some (`chat`)."""
    if "chat" not in about:
        return
    path = folder / "tokenizer_config.json"
    told = parse_json(path.read_bytes(), path)
    # transformers renders text, in which the template's own control tokens must be found again.
    template = ChatTemplate.read(about["chat"]).jinja()
    _write_json(path, {**told, "chat_template": template, "split_special_tokens": False})


def load_model(path: Path | str, *, allow_nonfinite: bool = False) -> ModelFolder:
    """Open a model folder, or the best (else latest) checkpoint of a run folder.

    Raises:
        CheckpointError: the folder is missing, damaged (manifest, header, NaN), or its parts do not fit one another.
    """
    folder = find_model(Path(path))
    recover_folder(folder)
    verify_manifest(folder)
    described = describe_model(folder)
    source, target, about = open_vocabularies(described)
    model = read_model(described, allow_nonfinite=allow_nonfinite)
    return ModelFolder(folder, model, source, target, about, described.notes)


def open_vocabularies(described: Description) -> tuple[Tokenizer, Tokenizer, dict[str, Any]]:
    """The tokenizers of what a model reads and of what it says, the same one but for two vocabularies; and its facts.

    Raises:
        CheckpointError: one is missing or damaged, or has ids that the model has no vector for.
    """
    folder, config = described.path, described.config
    source, target = open_tokenizers(folder) if described.family else _own_tokenizers(folder)
    _refuse_ids_beyond(source, config.vocab_size, folder)
    _refuse_ids_beyond(target, config.target_vocab_size, folder)
    if not described.family:
        return source, target, described.about
    return source, target, {**described.about, "conventions": conventions(described, source, target)}


def describe_model(path: Path) -> Description:
    """What `load_model` would open, without its vocabulary, and from the headers of its weights alone.

    Raises:
        CheckpointError: as `load_model`, but for what only the whole files show: sums, values, shapes.
    """
    folder = find_model(path)
    recover_folder(folder)
    values = _values(folder)
    if values.get("model_type") != "regard":
        return describe_foreign(folder, values)
    about = read_config(folder)
    if (head := about.get("head", "language-model")) not in HEADS:
        raise CheckpointError("a head that this regard does not know", where=folder / "config.json",
                              expected=", ".join(HEADS), got=repr(head)[:80])  # fmt: skip
    if not _are_names(labels := about.get("labels", [])) or (head in LABELLED and not labels):
        raise CheckpointError("the labels are not what the head tells apart", where=folder / "config.json",
                              expected='"labels": a list of different names', got=repr(labels)[:80])  # fmt: skip
    facts = {key: value for key, value in about.items() if key not in ("model_type", "format", "head", "transformer")}
    return Description(path=folder, config=read_transformer_config(about, folder), head=head, about=facts,
                       weights=find_weights(folder))  # fmt: skip


def find_model(path: Path) -> Path:
    """The folder with config.json: `path` itself, or the checkpoint that a run's `best` or `latest` names.

    `package:NAME` is the folder of the model inside that Python package.
    """
    path = model_path(str(path))
    if not path.is_dir():
        got = "nothing there" if not path.exists() else "a file"
        mend = "give the folder that `regard train ... --out DIR` wrote, or a Hugging Face folder"
        raise CheckpointError("there is no model folder", where=path, got=got, mend=mend)
    try:
        if (path / "config.json").is_file():
            return path
        for pointer in ("best", "latest"):
            name = read_pointer(path / pointer)
            if name is not None:
                return inside(path, f"checkpoints/{name}")
        got, mend = what_is_there_instead(path, path / WEIGHTS)
    except PermissionError as error:
        raise CheckpointError("the folder cannot be read", where=path, got=error.strerror, mend=UNREADABLE) from None
    if (path / "recipe.toml").exists():
        mend = (
            "a run that goes on has a model after its first checkpoint; one that was stopped before it is begun anew: "
        )
        mend += "give its whole command again, without --resume"
    expected = "config.json, or a run's `best` or `latest`"
    raise CheckpointError("this folder holds no model", where=path, expected=expected, got=got, mend=mend)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of one of our folders. Code that a config asks to run (`auto_map`, `_target_`) is never run."""
    path, about = folder / "config.json", _values(folder)
    if about.get("model_type") != "regard":
        family = family_of(about.get("model_type"))
        raise CheckpointError(
            "this is not a folder that regard wrote", where=path, expected='"model_type": "regard"',
            got=json.dumps(about.get("model_type")), mend=f"regard import {folder} OUT" if family else None,
        )  # fmt: skip
    if not isinstance(about.get("format"), int) or about["format"] > FORMAT:
        raise CheckpointError(
            "this folder is of a later format", where=path, expected=f"format {FORMAT}", got=about.get("format"),
            mend="pip install --upgrade regard",
        )  # fmt: skip
    for key in CODE:
        if key in about:
            raise CheckpointError("the configuration asks to run code, which regard never does", where=path, got=key,
                                  mend="take a model of a family that docs/families.md lists")  # fmt: skip
    return about


def read_transformer_config(about: Mapping[str, Any], folder: Path) -> TransformerConfig:
    """The model's configuration in config.json; raises CheckpointError naming what is wrong with it."""
    path = folder / "config.json"
    try:
        return build(TransformerConfig, about.get("transformer") or {}, where=str(path))
    except ConfigError as error:
        raise of_file(error, path) from None


def _values(folder: Path) -> dict[str, Any]:
    path = inside(folder, "config.json")
    with reading(path):
        return parse_json(path.read_bytes(), path)


def _are_names(labels: object) -> bool:
    return isinstance(labels, list) and all(isinstance(name, str) for name in labels) and len({*labels}) == len(labels)


def _own_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    tokenizer = Tokenizer.load(folder)
    other = folder / TARGET
    return tokenizer, Tokenizer.load(other) if other.is_dir() else tokenizer


def _refuse_ids_beyond(tokenizer: Tokenizer, size: int, folder: Path) -> None:
    if tokenizer.vocab_size > size:
        raise CheckpointError(
            "the tokenizer has ids that the model has no vector for",
            where=folder,
            expected=f"at most {size} ids (vocab_size in config.json)",
            got=f"{tokenizer.vocab_size} (tokenizer.json)",
            mend="put back the tokenizer.json that was saved with this model",
        )


def _generation(tokenizer: Tokenizer, conventions: Mapping[str, Any] | None) -> dict[str, Any]:
    """generation_config.json, for other tools; ours read `about`."""
    ids: dict[str, Any] = {f"{role}_token_id": tokenizer.role(role) for role in ("bos", "eos", "pad")}
    if conventions:
        ids |= {"decoder_start_token_id": conventions["start"], "eos_token_id": conventions["ends"]}
        ids["forced_bos_token_id"] = next(iter(conventions["forced"]), None)
    return {name: value for name, value in ids.items() if value not in (None, [])}


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
