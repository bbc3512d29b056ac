"""Models as Hugging Face folders: the right family, every field that a user needs, and our own reader takes it back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging

from regard.errors import ConfigError
from regard.hub.export import Ids, find_form, write_hugging_face
from regard.hub.families import FAMILIES
from regard.hub.folder import ModelFolder, load_model
from regard.model import Learned, Rope, TransformerConfig, make_model
from regard.text import Tokenizer

logging.disable_progress_bar()
TEXTS = ["A man rides a bicycle past the old station.", "Zwei Kinder spielen Schach.", "3 May 2024, was it?"] * 4
TRANSLATOR: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 2, "norm_order": "pre", "embed_scale": 3.0}
LLAMA_LIKE: dict[str, Any] = {
    "n_decoder_layers": 2, "norm_order": "pre", "norm": "rms", "positions": Rope(), "activation": "silu",
    "gated_ffn": True, "bias": "none", "n_kv_heads": 1,
}  # fmt: skip


def folder(tmp_path: Path, axes: dict[str, Any], head: str = "language-model", **about: Any) -> ModelFolder:
    """A model with random parameters, norms and biases too, and a vocabulary."""
    tokenizer = Tokenizer.train(TEXTS, vocab_size=300, specials=about.pop("specials", ()))
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 16, "n_heads": 2, "d_ff": 24, "max_len": 64}
    model = make_model(TransformerConfig(**{**sizes, **axes}), head).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter) * 0.2
    return ModelFolder(tmp_path, model, tokenizer, tokenizer, {"languages": [None, None], **about})


def written(found: ModelFolder, out: Path, ids: Ids) -> tuple[Path, tuple[str, ...]]:
    out.mkdir()
    config = found.model.config
    form = find_form(config, "language-model", found.about.get("family"))
    return out, write_hugging_face(out, found, form, ids)


def translator_ids(found: ModelFolder, **others: Any) -> Ids:
    return Ids(start=found.tokenizer.bos_id, ends=(found.tokenizer.eos_id,), **others)


def json_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


@torch.no_grad()
def our_logits(found: ModelFolder) -> Tensor:
    torch.manual_seed(1)
    transformer = found.model.transformer
    source, target = torch.randint(0, 300, (2, 9)), torch.randint(0, 300, (2, 7))
    memory = transformer.encode(source) if transformer.encoder else None
    return found.model.logits(transformer.decode(target, transformer.start(memory)))


@pytest.mark.parametrize(
    ("axes", "head", "family"),
    [
        (TRANSLATOR, "language-model", "Pegasus"),
        ({**TRANSLATOR, "norm_order": "post"}, "language-model", "Marian"),
        ({"n_decoder_layers": 1, "norm_order": "pre", "positions": Learned(), "activation": "gelu_tanh"},
         "language-model", "GPT-2"),
        (LLAMA_LIKE, "language-model", "Llama"),
        ({"n_encoder_layers": 1, "positions": Learned(), "embed_norm": True, "n_token_types": 2, "activation": "gelu"},
         "none", "BERT"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_kind_of_model_finds_its_family(axes: dict[str, Any], head: str, family: str) -> None:
    config = TransformerConfig(vocab_size=40, d_model=16, n_heads=2, d_ff=24, **axes)
    assert find_form(config, head).family.name == family


def test_the_family_that_a_model_came_from_is_asked_first() -> None:
    config = TransformerConfig(vocab_size=40, d_model=16, n_heads=2, d_ff=24, **LLAMA_LIKE)
    assert [find_form(config, "language-model", name).family.name for name in (None, "Mistral")] == ["Llama", "Mistral"]


def test_a_model_without_a_family_is_refused_with_what_each_lacks() -> None:
    config = TransformerConfig(vocab_size=40, d_model=16, n_heads=2, d_ff=24, **TRANSLATOR, norm="rms")
    with pytest.raises(ConfigError) as refused:
        find_form(config, "language-model")
    lines = str(refused.value).splitlines()
    for family in FAMILIES:
        assert any(line.split("  ")[2] == family.name for line in lines if line.startswith("    ")), family.name
    assert any("Pegasus" in line and "norm = rms" in line for line in lines)


@pytest.mark.parametrize("axes", [TRANSLATOR, LLAMA_LIKE], ids=["translator", "decoder"])
def test_what_is_written_is_read_again_as_the_same_function(axes: dict[str, Any], tmp_path: Path) -> None:
    found = folder(tmp_path, axes)
    ids = translator_ids(found) if "n_encoder_layers" in axes else Ids(ends=(found.tokenizer.eos_id,))
    out, notes = written(found, tmp_path / "out", ids)
    again = load_model(out)
    assert notes == () and (our_logits(again) - our_logits(found)).abs().max() < 1e-5
    assert again.about["conventions"]["start"] == ids.start and again.about["conventions"]["ends"] == [*ids.ends]
    assert again.tokenizer.encode(TEXTS[0]) == found.tokenizer.encode(TEXTS[0])


def test_a_translator_works_in_transformers_as_its_users_call_it(tmp_path: Path) -> None:
    found = folder(tmp_path, TRANSLATOR)
    tokenizer, ids = found.tokenizer, translator_ids(found, banned=(found.tokenizer.pad_id, 7))
    out, _ = written(found, tmp_path / "out", ids)
    assert {path.name for path in out.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    model, opened = AutoModelForSeq2SeqLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    batch = opened(["A man </s> rides", "Schach"], return_tensors="pt", padding=True)
    sources = [[*tokenizer.encode(text), tokenizer.eos_id] for text in ("A man </s> rides", "Schach")]
    pads = [tokenizer.pad_id] * (len(sources[0]) - len(sources[1]))
    assert pads and batch.input_ids.tolist() == [sources[0], sources[1] + pads]
    said = model.generate(**batch, max_new_tokens=8)
    assert said[0, 0] == tokenizer.bos_id and not {7, tokenizer.pad_id} & {*said[0, 1:].tolist()}
    assert model.generation_config.num_beams == 4 and model.generation_config.max_length == 64
    assert model.generation_config.forced_eos_token_id is None and model.dtype == torch.float32


def test_control_tokens_and_card(tmp_path: Path) -> None:
    found = folder(tmp_path, TRANSLATOR, specials=["<to:de>"])
    (tmp_path / "README.md").write_text("---\nlibrary_name: regard\nlicense: mit\n---\n\nlibrary_name: here\n")
    lead = found.tokenizer.token_id("<to:de>")
    assert lead is not None
    out, _ = written(found, tmp_path / "out", replace(translator_ids(found), ends=(2, 9), lead=(lead,), forced=(11,)))
    config, generation = json_of(out / "config.json"), json_of(out / "generation_config.json")
    assert (config["decoder_start_token_id"], config["eos_token_id"], config["pad_token_id"]) == (1, [2, 9], 0)
    assert generation["forced_bos_token_id"] == 11 and generation["eos_token_id"] == [2, 9]
    assert AutoTokenizer.from_pretrained(out)("Schach").input_ids == [lead, *found.tokenizer.encode("Schach"), 2]
    assert (out / "README.md").read_text() == (
        "---\nlibrary_name: transformers\nlicense: mit\n---\n\nlibrary_name: here\n"
    )


def test_two_vocabularies_are_two_tokenizers_and_that_is_said(tmp_path: Path) -> None:
    other = Tokenizer.train(["Noch ein Wortschatz, ein anderer."] * 4, vocab_size=290)
    axes = {**TRANSLATOR, "norm_order": "post", "decoder_vocab_size": other.vocab_size}
    found = replace(folder(tmp_path, axes), target_tokenizer=other)
    out, notes = written(found, tmp_path / "out", translator_ids(found))
    assert len(notes) == 1 and 'subfolder="target"' in notes[0]
    opened = AutoTokenizer.from_pretrained(out, subfolder="target")
    assert opened.decode(other.encode("Wortschatz"), skip_special_tokens=True) == "Wortschatz"
    assert json_of(out / "config.json")["decoder_vocab_size"] == other.vocab_size


def test_every_tensor_matters(tmp_path: Path) -> None:
    """Drop a single one of what was written, and transformers says another thing, or cannot be asked."""
    found = folder(tmp_path, TRANSLATOR)
    out, _ = written(found, tmp_path / "out", translator_ids(found))
    model = AutoModelForSeq2SeqLM.from_pretrained(out)
    given = {"input_ids": torch.tensor([[5, 6, 7, 2]]), "decoder_input_ids": torch.tensor([[1, 8, 9, 30, 4]])}
    with torch.no_grad():
        before = model(**given).logits
        for name, parameter in model.named_parameters():
            if "embed_positions" in name or name.endswith("k_proj.bias"):  # computed; and softmax does not see it
                continue
            kept = parameter.clone()
            nn.init.zeros_(parameter)
            assert (model(**given).logits - before).abs().max() > 1e-5, name
            parameter.copy_(kept)
