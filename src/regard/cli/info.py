"""`regard info`: what a model is, read from its folder without loading its weights.

What is unusual: only facts that the folder holds are shown; what it does not say is left out.
What it does not know: how a folder is laid out (`regard.hub`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import print_json, size, table


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Say what a model is: task, languages, size, axes, training, scores, files, licence."""

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""


def run(args: Arguments) -> None:
    """Read the folder and show it."""
    facts = read_facts(args.model)
    if args.json:
        print_json(facts)
    else:
        _show(facts)


def read_facts(path: Path) -> dict[str, Any]:
    """What config.json, the card and the files say; raises CheckpointError as `load_model`."""
    from regard.hub.folder import find_model, read_config, read_transformer_config

    folder = find_model(path)
    about = read_config(folder)
    config = read_transformer_config(about, folder)
    training = dict(about.get("training", {}))
    return {
        "model": folder,
        "task": about.get("task"),
        "languages": about.get("languages"),
        "license": _licence(folder),
        "parameters": config.n_parameters,
        "transformer": about["transformer"],
        "scores": training.pop("scores", {}),
        "training": training,
        "files_bytes": {file.name: file.stat().st_size for file in sorted(folder.iterdir()) if file.is_file()},
    }


def _licence(folder: Path) -> str | None:
    """The `license` of the model card's YAML head."""
    card = folder / "README.md"
    found = re.match(r"---\n(?:.*\n)*?license: *(.+)\n", card.read_text(encoding="utf-8")) if card.is_file() else None
    return found[1] if found else None


def _show(facts: dict[str, Any]) -> None:
    languages = " to ".join(code or "?" for code in facts["languages"] or [])
    rows = [
        ("folder", str(facts["model"])),
        ("task", f"{facts['task']} {languages}"),
        ("licence", str(facts["license"])),
    ]
    rows += [("parameters", f"{facts['parameters']:,}")]
    table(["model", ""], rows)
    for title, values in (("axis", facts["transformer"]), ("score", facts["scores"]), ("training", facts["training"])):
        print()
        table([title, ""], list(_flat(values)))
    print()
    table(["file", ""], [(name, size(count)) for name, count in facts["files_bytes"].items()])


def _flat(values: dict[str, Any], path: str = "") -> list[tuple[str, str]]:
    """Nested fields with dotted names."""
    rows = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{path}{name}.")
        else:
            shown = f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
            rows.append((path + name, shown))
    return rows
