"""`regard quantize`, and `--dtype` on the verbs: what is written is what was scored, and what is worse is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.api import _computable, load, look
from regard.errors import ConfigError
from regard.hub.atomic import commit_folder, verify_manifest
from regard.hub.folder import load_model, write_model
from regard.hub.weights import WEIGHTS
from regard.model import TransformerConfig, make_model
from regard.runtime import make_fast
from regard.tasks.quantization import judge
from regard.text import Tokenizer
from regard.text.chat import ChatTemplate

Command = Callable[..., tuple[int, str, str]]
SOURCES = ["A man in a blue shirt is standing on a ladder.", "Two dogs run."]
TOLD = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a "
    "big red ball. She wanted to play with it, but it was too high. Lily's mom said it was not safe to climb up there."
)


@pytest.fixture
def rounded(command: Command, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The trained translator in int8, with the report."""
    words = ("--to", "int8", "--data", "test.en", "test.de", "--json", "--quiet")
    code, out, err = command("quantize", "run", str(tmp_path / "int8"), *words)
    assert (code, err) == (0, "")
    return tmp_path / "int8", json.loads(out)


@pytest.mark.whole
def test_a_translator_is_scored_before_and_after(
    rounded: tuple[Path, dict[str, Any]], command: Command, workplace: Path
) -> None:
    folder, report = rounded
    assert report["passed"] and report["judged"] == "bleu" and report["allowed"] == 0.5 and report["examples"] == 20
    assert verify_manifest(folder) and report["texts"] == 20 and report["quantity"] == "logits"
    assert 0 < report["largest"] < report["spread"]
    for name, model in (("before", "run"), ("after", str(folder))):
        code, out, _ = command("evaluate", model, "test.en", "test.de", "--json", "--quiet")
        scored = json.loads(out)["metrics"]
        assert code == 0 and {*scored} == {*report["scores"]} == {"bleu", "chrf", "loss", "perplexity"}
        for score, of in report["scores"].items():
            assert of[name] == pytest.approx(scored[score]["score"], rel=1e-4)
    assert report["difference"] == report["scores"]["bleu"]["before"] - report["scores"]["bleu"]["after"]
    config = json.loads((folder / "config.json").read_text())
    public = {name: value for name, value in report.items() if name not in ("model", "out", "open_seconds")}
    assert config["quantized"] == {"form": "int8", "report": public}
    plain = load(workplace / "run", device="cpu")
    assert report["bytes"]["before"] == (plain.path / WEIGHTS).stat().st_size > 2 * (folder / WEIGHTS).stat().st_size
    card = (folder / "README.md").read_text()
    assert card.startswith((plain.path / "README.md").read_text().rstrip())
    assert "## Rounded\n\nThe matrices are in int8: " in card and "on 20 examples of test.en, test.de." in card
    assert (folder / "recipe.toml").read_text() == (plain.path / "recipe.toml").read_text()


def test_it_translates_as_the_model_that_was_measured(
    rounded: tuple[Path, dict[str, Any]], command: Command, workplace: Path
) -> None:
    folder, _ = rounded
    fast, found = load(workplace / "run", device="cpu", dtype="int8"), load(folder, device="cpu")
    for beam in (1, 4):
        one, other = (model.translate(SOURCES, beam=beam, alignments=True) for model in (fast, found))
        assert one == other and all(translation.alignment for translation in one)
    (workplace / "some.en").write_text("\n".join(SOURCES) + "\n")
    told = [command("translate", *words, "some.en")[1] for words in ((str(folder),), ("run", "--dtype", "int8"))]
    assert told[0] == told[1] == "".join(one.text + "\n" for one in found.translate(SOURCES))


