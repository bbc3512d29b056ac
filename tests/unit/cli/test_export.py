"""`regard export`: what it writes works in the other tool as its users call it, and what differs is not left there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, Qwen2Tokenizer
from transformers.utils import logging

from regard.api import load
from regard.cli.export import MOST, Texts, export, read_texts
from regard.errors import ConfigError, UserError
from regard.hub.folder import ModelFolder, load_model
from regard.model import Learned, Relative, Rope, TransformerConfig, Window, make_language_model
from regard.tasks.parity_cases import SENTENCES
from regard.text import Tokenizer

logging.disable_progress_bar()
Command = Callable[..., tuple[int, str, str]]
SOURCES = ["A man in a blue shirt is standing on a ladder.", "Two dogs run."]


def greedy(workplace: Path) -> list[str]:
    model = load(workplace / "run", device="cpu")
    return [found.text for found in model.translate(SOURCES, beam=1)]


@pytest.fixture
def hub(command: Command, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The trained translator as a Hugging Face folder, with the report."""
    code, out, err = command("export", "run", str(tmp_path / "hf"), "--to", "hf", "--json")
    assert (code, err) == (0, "")
    return tmp_path / "hf", json.loads(out)


@pytest.fixture
def fast(command: Command, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The same for CTranslate2."""
    code, out, err = command("export", "run", str(tmp_path / "ct2"), "--to", "ctranslate2", "--json")
    assert (code, err) == (0, "")
    return tmp_path / "ct2", json.loads(out)


def test_a_trained_translator_opens_in_transformers(hub: tuple[Path, dict[str, Any]], workplace: Path) -> None:
    folder, report = hub
    assert report["passed"] and report["family"] == "Pegasus" and report["peer"].startswith("transformers ")
    assert report["same"] == report["outputs"] == len(SENTENCES) and 0 < report["difference"] <= report["allowed"]
    told = json.loads((folder / "parity.json").read_text())
    assert told == {name: value for name, value in report.items() if name not in ("model", "out")}
    card = (folder / "README.md").read_text()
    assert "library_name: transformers\n" in card and not list(folder.glob("**/recipe.toml"))
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    said = model.generate(**tokenizer(SOURCES, return_tensors="pt", padding=True), num_beams=1, max_new_tokens=60)
    outputs = tokenizer.batch_decode(said, skip_special_tokens=True)
    ours = greedy(workplace)
    assert all(one.startswith(other) or other.startswith(one) for one, other in zip(outputs, ours, strict=True)), ours
    again = load_model(folder)
    assert again.about["task"] == "translation" and again.about["conventions"]["start"] == again.tokenizer.bos_id


def test_a_trained_translator_opens_in_ctranslate2(fast: tuple[Path, dict[str, Any]], workplace: Path) -> None:
    folder, report = fast
    assert report["passed"] and report["peer"].startswith("ctranslate2 ") and report["judged"] == "log-probabilities"
    assert "library_name: ctranslate2\n" in (folder / "README.md").read_text()
    engine, tokenizer = ctranslate2.Translator(str(folder)), AutoTokenizer.from_pretrained(folder)
    sources = [tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) for text in SOURCES]
    said = [one.hypotheses[0] for one in engine.translate_batch(sources, beam_size=1, max_decoding_length=60)]
    outputs = [tokenizer.decode(tokenizer.convert_tokens_to_ids(tokens), skip_special_tokens=True) for tokens in said]
    ours = greedy(workplace)
    assert all(one.startswith(other) or other.startswith(one) for one, other in zip(outputs, ours, strict=True)), ours


def test_rounded_weights_are_measured_by_the_score(command: Command, tmp_path: Path) -> None:
    words = ("--to", "ctranslate2", "--quantization", "int8", "--data", "test.en", "test.de")
    code, out, err = command("export", "run", str(tmp_path / "int8"), *words)
    assert code == 0 and "now, in Python: ctranslate2.Translator(" in err
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert "nrefs:1|" in lines["bleu"] and "before" in lines["bleu"] and "bleu: " in lines["judged"]
    told = json.loads((tmp_path / "int8" / "parity.json").read_text())
    assert told["quantization"] == "int8" and told["largest"] > 1e-3 and told["texts"] == told["outputs"] == 20
    drop = told["scores"]["bleu"]["ours"] - told["scores"]["bleu"]["exported"]
    assert told["judged"] == "bleu" and told["difference"] == pytest.approx(drop) and told["allowed"] == 0.5
    size = {kind: (tmp_path / kind / "model.bin").stat().st_size for kind in ("int8",)}
    assert size["int8"] < 4 * load(Path("run"), device="cpu").model.config.n_parameters


@pytest.mark.parametrize("to", ["hf", "ctranslate2"])
def test_above_the_tolerance_nothing_is_left(command: Command, tmp_path: Path, to: str) -> None:
    code, out, err = command("export", "run", str(tmp_path / "out"), "--to", to, "--tolerance", "0")
    assert (code, out) == (1, "") and "not left there" in err and "a difference of at most 0" in err
    assert "round the weights less" not in err
    assert "11 of 11 greedy outputs the same" in err and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("run out --to hf --quantization int8", 2, "only CTranslate2 has such weights"),
        ("run out --to ctranslate2 --quantization int3", 2, "int3"),
        ("run out --to hf --tolerance -1", 2, "not below 0"),
        ("run out --to onnx", 2, "onnx"),
        ("run run/checkpoints/final --to hf", 2, "a new or empty folder"),
        ("nowhere run --to hf", 2, "a new or empty folder"),
        ("nowhere out --to hf", 4, "no model folder"),
        ("run out --to hf --data test.en dev.de", 3, "20 and 40 lines"),
    ],
)
def test_mistakes(command: Command, workplace: Path, words: str, code: int, says: str) -> None:
    got, out, err = command("export", *words.split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err
    assert not (workplace / "out").exists()


@pytest.mark.parametrize("absent", ["transformers", "ctranslate2"])
def test_a_missing_library_is_named_before_anything_is_written(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    code, _, err = command("export", "run", str(tmp_path / "out"), "--to", "ctranslate2")
    assert code == 2 and absent in err and "pip install 'regard[ctranslate2]'" in err and not list(tmp_path.iterdir())


ENCODER_DECODER = {"n_encoder_layers": 2, "n_decoder_layers": 2}
ROTARY = {
    "n_decoder_layers": 2, "norm": "rms", "norm_order": "pre", "positions": Rope(), "activation": "silu",
    "gated_ffn": True, "bias": "none",
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "pre-norm translator": ("Pegasus", {**ENCODER_DECODER, "norm_order": "pre", "embed_scale": 3.0, "head_bias": True}),
    "the chapter's translator": ("Marian", {**ENCODER_DECODER, "embed_scale": 4.0}),
    "with ids to spare": ("Marian", {**ENCODER_DECODER, "vocab_size": 431}),
    "BART": ("BART", {**ENCODER_DECODER, "positions": Learned(offset=2), "embed_norm": True, "activation": "gelu"}),
    "T5": ("T5", {**ENCODER_DECODER, "positions": Relative(), "norm": "rms", "norm_order": "pre", "bias": "none",
                  "attn_scale": 1.0, "logit_scale": 0.25, "norm_eps": 1e-6, "d_head": 5}),
    "T5 v1.1": ("T5", {**ENCODER_DECODER, "positions": Relative(), "norm": "rms", "norm_order": "pre", "bias": "none",
                       "attn_scale": 1.0, "norm_eps": 1e-6, "gated_ffn": True, "activation": "gelu_tanh",
                       "tie_embeddings": False}),
    "GPT-2": ("GPT-2", {"n_decoder_layers": 2, "norm_order": "pre", "positions": Learned(), "activation": "gelu_tanh",
                        "norm_eps": 1e-3}),
    "Qwen3": ("Qwen3", {**ROTARY, "qk_norm": True}),
    "Llama": ("Llama", {**ROTARY, "n_kv_heads": 1, "tie_embeddings": False, "vocab_size": 431, "norm_eps": 1e-3}),
}  # fmt: skip


def drawn(axes: dict[str, Any]) -> ModelFolder:
    tokenizer = Tokenizer.train(SENTENCES * 3, vocab_size=420)
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 16, "n_heads": 2, "d_ff": 24, "max_len": 96}
    model = make_language_model(TransformerConfig(**{**sizes, **axes})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.35).add_(name.endswith("norm.weight"))
    task = "translation" if model.config.n_encoder_layers else "language-model"
    return ModelFolder(Path("drawn"), model, tokenizer, tokenizer, {"task": task, "length_ratio": 1.2})


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_model_computes_the_same_in_both(kind: str, tmp_path: Path, one_thread: None) -> None:
    family, axes = KINDS[kind]
    found = drawn(axes)
    for to in ("hf", "ctranslate2"):
        report = export(found, tmp_path / to, to=to, data=Texts(SENTENCES[:4]))
        assert report["family"] == family and report["outputs"] == 4 == report["same"] + report["ties"]
        assert report["difference"] < 1e-4 * max(1.0, report["spread"])
        assert to != "hf" or report["spread"] > 0.3


@pytest.mark.whole
def test_a_vocabulary_that_transformers_cuts_otherwise_is_shown(tmp_path: Path, one_thread: None) -> None:
    """Qwen2's texts are cut by its own rules there, whatever tokenizer.json says; with its own, all is well."""
    found = drawn({**ROTARY, "bias": "qkv"})
    with pytest.raises(UserError, match="cuts texts into other tokens") as caught:
        export(found, tmp_path / "out", to="hf", data=Texts(SENTENCES[:4]))
    assert SENTENCES[0] in caught.value.expected and "[" in caught.value.got and caught.value.mend
    assert not list(tmp_path.iterdir())
    merged = json.loads(Tokenizer.train(SENTENCES * 3, kind="bytes", vocab_size=410).backend.to_str())["model"]
    own = Qwen2Tokenizer(vocab=merged["vocab"], merges=[tuple(pair) for pair in merged["merges"]])
    tokenizer = Tokenizer.of(Backend.from_str(own.backend_tokenizer.to_str()), {"eos": "<|endoftext|>"})
    found = replace(found, tokenizer=tokenizer, target_tokenizer=tokenizer)
    for to in ("hf", "ctranslate2"):
        assert export(found, tmp_path / to, to=to, data=Texts(SENTENCES[:4]))["passed"]


def test_mistral_without_a_window_goes_to_ctranslate2(tmp_path: Path, one_thread: None) -> None:
    found = drawn({**ROTARY, "n_kv_heads": 1})
    found = replace(found, about={**found.about, "family": "Mistral"})
    report = export(found, tmp_path / "out", to="ctranslate2", data=Texts(SENTENCES[:4]))
    assert report["family"] == "Mistral" and report["passed"]


@pytest.mark.parametrize("zeros", [True, False])
def test_marian_starts_with_its_pad_whatever_that_holds(zeros: bool, tmp_path: Path, one_thread: None) -> None:
    words = dict.fromkeys(word for text in SENTENCES[:4] for word in re.findall(r"\w+|[^\w\s]+", text))
    vocab = {token: i for i, token in enumerate(["</s>", "<unk>", *words, "<pad>"])}
    backend = Backend(models.WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.add_special_tokens(["</s>", "<unk>", "<pad>"])
    tokenizer = Tokenizer.of(backend, {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"})
    found = drawn({**ENCODER_DECODER, "vocab_size": len(vocab), "embed_scale": 4.0, "head_bias": True})
    pad = len(vocab) - 1
    if zeros:
        with torch.no_grad():
            found.model.transformer.tokens.weight[pad] = 0
    begun = {"start": pad, "ends": [0], "lead": [], "forced": []}
    found = replace(found, tokenizer=tokenizer, target_tokenizer=tokenizer, about={**found.about, "conventions": begun})
    report = export(found, tmp_path / "out", to="ctranslate2", data=Texts(SENTENCES[:4]))
    assert report["family"] == "Marian" and report["difference"] < 1e-4 * max(1.0, report["spread"])
    known = json.loads((tmp_path / "out" / "shared_vocabulary.json").read_text())
    assert ("<pad>" in known) is not zeros


def test_what_ctranslate2_cannot_do_is_refused_by_name(tmp_path: Path, one_thread: None) -> None:
    for axes, says in (
        ({**ROTARY, "window": Window(size=6)}, "over a window"),
        ({"n_decoder_layers": 1, "norm_order": "parallel", "positions": Rope(fraction=0.5), "activation": "gelu"},
         "does not know transformers 5's GPT-NeoX"),
        ({**ENCODER_DECODER, "decoder_vocab_size": 420}, "two vocabularies"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=says):
            export(drawn(axes), tmp_path / "out", to="ctranslate2", data=Texts(SENTENCES[:4]))
    assert not list(tmp_path.iterdir())


@pytest.mark.whole
def test_a_real_language_model(model_dir: Callable[[str], Path], tmp_path: Path, one_thread: None) -> None:
    found = load_model(model_dir("stories260k"))
    for to in ("hf", "ctranslate2"):
        assert export(found, tmp_path / to, to=to, data=Texts(SENTENCES[:2]))["passed"]
    told = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(tmp_path / "hf"),
        AutoTokenizer.from_pretrained(tmp_path / "hf"),
    )
    said = model.generate(torch.tensor([[1]]), do_sample=False, max_new_tokens=60)
    assert tokenizer.decode(said[0], skip_special_tokens=True).strip().startswith(told)
    engine = ctranslate2.Generator(str(tmp_path / "ctranslate2"))
    tokens = engine.generate_batch([["<s>"]], max_length=60)[0].sequences_ids[0]
    assert tokenizer.decode(tokens, skip_special_tokens=True).strip().startswith(told)


def test_a_real_encoder(minilm: Path, tmp_path: Path, one_thread: None) -> None:
    report = export(load_model(minilm), tmp_path / "hf", to="hf", data=Texts(SENTENCES))
    assert (report["family"], report["opened_by"], report["outputs"]) == ("BERT", "AutoModel", 0) and report["passed"]
    with pytest.raises(ConfigError, match="models that write"):
        export(load_model(minilm), tmp_path / "ct2", to="ctranslate2", data=Texts(SENTENCES))


def test_several_target_languages(tmp_path: Path, one_thread: None) -> None:
    found = drawn({**ENCODER_DECODER, "norm_order": "pre"})
    tokenizer = Tokenizer.train(SENTENCES * 3, vocab_size=420, specials=["<to:de>", "<to:fr>"])
    several = ModelFolder(found.path, found.model, tokenizer, tokenizer, found.about)
    report = export(several, tmp_path / "hf", to="hf", data=Texts(SENTENCES[:3], to=["fr", "de", "fr"]))
    assert report["passed"] and "<to:de> or <to:fr>" in report["notes"][0]


def test_of_much_data_a_thousand_texts_are_taken_from_all_over(tmp_path: Path) -> None:
    found = drawn({**ENCODER_DECODER, "norm_order": "pre"})
    (tmp_path / "lines").write_text("".join(f"line {i}\n\n" for i in range(3 * MOST)))
    texts = read_texts([tmp_path / "lines"], found)
    assert len(texts.texts) == MOST and texts.texts[0] == "line 0" and texts.texts[-1] == f"line {3 * MOST - 3}"
    (tmp_path / "pairs.tsv").write_text("source\ttarget\ttarget_language\na\tb\tde\nc\td\tfr\n")
    texts = read_texts([tmp_path / "pairs.tsv"], found)
    assert (texts.texts, texts.references, texts.to) == (["a", "c"], ["b", "d"], ["de", "fr"])
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(ConfigError, match="no text"):
        read_texts([tmp_path / "empty"], found)
