"""Law 35 and 36: a model folder gives back what was put into it, or says what is wrong with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.hub.atomic import MANIFEST, commit_folder
from regard.hub.folder import load_model, write_model
from regard.hub.weights import WEIGHTS, read_weights, write_weights
from regard.model import Model, TransformerConfig, make_language_model
from regard.text import Tokenizer

TOKENIZER = Tokenizer.train(["abcdefgh"], kind="chars", vocab_size=40)
V = TOKENIZER.vocab_size
NAME = "transformer.encoder.layers.0.ffn.up.weight"


def make_model(**more: object) -> Model:
    sizes = {"vocab_size": V, "d_model": 8, "n_heads": 2, "d_ff": 12, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return make_language_model(TransformerConfig(**sizes | more)).eval()  # type: ignore[arg-type]


def save(model: Model, folder: Path) -> Path:
    about = {"task": "translation", "languages": ["en", "de"], "length_ratio": 1.5}
    commit_folder(folder, lambda draft: write_model(draft, model, TOKENIZER, about, {"README.md": "# card\n"}))
    return folder


def logits(model: Model) -> Tensor:
    ids = torch.arange(6).view(2, 3)
    return model.logits(model.transformer.decode(ids, model.transformer.start(model.transformer.encode(ids))))


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_saved_comes_back_to_the_last_bit(tmp_path: Path, tied: bool) -> None:
    model = make_model(tie_embeddings=tied)
    loaded = load_model(save(model, tmp_path / "m"))
    assert torch.equal(logits(loaded.model), logits(model))
    assert loaded.model.config == model.config and not loaded.model.training
    assert loaded.about == {"task": "translation", "languages": ["en", "de"], "length_ratio": 1.5}
    assert loaded.tokenizer.encode("abc") == TOKENIZER.encode("abc")
    stored = read_weights(tmp_path / "m" / WEIGHTS)
    assert sum(t.shape == (V, 8) for t in stored.values()) == (1 if tied else 2), "a tied matrix is stored once"
    assert sum(t.numel() for t in stored.values()) == model.config.n_parameters


def test_a_tied_matrix_is_one_after_loading_and_after_a_step(tmp_path: Path) -> None:
    model = load_model(save(make_model(), tmp_path / "m")).model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.transformer.tokens.weight.detach().clone()
    logits(model).square().sum().backward()
    optimizer.step()
    head = model.head.projection(model.transformer.tokens.weight)
    assert head.data_ptr() == model.transformer.tokens.weight.data_ptr()
    assert not torch.equal(head, before)


def edited(folder: Path, edit: Callable[[dict[str, Tensor]], object]) -> Path:
    """The folder with other weights and no manifest, so that nothing but the weights themselves can tell."""
    tensors = read_weights(folder / WEIGHTS)
    edit(tensors)
    write_weights(folder / WEIGHTS, tensors)
    (folder / MANIFEST).unlink()
    return folder


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda tensors: tensors.pop(NAME), "missing"),
        (lambda tensors: tensors.update({NAME + "x": tensors.pop(NAME)}), NAME + "x"),
        (lambda tensors: tensors.update({NAME: tensors[NAME][:-1].clone()}), "(11, 8)"),
        (lambda tensors: tensors[NAME].view(-1)[3:4].fill_(float("nan")), "NaN"),
        (lambda tensors: tensors.update(extra=torch.ones(2)), "extra"),
    ],
    ids=["deleted", "renamed", "resized", "nan", "added"],
)
def test_one_wrong_tensor_is_named(tmp_path: Path, edit: Callable[[dict[str, Tensor]], object], says: str) -> None:
    folder = edited(save(make_model(), tmp_path / "m"), edit)
    with pytest.raises(CheckpointError) as caught:
        load_model(folder)
    named = "extra" if says == "extra" else NAME
    assert named in str(caught.value) and says in str(caught.value) and caught.value.exit_code == 4


def test_config_and_weights_disagree(tmp_path: Path) -> None:
    folder = edited(save(make_model(), tmp_path / "m"), lambda tensors: None)
    config = json.loads((folder / "config.json").read_text())
    config["transformer"]["d_ff"] = 16
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError) as caught:
        load_model(folder)
    assert "(16, 8)" in str(caught.value) and "(12, 8)" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "elephant"}, "a family of models that regard does not know"),
        ({"format": 99}, "later format"),
        ({"format": "1"}, "later format"),
        ({"auto_map": {"AutoModel": "evil.py"}}, "run code"),
        ({"transformer": {"d_model": 10**12}}, "vocab_size"),
        ({"transformer": None}, "missing field"),
    ],
)
def test_a_config_that_is_not_ours_is_refused(tmp_path: Path, change: dict[str, object], says: str) -> None:
    folder = edited(save(make_model(), tmp_path / "m"), lambda tensors: None)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(CheckpointError, match=says):
        load_model(folder)


def test_a_run_folder_is_its_best_checkpoint(tmp_path: Path) -> None:
    for step in (1, 2):
        save(make_model(), tmp_path / "checkpoints" / f"step-{step}")
    (tmp_path / "latest").write_text("step-2\n")
    assert load_model(tmp_path).path.name == "step-2"
    (tmp_path / "best").write_text("step-1\n")
    assert load_model(tmp_path).path.name == "step-1"
    shutil.rmtree(tmp_path / "checkpoints" / "step-1")
    with pytest.raises(CheckpointError, match="no such folder"):
        load_model(tmp_path)
