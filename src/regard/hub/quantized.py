"""A model folder whose matrices are rounded: opened without a conversion, its tensors where the file has them.

    config.json         as ever, with "quantized": {"form": "int8", "report": {..}}
    model.safetensors   bf16: every tensor in bfloat16
                        int8: NAME.weight (N, K) int8 with NAME.scale (N,) float32 beside it, vectors in float32

What is unusual: the file is mapped into memory, and matrices of int8 are computed with where they lie in it, but for
those of Q, K and V, which `regard.runtime` puts together; processes share what is mapped. (bfloat16 is put in the order
that the CPU reads quickest, where it has units for it.) All the same no value is taken on trust: NaN, infinities and
scales that stand for nothing are refused, which needs one look at the floats, as the sums of a manifest need one at the
file. (A file that somebody cuts short while it is open ends the process; regard itself only ever puts another in its
place.)
What it does not know: how such tensors are computed with (`regard.runtime`), and how good the model still is.

Shapes: N outputs, K inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import CheckpointError, UserError
from regard.hub.atomic import inside, reading
from regard.hub.card import licence_of
from regard.hub.description import Description, WithoutFirstValues
from regard.hub.folder import find_model, write_model
from regard.hub.layout import COPY_AGAIN, Stored
from regard.hub.weights import WEIGHTS, check_fit, state_tensors, write_weights
from regard.model import Model, TransformerConfig, make_model
from regard.text import Tokenizer

QUANTIZED = "quantized"
"""The key of config.json."""
ROUNDED = ("int8", "bf16")
"""The forms that a folder may have."""
_NUMBERS = {"int8": torch.float32, "bf16": torch.bfloat16}
"""What all but the matrices consist of."""


def is_quantized(path: Path) -> bool:
    """Whether there is such a folder. Of whatever is wrong with a folder nothing is said here."""
    try:
        about = json.loads(inside(find_model(path), "config.json").read_bytes())
    except (OSError, ValueError, RecursionError, UserError):
        return False
    return isinstance(about, dict) and about.get("model_type") == "regard" and QUANTIZED in about


def read_form(about: Mapping[str, Any], folder: Path) -> tuple[str, Mapping[str, Any]]:
    """The form of the matrices, and the report on what the rounding changed.

    Args:
        about: the facts of config.json.

    Raises:
        CheckpointError: there is no such form.
    """
    said = about.get(QUANTIZED)
    told: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    form, report = told.get("form"), told.get("report")
    if form not in ROUNDED:
        raise CheckpointError("a form of weights that this regard does not know",
                              where=f"{folder / 'config.json'}: {QUANTIZED}.form", expected=" or ".join(ROUNDED),
                              got=repr(form)[:80],
                              mend="pip install --upgrade regard, or quantise the model anew")  # fmt: skip
    return str(form), report if isinstance(report, Mapping) else {}


def skeleton(config: TransformerConfig, head: str, n_labels: int) -> Model:
    """Such a model without memory of its own, on torch's meta device."""
    with torch.device("meta"), WithoutFirstValues():
        return make_model(config, head, n_labels).eval()


def map_tensors(described: Description, *, allow_nonfinite: bool = False) -> tuple[Model, dict[str, Tensor]]:
    """The skeleton of a quantised folder's model, and the tensors by name, in memory that is the file's.

    Raises:
        CheckpointError: one table of all that does not fit the configuration; numbers of another kind than the form
            has; NaN, infinities and `allow_nonfinite` is False; a scale that is not above 0; a file cannot be read.
    """
    form, _ = read_form(described.about, described.path)
    config = described.config
    if (layers := config.n_encoder_layers + config.n_decoder_layers) > len(described.weights):  # as `read_model`
        raise CheckpointError("the configuration and the weights disagree", where=described.path,
                              expected=f"tensors for {layers:,} layers",
                              got=f"{len(described.weights):,} tensors")  # fmt: skip
    bare = skeleton(config, described.head, described.n_labels)
    expected = _expected(bare, described.weights, form)
    check_fit(expected, described.weights, described.path,
              f"quantise the model anew; a matrix in int8 lies beside its NAME.scale. Or {COPY_AGAIN}")  # fmt: skip
    for name, stored in described.weights.items():
        if stored.dtype != expected[name].dtype:
            raise CheckpointError("other numbers than the form of this folder has", where=f"{stored.path}: {name}",
                                  expected=_called(expected[name].dtype), got=_called(stored.dtype),
                                  mend="quantise the model anew")  # fmt: skip
    with reading(described.path):
        tensors = _mapped(described.weights)
    if not allow_nonfinite:
        _refuse_nonfinite(tensors, described.path)
    return bare, tensors


