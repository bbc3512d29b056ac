"""Rounded matrices on the disk: what is opened computes what was written, to the last bit, or is refused by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.api import load
from regard.errors import CheckpointError
from regard.hub.atomic import MANIFEST, commit_folder
from regard.hub.folder import describe_model, load_model
from regard.hub.layout import read_layout
from regard.hub.quantized import is_quantized, skeleton, write_quantized
from regard.hub.weights import WEIGHTS, read_weights, write_weights
from regard.model import Model, Relative, TransformerConfig, head_name, make_model
from regard.runtime import Form, furnish, make_fast, narrowed
from regard.runtime.products import FastLinear
from regard.text import Tokenizer
from regard.training.start import open_origin

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENIZER = Tokenizer.train(["abcdefgh"], kind="chars", vocab_size=40)
MATRIX = "transformer.encoder.layers.0.ffn.up"
VECTOR = "transformer.encoder.layers.0.ffn_norm.weight"
BOTH = {"n_encoder_layers": 1, "n_decoder_layers": 1}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "translation": ("language-model", BOTH),
    "two vocabularies": ("language-model", {**BOTH, "decoder_vocab_size": TOKENIZER.vocab_size + 3}),
    "untied, with a bias": ("language-model", {**BOTH, "tie_embeddings": False, "head_bias": True}),
    "relative positions": ("language-model", {**BOTH, "positions": Relative(), "norm": "rms", "logit_scale": 0.5}),
    "masked-lm": ("masked-lm", {"n_encoder_layers": 2, "head_bias": True, "n_token_types": 2}),
    "tagging": ("tagger", {"n_encoder_layers": 1, "norm_order": "pre"}),
}  # fmt: skip


def drawn(kind: str = "translation") -> Model:
    head, more = KINDS[kind]
    sizes = {"vocab_size": TOKENIZER.vocab_size, "d_model": 16, "n_heads": 2, "d_ff": 24, "max_len": 32}
    return make_model(TransformerConfig(**sizes | more), head, 3).eval()  # type: ignore[arg-type]


def save(model: Model, folder: Path, form: Form, task: str = "translation") -> Path:
    """As `regard quantize` does it, with a report that says nothing but that all is well."""
    tensors = narrowed(model, form)
    fast = furnish(skeleton(model.config, head_name(model), 3), tensors, form)
    about = {"task": task, "languages": ["en", "de"], "labels": ["O", "B-x", "I-x"]}
    report = {"passed": True}
    commit_folder(folder, lambda draft: write_quantized(draft, fast, tensors, TOKENIZER, about, form, report, {}))
    return folder


def said(model: Model) -> Tensor:
    ids = torch.arange(6).view(2, 3)
    hidden = model.transformer.encode(ids)
    if model.transformer.decoder is not None:
        hidden = model.transformer.decode(ids, model.transformer.start(hidden))
    return model.logits(hidden) if "lm" in head_name(model) or "language" in head_name(model) else model.head(hidden)


@torch.no_grad()
@pytest.mark.parametrize("form", ["int8", "bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_opened_computes_as_what_was_written(kind: str, form: Form, tmp_path: Path) -> None:
    model, task = drawn(kind), kind if kind in ("masked-lm", "tagging") else "translation"
    folder = save(model, tmp_path / "m", form, task)
    found = load(folder, device="cpu")
    assert torch.equal(said(found.model), said(make_fast(model, form)))
    assert found.fast is found.model and found.form is None and not torch.equal(said(found.model), said(model))
    assert found.about["labels"] == ["O", "B-x", "I-x"] and found.about["quantized"]["form"] == form
    kinds = {stored.dtype for stored in read_layout(folder / WEIGHTS).values()}
    assert kinds == ({torch.bfloat16} if form == "bf16" else {torch.int8, torch.float32})


def test_a_real_model_opens_where_its_file_is(model_dir: Callable[[str], Path], tmp_path: Path) -> None:
    plain = load(model_dir("stories260k"), device="cpu", dtype="int8")
    folder = save(plain.model, tmp_path / "m", "int8", "language-model")
    plain.tokenizer.save(folder)
    (folder / MANIFEST).unlink()  # other words, in whose place the real ones came
    found = load(folder, device="cpu")
    prompt = "Once upon a time"
    with torch.no_grad():
        ids = torch.tensor([plain.tokenizer.encode(prompt)])
        ours, theirs = (model.logits(model.transformer.decode(ids, model.transformer.start()))
                        for model in (found.model, plain.fast))  # fmt: skip
    assert torch.equal(ours, theirs)
    assert found.generate(prompt, max_tokens=20).ids == plain.generate(prompt, max_tokens=20).ids
    if sys.platform == "linux":
        (line,) = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder / WEIGHTS) in line]
        begin, end = (int(place, 16) for place in line.split()[0].split("-"))
        held = {path: layer.weight for path, layer in found.model.named_modules() if isinstance(layer, FastLinear)}
        copied = {path.split(".")[-1] for path, weight in held.items()
                  if weight is not None and not begin <= weight.data_ptr() < end}  # fmt: skip
        assert len(held) > 10 and copied == {"qkv"}, "all but what is put together of three lies in the file"


def change(folder: Path, tensors: dict[str, Tensor | None]) -> None:
    """Put these in place of the tensors of the folder, or take them away; and the sums, which would show it."""
    now = read_weights(folder / WEIGHTS) | tensors
    write_weights(folder / WEIGHTS, {name: tensor for name, tensor in now.items() if tensor is not None})
    (folder / MANIFEST).unlink()


ROWS = torch.ones(24)
FAULTS: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "no scale": ({f"{MATRIX}.scale": None}, f"{MATRIX}.scale +float32 .24,. +missing"),
    "a scale too short": ({f"{MATRIX}.scale": torch.ones(23)}, f"{MATRIX}.scale +float32 .24,. +float32 .23,."),
    "a scale of another kind": ({f"{MATRIX}.scale": ROWS.half()}, f"{MATRIX}.scale: other numbers"),
    "a scale that is not a number": ({f"{MATRIX}.scale": ROWS * torch.nan}, f"got: {MATRIX}.scale"),
    "a scale of zero": ({f"{MATRIX}.scale": ROWS.clone().index_fill_(0, torch.tensor(3), 0)}, f"got: {MATRIX}.scale"),
    "a matrix turned round": (
        {f"{MATRIX}.weight": torch.ones(16, 24, dtype=torch.int8)}, f"{MATRIX}.weight +int8 .24, 16. +int8 .16, 24."
    ),
    "a scale of nothing": ({f"{VECTOR.removesuffix('weight')}scale": ROWS}, "scale +nothing"),
    "a vector in int8": ({VECTOR: torch.ones(16, dtype=torch.int8)}, f"{VECTOR} +float32 .16,. +int8"),
    "a vector in bfloat16": ({VECTOR: torch.ones(16, dtype=torch.bfloat16)}, f"{VECTOR}: other numbers"),
    "an infinite vector": ({VECTOR: torch.full((16,), torch.inf)}, f"got: {VECTOR}"),
    "no matrix": ({f"{MATRIX}.weight": None, f"{MATRIX}.scale": None}, f"{MATRIX}.weight +float32 .24, 16. +missing"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_damage_is_told_with_its_place(fault: str, tmp_path: Path) -> None:
    tensors, says = FAULTS[fault]
    folder = save(drawn(), tmp_path / "m", "int8")
    change(folder, tensors)
    with pytest.raises(CheckpointError, match=says) as caught:
        load(folder, device="cpu")
    assert str(folder) in str(caught.value.where) and caught.value.mend


def test_what_is_not_a_number_can_be_looked_at(tmp_path: Path) -> None:
    folder = save(drawn(), tmp_path / "m", "bf16")
    change(folder, {VECTOR: torch.full((16,), torch.nan, dtype=torch.bfloat16)})
    with pytest.raises(CheckpointError, match="NaN or infinite numbers in 1 of "):
        load(folder, device="cpu")
    assert load(folder, device="cpu", allow_nonfinite=True).model.head is not None


@pytest.mark.parametrize("told", [{"form": "int3"}, {}, None, "int8", ["int8"], {"form": None, "report": {}}])
def test_an_unknown_form_is_named(told: object, tmp_path: Path) -> None:
    folder = save(drawn(), tmp_path / "m", "int8")
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "quantized": told}))
    (folder / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="int8 or bf16") as caught:
        load(folder, device="cpu")
    assert "config.json: quantized.form" in str(caught.value.where)


def test_a_report_that_is_not_clean_is_not_taken_for_granted(tmp_path: Path) -> None:
    folder = save(drawn(), tmp_path / "m", "int8")
    config = folder / "config.json"
    text = config.read_text()
    config.write_text(text.replace('"passed": true', '"passed": false'))
    with pytest.raises(CheckpointError, match="not the one that was saved"):
        load(folder, device="cpu")
    (folder / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="nothing says that this model is as good") as caught:
        load(folder, device="cpu")
    assert "--dtype int8" in str(caught.value.mend)
    assert load(folder, device="cpu", dtype="int8").fast.transformer.tokens.weight.dtype == torch.int8


def test_a_cut_file_and_a_flipped_bit_are_found(tmp_path: Path) -> None:
    folder = save(drawn(), tmp_path / "m", "int8")
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(bytes([*whole[:-9], whole[-9] ^ 4, *whole[-8:]]))
    with pytest.raises(CheckpointError, match="not the one that was saved"):
        load(folder, device="cpu")
    (folder / MANIFEST).unlink()
    (folder / WEIGHTS).write_bytes(whole[:-9])
    with pytest.raises(CheckpointError, match="cut off"):
        load(folder, device="cpu")


def test_more_layers_than_tensors_are_not_built(tmp_path: Path) -> None:
    folder = save(drawn(), tmp_path / "m", "int8")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"n_encoder_layers": 1', '"n_encoder_layers": 100000'))
    (folder / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="tensors for 100,001 layers"):
        load(folder, device="cpu")


@pytest.mark.parametrize("form", ["int8", "bf16"])
def test_who_needs_plain_weights_is_refused(form: Form, tmp_path: Path) -> None:
    model = drawn()
    folder = save(model, tmp_path / "m", form)
    assert is_quantized(folder) and not is_quantized(tmp_path) and not is_quantized(tmp_path / "nothing")
    assert describe_model(folder).n_parameters == model.config.n_parameters
    for refused in (lambda: load_model(folder), lambda: open_origin(str(folder), "translation")):
        with pytest.raises(CheckpointError, match="a quantised model") as caught:
            refused()
        assert str(caught.value.mend).startswith("take the model that it was made of")
