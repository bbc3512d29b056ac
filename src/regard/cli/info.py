"""`regard info`: what a model is, read from its folder without loading its weights.

What is unusual: only facts that the folder holds are shown; what it does not say is left out. A Hugging Face folder is
shown as the model it would be here.
What it does not know: how a folder is laid out (`regard.hub`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import print_json, size, table


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Say what a model is: family, task, languages, size, axes, training, scores, files, licence."""

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run, or a Hugging Face folder."""


def run(args: Arguments) -> None:
    """Read the folder and show it."""
    facts = read_facts(args.model)
    if args.json:
        print_json(facts)
    else:
        _show(facts)


def read_facts(path: Path) -> dict[str, Any]:
    """What config.json, the card, the headers and the files say; raises CheckpointError as `describe_model`."""
    from regard.config import to_tree
    from regard.hub.card import licence_of
    from regard.hub.folder import describe_model

    described = describe_model(path)
    about, folder = described.about, described.path
    training = dict(about.get("training", {}))
    return {
        "model": folder,
        "family": about.get("family"),
        "task": about.get("task"),
        "head": described.head,
        "languages": about.get("languages"),
        "labels": about.get("labels"),
        "license": licence_of(folder),
        "parameters": described.n_parameters,
        "quantized": about.get("quantized"),
        "transformer": to_tree(described.config),
        "scores": training.pop("scores", {}),
        "training": training,
        "notes": described.notes,
        "files_bytes": {file.name: file.stat().st_size for file in sorted(folder.iterdir()) if file.is_file()},
    }


def _show(facts: dict[str, Any]) -> None:
    codes = facts["languages"] or []
    languages = " to ".join(code or "?" for code in codes) if any(codes) else ""
    rows = [("folder", str(facts["model"]))]
    rows += [("family", facts["family"])] if facts["family"] else []
    rows += [
        ("task", f"{facts['task']} {languages}".rstrip()),
        ("head", facts["head"]),
        *([("labels", _some(facts["labels"]))] if facts["labels"] else []),
        ("licence", facts["license"] or "unknown"),
        ("parameters", f"{facts['parameters']:,}"),
        *([("quantized", _rounded(facts["quantized"]))] if facts["quantized"] else []),
    ]
    table(["model", ""], rows + [("note", note) for note in facts["notes"]])
    for title, values in (("axis", facts["transformer"]), ("score", facts["scores"]), ("training", facts["training"])):
        if values:
            print()
            table([title, ""], list(_flat(values)))
    print()
    table(["file", ""], [(name, size(count)) for name, count in facts["files_bytes"].items()])


def _rounded(told: object) -> str:
    """The form of rounded matrices, and what was found when they were rounded."""
    form, report = (told.get("form"), told.get("report")) if isinstance(told, dict) else (told, None)
    found = f": {report.get('sentence')}, on {report.get('examples')} examples" if isinstance(report, dict) else ""
    return f"{form}{found}"


def _some(names: list[str], at_most: int = 20) -> str:
    """Names with commas between, the first of many."""
    more = f" and {len(names) - at_most:,} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


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
