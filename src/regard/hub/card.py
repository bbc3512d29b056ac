"""The model card: README.md of a model folder, with the run's real numbers and nothing that was not measured.

What is unusual: every checkpoint has one, for any of them may be the one that is passed on; a checkpoint before the
last has only the scores that were measured then.
What it does not know: what the numbers mean beyond their names, and under which licence the model may be given away:
that depends on the data, so it stays `unknown` until whoever publishes it says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.model import TransformerConfig


def model_card(about: Mapping[str, Any], config: TransformerConfig) -> str:
    """Markdown with a YAML head that model hubs read; `about` is config.json's, with its "training"."""
    training, task = about["training"], about["task"]
    source, target = about["languages"]
    targets = about.get("targets") or [code for code in (target,) if code]
    codes = sorted({*([source] if source else []), *targets})
    front = ["---", "library_name: regard", f"pipeline_tag: {task}", "license: unknown"]
    front += ["language:", *(f"- {code}" for code in codes)] if codes else []
    front += ["metrics:", "- bleu", "- chrf"] if training["signatures"] else []
    layers = f"{config.n_encoder_layers} + {config.n_decoder_layers} layers"
    sizes = f"{layers}, width {config.d_model}, {config.n_heads} heads, a vocabulary of {config.vocab_size:,}"
    return "\n".join([
        *front, "---", "", f"# {task.capitalize()} {_direction(source, targets)}", "",
        f"{config.n_parameters:,} parameters: {sizes}.", "",
        f"{training['steps']:,} updates over {training['tokens']:,} target tokens of {training['train_pairs']:,} pairs "
        f"in {training['seconds'] / 60:,.1f} minutes, seed {training['seed']}, on {_machine(training)}.", "",
        *_scores(training), "",
        "Data, by its SHA-256:", "", *(f"- `{path}` {digest}" for path, digest in training["data"].items()), "",
        "The exact recipe is in `recipe.toml`. To repeat the run, with the same data where the recipe says it is:", "",
        f"    regard train recipe.toml --out DIR --threads {training['machine']['threads']}", "",
        "The licence is for whoever publishes the model to state: it depends on the data.", "",
    ])  # fmt: skip


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


def _scores(training: Mapping[str, Any]) -> list[str]:
    signatures = training["signatures"]
    lines = [f"Scores on {training['dev_pairs']:,} development pairs; dev_loss in nats a token."]
    if signatures:
        lines[0] += " BLEU and chrF by sacrebleu, greedy, on up to 300 of the pairs."
    lines += ["", "| score | value | signature |", "|---|---|---|"]
    return lines + [
        f"| {name} | {value:.4g} | {signatures.get(name, '').replace('|', chr(92) + '|')} |"
        for name, value in training["scores"].items()
    ]