def test_the_table_and_info_say_it(command: Command, tmp_path: Path) -> None:
    code, out, err = command("quantize", "run", "bf16", "--to", "bf16", "--data", "test.en", "test.de")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0 and out.startswith("quantized to bf16\n") and "now: regard translate bf16" in err
    assert " before, " in lines["bleu"] and "nrefs:1|" in lines["bleu"] and "largest difference" in lines["logits"]
    assert " MiB before, " in lines["weights"] or " KiB before, " in lines["weights"]
    assert lines["judged"].startswith("judged") and lines["judged"].endswith("allowed 0.5 lower")
    code, out, _ = command("info", "bf16")
    assert code == 0 and "\nquantized   bf16: bleu: " in out
    code, out, _ = command("info", "bf16", "--json")
    assert json.loads(out)["quantized"]["report"]["judged"] == "bleu"


def spoilt(model_dir: Callable[[str], Path], folder: Path) -> Path:
    """A real language model, one of whose hidden units never fires and has a weight far above all others: in int8 all
    others in its row become nothing."""
    found = load_model(model_dir("stories260k"))
    with torch.no_grad():
        for block in found.model.transformer.decoder.layers:  # type: ignore[union-attr]
            block.ffn.up.weight[0] = 0
            block.ffn.down.weight[:, 0] = 1e4
    commit_folder(folder, lambda draft: write_model(draft, found.model, found.tokenizer, found.about))
    return folder


@pytest.mark.usefixtures("one_thread")
def test_what_became_worse_is_not_written(command: Command, model_dir: Callable[[str], Path], tmp_path: Path) -> None:
    model, data, out = spoilt(model_dir, tmp_path / "model"), tmp_path / "told.txt", tmp_path / "out"
    data.write_text(TOLD)
    words = ("quantize", str(model), str(out), "--data", str(data))
    code, said, err = command(*words, "--to", "int8")
    assert (code, said) == (1, "") and "so it is not written" in err and "loss: at most 1.00% higher" in err
    assert "--to bf16" in err and {path.name for path in tmp_path.iterdir()} == {"model", "told.txt"}
    code, said, _ = command(*words, "--to", "bf16", "--json")
    assert code == 0 and abs(json.loads(said)["difference"]) < 0.01
    code, said, _ = command("quantize", str(model), str(tmp_path / "bad"), "--data", str(data), "--to", "int8",
                            "--tolerance", "9", "--json")  # fmt: skip
    assert code == 0 and json.loads(said)["difference"] > 0.3 and json.loads(said)["allowed"] == 9


@pytest.mark.whole
@pytest.mark.usefixtures("one_thread")
def test_a_real_encoder(minilm: Path, command: Command, workplace: Path, tmp_path: Path) -> None:
    for form, most in (("int8", 0.005), ("bf16", 1e-4)):
        folder = str(tmp_path / form)
        code, out, _ = command("quantize", str(minilm), folder, "--to", form, "--data", "test.en", "--json", "--quiet")
        report = json.loads(out)
        assert code == 0 and report["judged"] == "cosine" and 0 < report["difference"] < most
        assert report["quantity"] == "vectors" and 0 < report["largest"] < report["spread"]
        for words, name in (((folder,), "a"), ((str(minilm), "--dtype", form), "b"), ((str(minilm),), "c")):
            place = str(tmp_path / f"{name}.npy")
            assert command("embed", *words, "test.en", "--out", place)[0] == 0
        ours, theirs, plain = (np.load(tmp_path / f"{name}.npy") for name in "abc")
        assert np.array_equal(ours, theirs) and not np.array_equal(ours, plain)
        assert 1 - report["scores"]["cosine"]["after"] == pytest.approx(1 - (ours * plain).sum(1).mean(), abs=1e-5)
    assert "license: apache-2.0" in (tmp_path / "int8" / "README.md").read_text()


TEXTS = ["a good film from Denver", "not a bad one , it was good", "the film in Aspen was bad"]
ASKED = {"data": [{"title": "t", "paragraphs": [{"context": TEXTS[0], "qas": [
    {"id": "1", "question": "from where ?", "answers": [{"text": "Denver", "answer_start": 17}]}]}]}]}  # fmt: skip
