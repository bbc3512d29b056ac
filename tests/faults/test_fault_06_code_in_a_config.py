"""Fault 6: `auto_map`, `_target_` or `trust_remote_code` in a configuration: never obeyed, and said."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import CheckpointError
from regard.hub.atomic import MANIFEST, commit_folder
from regard.hub.folder import load_model, write_model

FIELDS = {
    "auto_map": {"AutoConfig": "modeling_evil.Config", "AutoModelForCausalLM": "modeling_evil.Model"},
    "_target_": "modeling_evil.Model",
    "trust_remote_code": True,
}


def with_code(folder: Path, field: str) -> Path:
    """The folder with code beside it that, run or imported, makes the folder `pwned`, and a field that asks for it."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {field: FIELDS[field]}))
    for name in ("modeling_evil.py", "tokenization_evil.py", "__init__.py"):
        (folder / name).write_text(f"import os\nos.mkdir({str(folder / 'pwned')!r})\n")
    return folder


@pytest.mark.parametrize("field", FIELDS)
def test_another_tools_folder_opens_without_its_code(gpt2: Callable[..., Path], field: str) -> None:
    folder = with_code(gpt2(), field)
    (note,) = load_model(folder).notes
    assert field in note and "never" in note
    assert not (folder / "pwned").exists() and "modeling_evil" not in sys.modules


@pytest.mark.parametrize("field", FIELDS)
def test_a_folder_of_ours_is_refused(gpt2: Callable[..., Path], tmp_path: Path, field: str) -> None:
    found, ours = load_model(gpt2()), tmp_path / "ours"
    commit_folder(ours, lambda draft: write_model(draft, found.model, found.tokenizer, found.about))
    (ours / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="asks to run code"):
        load_model(with_code(ours, field))
    assert not (ours / "pwned").exists()
