"""Write docs/families.md, what of published models regard opens and gives back: python docs/families.py

The families are those of `regard.hub.families`; the variants are those that tests/parity checks against transformers:
every parameter drawn, full passes and ragged batches within 1e-4, cached greedy generation, round trips to the bit.
A test compares the file with what this would write, so that nothing is claimed that is not tested.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from regard.hub import families
from regard.hub.ctranslate import unconverted
from regard.hub.families import FAMILIES
from regard.hub.keymap import Family

CHECKOUT = Path(__file__).parents[1]
PAGE = """# Published models that open in regard

Written by `python docs/families.py` from `src/regard/hub/families` and `tests/parity`; a change by hand is lost, and a
test notices it.

    regard import HF_DIR OUT            a Hugging Face folder becomes a regard model; regard.load(HF_DIR) opens it too
    regard export MODEL OUT --to hf     the way back, with a parity report; --to ctranslate2 goes on from there

A variant is listed when the parity tests hold it against transformers: all parameters drawn at random, biases and norms
included, so that logits have a standard deviation of at least 1; whole and ragged batches within 1e-4, greedy
generation from the cache equal over 32 tokens (beam search too where there is an encoder and a decoder), tensors back
to the bit under the same names. Swapped queries and keys, a dropped bias, a missing norm or moved positions must fail.
What goes to CTranslate2 goes there without a window and without a second vocabulary; `tests/unit/cli/test_export.py`
compares one model of each such family.
"""
LEFT_OUT = """
## What is refused, by name

| what | why |
|---|---|
| RoPE scaled by `dynamic` or `longrope`, yarn with `truncate: false` | angles that depend on the text |
| windows in some layers and not in others, RoPE settings per layer type | one window and one scheme for all layers |
| GPT-2 with `scale_attn_by_inverse_layer_idx`, decoders with cross-attention and no encoder | no such axis |
| encoders and decoders of unlike width, heads or feed-forward (BART) | one configuration for both |
| multiple choice and other heads of BERT's line than for classes, tags and answers | no such task |
| mT5, T5 encoders alone, mixtures of experts, models of images or sound | other mathematics |
| `quantization_config` (bitsandbytes, GPTQ, AWQ), GGUF | packed weights; open the original |
| adapters (LoRA, PEFT) alone | merge them into their model first |
| pickled weights (`.bin`, `.pt`) | they can run code; the message has the command that converts them |
| `auto_map`, `trust_remote_code` | code out of a model's folder is never run; the rest is read |
"""


def variants() -> Iterator[tuple[str, str]]:
    """(name of a family's constant, name of a variant), as the tests have them in tables of name -> (FAMILY, ...)."""
    for path in sorted((CHECKOUT / "tests" / "parity").glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(value, ast.Dict):
                for key, row in zip(value.keys, value.values, strict=True):
                    first = row.elts[0] if isinstance(row, ast.Tuple) and row.elts else None
                    if isinstance(key, ast.Constant) and isinstance(first, ast.Name) and first.id.isupper():
                        yield first.id, str(key.value)


def page() -> str:
    """The whole file."""
    checked: dict[str, list[str]] = {}
    for constant, variant in variants():
        family = getattr(families, constant, None)
        if isinstance(family, Family):
            checked.setdefault(family.name, []).append(variant)
    lines = ["", "| family | `model_type` | goes to CTranslate2 | checked |", "|---|---|---|---|"]
    for family in FAMILIES:
        types = ", ".join(f"`{kind}`" for kind in family.model_types)
        why = unconverted(family)
        goes = "yes" if why is None else f"no: {why}"
        lines.append(f"| {family.name} | {types} | {goes} | {'; '.join(checked.get(family.name, ['nothing']))} |")
    return PAGE + "\n".join(lines) + "\n" + LEFT_OUT


if __name__ == "__main__":
    (CHECKOUT / "docs" / "families.md").write_text(page(), encoding="utf-8")