CHAT = json.dumps({"messages": [{"role": role, "content": text} for role, text in
                                zip(("user", "assistant"), TEXTS, strict=False)]}) + "\n"  # fmt: skip
TASKS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "classification": ("classifier", {"labels": ["bad", "good"], "label_kind": "one", "texts": 1},
                       "".join(f"{text}\t{'good' if 'good' in text else 'bad'}\n" for text in TEXTS), "accuracy"),
    "several labels": ("cls-classifier", {"labels": ["bad", "good"], "label_kind": "several", "texts": 1},
                       f"{TEXTS[0]}\tgood\n{TEXTS[1]}\tbad|good\n", "micro_f1"),
    "tagging": ("tagger", {"labels": ["O", "B-place"]},
                "".join(f"{word}\t{'B-place' if word in ('Denver', 'Aspen') else 'O'}\n" for word in TEXTS[0].split()),
                "span_f1"),
    "question-answering": ("span", {"answering": {"length": 40, "overlap": 10, "longest": 8, "null": False}},
                           json.dumps(ASKED), "f1"),
    "masked-lm": ("masked-lm", {}, "\n".join(TEXTS), "loss"),
    "language-model": ("language-model", {"chat": ChatTemplate.between("<s>", "</s>").facts}, CHAT, "loss"),
}  # fmt: skip


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("form", ["int8", "bf16"])
@pytest.mark.parametrize("kind", TASKS)
def test_every_task_has_a_score_that_decides(kind: str, form: str, command: Command, tmp_path: Path) -> None:
    head, facts, data, judged = TASKS[kind]
    tokenizer = Tokenizer.train(TEXTS * 9, kind="bpe", vocab_size=320)
    tokenizer = tokenizer.framed(before="bos", after="eos")
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=24, max_len=64, n_token_types=2 * (head != kind),
        n_encoder_layers=int(head != "language-model"), n_decoder_layers=int(head == "language-model"),
    )  # fmt: skip
    model = make_model(config, head, len(facts.get("labels", ())) or 1).eval()
    about = {"task": "classification" if kind == "several labels" else kind, **facts}
    commit_folder(tmp_path / "model", lambda draft: write_model(draft, model, tokenizer, about))
    kinds = {"question-answering": "json", "masked-lm": "txt", "language-model": "jsonl"}
    file = tmp_path / f"data.{kinds.get(kind, 'tsv')}"
    file.write_text(data)
    words = (str(tmp_path / "out"), "--to", form, "--data", str(file), "--tolerance", "100", "--json", "--quiet")
    code, out, err = command("quantize", str(tmp_path / "model"), *words)
    assert code == 0, err
    report = json.loads(out)
    assert report["judged"] == judged and report["largest"] > 0 and report["quantity"] == "logits"
    told = []
    for words in ((str(tmp_path / "out"),), (str(tmp_path / "model"), "--dtype", form)):
        code, out, err = command("evaluate", *words, str(file), "--json", "--quiet")
        assert code == 0, err
        told.append({name: of["score"] for name, of in json.loads(out)["metrics"].items()})
    assert told[0] == told[1] and told[0][judged] == report["scores"][judged]["after"]
    if judged == "accuracy":
        code, _, err = command("classify", str(tmp_path / "out"), str(file), "--why")
        assert code == 2 and "no gradients" in err
        assert command("classify", str(tmp_path / "out"), str(file))[0] == 0


