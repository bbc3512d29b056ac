"""The model card: README.md of a model folder, with the run's real numbers and nothing that was not measured.

What it does not know: what the numbers mean beyond their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.model import TransformerConfig


def model_card(about: Mapping[str, Any], config: TransformerConfig) -> str:
    """Markdown with a YAML head that model hubs read."""
    training = about["training"]
    languages = [code for code in about.get("languages", []) if code]
    front = ["---", "library_name: regard", f"pipeline_tag: {about['task']}", "license: unknown"]
    front += ["language:", *(f"- {code}" for code in languages)] if languages else []
    sizes = (
        f"{config.n_encoder_layers} + {config.n_decoder_layers} layers, width {config.d_model}, {config.n_heads} heads"
    )
    scores = "\n".join(f"| {name} | {value:.4g} |" for name, value in training["scores"].items())
    files = "\n".join(f"- `{path}` sha256 `{digest}`" for path, digest in training["data"].items())
    direction = f"({' to '.join(languages)})" if languages else "of its own"
    return "\n".join([
        *front, "---", "", f"# A {about['task']} model {direction}", "",
        f"{config.n_parameters:,} parameters ({sizes}); {training['steps']:,} updates over {training['tokens']:,} "
        f"target tokens in {training['seconds']:,.0f} seconds on {training['train_pairs']:,} pairs.", "",
        f"Scores on {training['dev_pairs']:,} development pairs (BLEU and chrF: sacrebleu, greedy, up to 300 pairs):",
        "", "| score | value |", "|---|---|", scores, "", "Data:", "", files, "",
        "The exact recipe is in `recipe.toml`; `regard train recipe.toml --out DIR` repeats the run.",
        "The licence is for whoever publishes the model to state: it depends on the data.", "",
    ])  # fmt: skip
