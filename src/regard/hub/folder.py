"""The model folder: everything a model is, in files that other tools can read (interfaces.md, section 1).

    config.json  model.safetensors  tokenizer.json  tokenizer_config.json  generation_config.json  README.md
    recipe.toml  run.jsonl  MANIFEST.sha256

What is unusual: a run folder is a model too. `load_model` takes its best checkpoint, else its latest; and nothing is
allocated before the configuration, the tokenizer and the weights have been found to fit one another.
What it does not know: what a task does with the model; a task's own facts (languages, labels) lie in `about`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.config import build, to_tree
from regard.errors import CheckpointError, ConfigError
from regard.hub.atomic import inside, read_pointer, recover_folder, verify_manifest
from regard.hub.layout import parse_json
from regard.hub.weights import load_strict, read_model_weights, state_tensors, write_weights
from regard.model import Model, TransformerConfig, make_language_model
from regard.text import Tokenizer

FORMAT = 1
"""Of config.json; a folder with a higher number was written by a later regard."""


@dataclass(frozen=True)
class ModelFolder:
    """A loaded model with what belongs to it."""

    path: Path
    model: Model
    tokenizer: Tokenizer
    about: dict[str, Any]
    """The task's facts: {"task": "translation", "languages": [..], ...}, and the run's ("training")."""


def write_model(
    folder: Path, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any], texts: Mapping[str, str] | None = None
) -> None:
    """Fill an empty folder; give this to `commit_folder`, which makes it whole or nothing.

    Args:
        about: JSON-friendly facts for config.json; "task" is one of them.
        texts: further files by name, e.g. recipe.toml, README.md.
    """
    config = {"model_type": "regard", "format": FORMAT, **about, "transformer": to_tree(model.config)}
    generation = {"bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id, "pad_token_id": tokenizer.pad_id}
    write_weights(folder / "model.safetensors", state_tensors(model), metadata={"format": "pt"})
    tokenizer.save(folder)
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", generation)
    for name, text in (texts or {}).items():
        (folder / name).write_text(text, encoding="utf-8")


def load_model(path: Path | str, *, allow_nonfinite: bool = False) -> ModelFolder:
    """Open a model folder, or the best (else latest) checkpoint of a run folder.

    Raises:
        CheckpointError: the folder is missing, damaged (manifest, header, NaN), or its parts do not fit one another.
    """
    folder = find_model(Path(path))
    recover_folder(folder)
    verify_manifest(folder)
    about = read_config(folder)
    config = read_transformer_config(about, folder)
    tokenizer = Tokenizer.load(folder)
    if tokenizer.vocab_size > config.vocab_size:
        raise CheckpointError(
            "the tokenizer has ids that the model has no vector for",
            where=folder,
            expected=f"at most {config.vocab_size} ids (vocab_size in config.json)",
            got=f"{tokenizer.vocab_size} (tokenizer.json)",
            mend="put back the tokenizer.json that was saved with this model",
        )
    tensors = read_model_weights(folder, allow_nonfinite=allow_nonfinite)
    with torch.device("meta"):
        model = make_language_model(config)
    load_strict(model, tensors, folder)  # on the meta device this only compares
    model.to_empty(device="cpu")
    load_strict(model, tensors, folder)
    facts = {key: value for key, value in about.items() if key not in ("model_type", "format", "transformer")}
    return ModelFolder(folder, model.eval(), tokenizer, facts)


def find_model(path: Path) -> Path:
    """The folder with config.json: `path` itself, or the checkpoint that a run's `best` or `latest` names."""
    if not path.is_dir():
        got = "nothing there" if not path.exists() else "a file"
        mend = "give the folder that `regard train ... --out DIR` wrote"
        raise CheckpointError("there is no model folder", where=path, got=got, mend=mend)
    try:
        if (path / "config.json").is_file():
            return path
        for pointer in ("best", "latest"):
            name = read_pointer(path / pointer)
            if name is not None:
                return inside(path, f"checkpoints/{name}")
    except PermissionError as error:
        raise CheckpointError("the folder cannot be read", where=path, got=error.strerror) from None
    raise CheckpointError(
        "this folder holds no model",
        where=path,
        expected="config.json, or a run's `best` or `latest`",
        got=", ".join(sorted(p.name for p in path.iterdir())[:8]) or "an empty folder",
        mend="if the run in it was stopped before its first checkpoint, start it again with --resume",
    )


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of one of our folders. Code that a config asks to run (`auto_map`, `_target_`) is never run."""
    path = inside(folder, "config.json")
    about = parse_json(path.read_bytes(), path)
    if about.get("model_type") != "regard":
        raise CheckpointError(
            "this is not a folder that regard wrote", where=path, expected='"model_type": "regard"',
            got=json.dumps(about.get("model_type")),
        )  # fmt: skip
    if not isinstance(about.get("format"), int) or about["format"] > FORMAT:
        raise CheckpointError(
            "this folder is of a later format", where=path, expected=f"format {FORMAT}", got=about.get("format"),
            mend="pip install --upgrade regard",
        )  # fmt: skip
    for key in ("auto_map", "_target_", "trust_remote_code"):
        if key in about:
            raise CheckpointError("the configuration asks to run code, which regard never does", where=path, got=key)
    return about


def read_transformer_config(about: Mapping[str, Any], folder: Path) -> TransformerConfig:
    """The model's configuration in config.json; raises CheckpointError naming what is wrong with it."""
    try:
        return build(TransformerConfig, about.get("transformer") or {}, where=str(folder / "config.json"))
    except ConfigError as error:
        raise CheckpointError(
            error.what, where=error.where, expected=error.expected, got=error.got, mend=error.mend
        ) from None


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