@pytest.mark.parametrize(
    ("before", "after", "difference", "passed"),
    [
        ({"bleu": 30.0}, {"bleu": 29.6}, 0.4, True),
        ({"bleu": 30.0}, {"bleu": 29.4}, 0.6, False),
        ({"bleu": 30.0}, {"bleu": 33.0}, -3.0, True),
        ({"bleu": 30.0}, {"bleu": float("nan")}, None, False),
        ({"loss": 2.0, "bits_per_byte": 1.0}, {"loss": 2.01, "bits_per_byte": 9.0}, 0.005, True),
        ({"loss": 2.0}, {"loss": 2.03}, 0.015, False),
        ({"loss": 2.0}, {"loss": 1.0}, -0.5, True),
        ({"loss": 0.0}, {"loss": 0.1}, float("inf"), False),
    ],
)
def test_the_verdict(before: dict[str, float], after: dict[str, float], difference: float | None, passed: bool) -> None:
    task = "translation" if "bleu" in before else "language-model"
    one, other = ({name: {"score": value} for name, value in of.items()} for of in (before, after))
    verdict = judge(task, one, other)
    assert verdict.passed is passed and (difference is None or verdict.difference == pytest.approx(difference))
    assert judge(task, one, other, tolerance=1e9).passed is (difference not in (None, float("inf")))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("run out --to int8", 2, "no data is given"),
        ("run out --to int4 --data test.en test.de", 2, "int4"),
        ("run out --data test.en test.de", 2, "--to"),
        ("run out --to int8 --data test.en test.de --tolerance -1", 2, "not below 0"),
        ("run run/checkpoints/final --to int8 --data test.en test.de", 2, "a new or empty folder"),
        ("run out --to int8 --data test.en dev.de", 3, "20 and 40 lines"),
        ("run out --to int8 --data nothing.tsv", 3, "nothing.tsv"),
        ("nowhere out --to int8 --data test.en test.de", 4, "no model folder"),
    ],
)
def test_mistakes(command: Command, workplace: Path, words: str, code: int, says: str) -> None:
    got, out, err = command("quantize", *words.split())
    assert (got, out) == (code, "") and says in err and "Traceback" not in err
    assert not (workplace / "out").exists()


def test_a_rounded_model_is_for_use_alone(
    rounded: tuple[Path, dict[str, Any]], command: Command, tmp_path: Path
) -> None:
    folder, new = str(rounded[0]), str(tmp_path / "new")
    for words, code in (
        (f"train translation train.en train.de --from {folder} --out {new}", 4),
        (f"export {folder} {new} --to hf", 4),
        (f"doctor {folder}", 2),
        (f"look {folder} hello --html {new}.html", 2),
        (f"quantize {folder} {new} --to bf16 --data test.en test.de", 2),
        (f"translate {folder} some.en --dtype bf16", 2),
        (f"translate {folder} some.en --dtype fp32", 2),
    ):
        got, out, err = command(*words.split())
        assert (got, out) == (code, "") and "take the model that it was made of" in err, words
    assert {path.name for path in tmp_path.iterdir()} == {"int8"}
    with pytest.raises(ConfigError, match="not looked into"):
        look(load(folder, device="cpu"), "hello")


def test_int8_is_for_the_cpu() -> None:
    for form in ("fp32", "bf16"):
        _computable(form, torch.device("cuda"))
    _computable("int8", torch.device("cpu"))
    with pytest.raises(ConfigError, match="on the CPU alone"):
        _computable("int8", torch.device("cuda"))
    with pytest.raises(ConfigError, match="unknown form"):
        load("run", device="cpu", dtype="fp16")  # type: ignore[arg-type]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("form", ["fp32", "bf16", "int8"])
def test_a_verb_computes_in_the_form_it_is_told(form: Any, command: Command, model_dir: Callable[[str], Path]) -> None:
    folder = model_dir("stories260k")
    found = load(folder, device="cpu", dtype=form)
    expected = make_fast(found.model, form).transformer.tokens.weight.dtype
    assert found.form == form and found.fast.transformer.tokens.weight.dtype == expected
    code, out, _ = command("generate", str(folder), "--prompt", "Once upon", "--max-tokens", "12", "--dtype", form)
    assert (code, out) == (0, found.generate("Once upon", max_tokens=12).text + "\n")