def write_quantized(
    folder: Path, fast: Model, tensors: Mapping[str, Tensor], tokenizer: Tokenizer, about: Mapping[str, Any], form: str,
    report: Mapping[str, Any], texts: Mapping[str, str], *, target_tokenizer: Tokenizer | None = None,
) -> None:  # fmt: skip
    """Fill an empty folder, as `write_model`.

    Args:
        fast: the model that computes with `tensors`.
        about: the facts of the model that was rounded.
        report: what the rounding changed, friendly to JSON.
    """
    facts = {**about, QUANTIZED: {"form": form, "report": report}}
    write_model(folder, fast, tokenizer, facts, texts, target_tokenizer=target_tokenizer)
    write_weights(folder / WEIGHTS, dict(tensors))  # in place of what `fast` calls its parameters, its vectors alone


def quantized_card(origin: Path, form: str, said: str, name: str) -> str:
    """Markdown: the card of the model that was rounded, if regard wrote it, and what became of it.

    Args:
        origin: that model's folder.
        said: the measurement as a sentence.
        name: of the new folder.
    """
    told = f"The matrices are in {form}: rounded by `regard quantize` from `{origin}`. {said}\n"
    card = origin / "README.md"
    if card.is_file():
        before = card.read_text(encoding="utf-8", errors="replace")
        if "\nlibrary_name: regard\n" in before:
            return f"{before.rstrip()}\n\n## Rounded\n\n{told}"
    front = f"---\nlibrary_name: regard\nlicense: {licence_of(origin) or 'unknown'}\n---\n"
    return f"{front}\n# {name}\n\nA model that somebody else trained. {told}"


def _expected(bare: Model, given: Mapping[str, Stored], form: str) -> dict[str, Tensor]:
    """What such a file holds, without memory: a matrix that it has in int8 may be so, with a scale for each row."""
    numbers, expected = _NUMBERS[form], dict[str, Tensor]()
    of = [path for path, module in bare.named_modules() if isinstance(module, nn.Linear | nn.Embedding)]
    matrices = {f"{path}.weight" for path in (*of, "head")}
    for name, tensor in state_tensors(bare).items():
        if form == "int8" and name in matrices and name in given and given[name].dtype == torch.int8:
            expected[name] = torch.empty(tensor.shape, dtype=torch.int8, device="meta")
            scale = f"{name.removesuffix('weight')}scale"
            expected[scale] = torch.empty(tensor.shape[:1], dtype=torch.float32, device="meta")
        else:
            expected[name] = torch.empty(tensor.shape, dtype=numbers, device="meta")
    return expected


def _mapped(weights: Mapping[str, Stored]) -> dict[str, Tensor]:
    """Each tensor as a view of its file; one that does not lie as its numbers need it, copied."""
    paths = {stored.path for stored in weights.values()}
    files = {path: torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8) for path in paths}
    tensors = {}
    for name, stored in weights.items():
        part = files[stored.path][stored.begin : stored.begin + stored.nbytes]
        aligned = part if stored.begin % stored.dtype.itemsize == 0 else part.clone()
        tensors[name] = aligned.view(stored.dtype).view(stored.shape)
    return tensors


def _refuse_nonfinite(tensors: Mapping[str, Tensor], where: Path) -> None:
    """Raise CheckpointError naming the tensors with NaN or infinity, or scales that are not above 0."""
    bad, nothing = list[str](), list[str]()
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        least, greatest = torch.aminmax(tensor)  # a NaN is both; five times quicker than to ask each number
        if not (torch.isfinite(least) and torch.isfinite(greatest)):
            bad.append(name)
        elif least <= 0 and name.endswith(".scale"):
            nothing.append(name)
    if bad:
        raise CheckpointError(f"NaN or infinite numbers in {len(bad)} of {len(tensors)} tensors", where=where,
                              got=_some(bad), mend="quantise the model anew")  # fmt: skip
    if nothing:
        raise CheckpointError("scales of matrices that are not above 0", where=where, got=_some(nothing),
                              mend="quantise the model anew")  # fmt: skip


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")


def _called(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
