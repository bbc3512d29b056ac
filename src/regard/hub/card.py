"""The model card: README.md of a model folder, with the run's real numbers and nothing that was not measured.

What is unusual: every checkpoint has one, for any of them may be the one that is passed on; a checkpoint before the
last has only the scores that were measured then. An imported model has one that says where it is from.
What it does not know: what the numbers mean beyond their names, and under which licence the model may be given away:
that depends on the data, so it stays `unknown` until whoever publishes it says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from regard.hub.description import Description
from regard.model import TransformerConfig

_PIPELINES = {
    "language-model": "text-generation", "translation": "translation", "masked-lm": "fill-mask",
    "embedding": "feature-extraction", "classification": "text-classification", "tagging": "token-classification",
    "question-answering": "question-answering",
}  # fmt: skip
_COUNTED_IN = {"classification": "example", "question-answering": "window"}
"""What a training's losses are counted in, where it is not tokens."""
_UNITS = ("pairs", "documents", "conversations", "examples", "sentences", "questions")
_SHOWN = 30
"""Labels that are named."""


def model_card(about: Mapping[str, Any], config: TransformerConfig) -> str:
    """Markdown with a YAML head that model hubs read; `about` is config.json's, with its "training"."""
    training, task = about["training"], about["task"]
    source, target = about.get("languages") or (None, None)
    targets = about.get("targets") or [code for code in (target,) if code]
    codes = sorted({*([source] if source else []), *targets})
    front = ["---", "library_name: regard", f"pipeline_tag: {_PIPELINES[task]}", "license: unknown"]
    front += ["language:", *(f"- {code}" for code in codes)] if codes else []
    front += ["metrics:", "- bleu", "- chrf"] if training["signatures"] else []
    return "\n".join([
        *front, "---", "", f"# {_title(task, source, targets)}", "",
        f"{config.n_parameters:,} parameters: {_sizes(config)}.", "",
        *_labels(about),
        f"{training['steps']:,} updates over {training['tokens']:,} {_unit(task)}s{_counted(training, 'train')} "
        f"in {training['seconds'] / 60:,.1f} minutes, seed {training['seed']}, on {_machine(training)}.", "",
        *_scores(training, _unit(task)), "",
        "Data, by its SHA-256:", "", *(f"- `{path}` {digest}" for path, digest in training["data"].items()), "",
        "The exact recipe is in `recipe.toml`. To repeat the run, with the same data where the recipe says it is:", "",
        f"    regard train recipe.toml --out DIR --threads {training['machine']['threads']}", "",
        "The licence is for whoever publishes the model to state: it depends on the data.", "",
    ])  # fmt: skip


def imported_card(described: Description, origin: str, name: str) -> str:
    """Markdown for a model that was opened from another family's folder.

    Args:
        origin: that folder's path, or the model's name on the hub.
        name: of the folder that the model is now in.
    """
    licence, kind = licence_of(described.path) or "unknown", described.about["family"]
    stated = "what the README.md beside it said" if licence != "unknown" else "no README.md beside it said one"
    return "\n".join([
        "---", "library_name: regard", f"pipeline_tag: {_PIPELINES[described.about['task']]}", f"license: {licence}",
        "---", "", f"# {name}", "",
        f"A {kind} model that somebody else trained. It was imported from `{origin}` on {date.today().isoformat()}; "
        "its weights were not changed.", "",
        f"{described.n_parameters:,} parameters: {_sizes(described.config)}; its head: {described.head}.", "",
        *(f"Note: {note}.\n" for note in described.notes),
        f"Licence: {licence}; {stated}.", "",
    ])  # fmt: skip


def licence_of(folder: Path) -> str | None:
    """The `license` in the YAML head of the folder's README.md."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    head = re.match(r"---\r?\n(.*?)\r?\n---", card.read_text(encoding="utf-8", errors="replace"), flags=re.DOTALL)
    found = re.search(r"^license: *(\S.*)$", head[1], flags=re.MULTILINE) if head else None
    return found[1].strip() if found else None


def _sizes(config: TransformerConfig) -> str:
    layers = f"{config.n_encoder_layers} + {config.n_decoder_layers} layers"
    return f"{layers}, width {config.d_model}, {config.n_heads} heads, a vocabulary of {config.vocab_size:,}"


def _title(task: str, source: str | None, targets: Sequence[str]) -> str:
    title = task.capitalize().replace("-lm", " language model").replace("-", " ")
    return f"{title} {_direction(source, targets)}" if task == "translation" else title


def _counted(training: Mapping[str, Any], part: str) -> str:
    """ " of 29,000 pairs", or of documents; nothing where they were not counted."""
    counts = [(name.partition("_")[2], n) for name, n in training.items() if name.startswith(f"{part}_")]
    return "".join(f" of {n:,} {unit}" for unit, n in counts if unit in _UNITS)


def _direction(source: str | None, targets: Sequence[str]) -> str:
    """ "from en to de or fr"; what the data does not name is said."""
    match source, " or ".join(targets):
        case None, "":
            return "(its data does not name the languages)"
        case None, ends:
            return f"to {ends} (its data does not name the source language)"
        case _, "":
            return f"from {source} (its data does not name the target language)"
        case _, ends:
            return f"from {source} to {ends}"


def _machine(training: Mapping[str, Any]) -> str:
    machine, versions = training["machine"], training["versions"]
    device = machine["devices"][-1] if len(machine["devices"]) > 1 else machine["cpu"]
    threads = f"{machine['threads']} of {machine['cores']} CPU cores, {machine['instruction_set']}"
    return f"{device} ({threads}), {training['date']}, " + ", ".join(f"{name} {of}" for name, of in versions.items())


def _unit(task: str) -> str:
    return _COUNTED_IN.get(task, "target token")


def _labels(about: Mapping[str, Any]) -> list[str]:
    """The label set, in the order of its ids."""
    labels: Sequence[str] = about.get("labels") or ()
    more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
    return [f"Labels: {', '.join(labels[:_SHOWN])}{more}.", ""] if labels else []


def _scores(training: Mapping[str, Any], unit: str) -> list[str]:
    signatures = training["signatures"]
    each = unit.removeprefix("target ")
    lines = [f"Scores on the development part{_counted(training, 'dev')}; dev_loss in nats a {each}."]
    if signatures:
        lines[0] += " BLEU and chrF by sacrebleu, greedy, on up to 300 of the pairs."
    lines += ["", "| score | value | signature |", "|---|---|---|"]
    return lines + [
        f"| {name} | {value:.4g} | {signatures.get(name, '').replace('|', chr(92) + '|')} |"
        for name, value in training["scores"].items()
    ]
