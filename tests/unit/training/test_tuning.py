"""Training on from published encoder-decoders: their examples have what stands around texts in their own eyes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.nn.functional import cross_entropy

import regard
from regard.hub.atomic import commit_folder
from regard.hub.folder import load_model, write_model
from regard.hub.weights import read_weights
from regard.model import TransformerConfig, make_language_model
from regard.text import Tokenizer
from regard.training import Recipe, Result, train
from regard.training.recipe import DataRecipe
from regard.training.resolve import planned

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
CHANGES = ["loop.steps=3", "loop.evaluate_every=3", "batch.tokens=600", "schedule.warmup=1"]
SIZES = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 200, "forced_eos_token_id": None,
}  # fmt: skip


class Silent:
    """Hears nothing."""

    def begin(self, unit: str) -> None: ...
    def say(self, sentence: str) -> None: ...
    def show(self, findings: Any) -> None: ...
    def event(self, event: Any, progress: Any, seconds: float, seconds_left: float | None) -> None: ...


@pytest.fixture(scope="module")
def pairs(data_dir: Callable[[str], Path]) -> tuple[list[str], list[str]]:
    both = (gzip.decompress((data_dir("multi30k") / f"val.{code}.gz").read_bytes()).decode() for code in ("en", "de"))
    english, german = (text.split("\n")[:60] for text in both)
    return english, german


@pytest.fixture
def files(pairs: tuple[list[str], list[str]], tmp_path: Path) -> tuple[str, str]:
    """Forty pairs to train on, and twenty to look at."""
    rows = [f"{source}\t{target}\n" for source, target in zip(*pairs, strict=True)]
    for name, part in (("train.tsv", rows[:40]), ("dev.tsv", rows[40:])):
        (tmp_path / name).write_text("".join(part), encoding="utf-8")
    return str(tmp_path / "train.tsv"), str(tmp_path / "dev.tsv")


def tune(folder: Path, files: tuple[str, str], out: Path, *, rate: float | None = None) -> Result:
    base = Recipe(data=DataRecipe(train=files[:1], dev=files[1:], languages=("en", "de")), init_from=str(folder))
    plan = planned(base, CHANGES, minutes=1, device=CPU)
    recipe = plan.recipe
    if rate is not None:
        recipe = replace(recipe, optim=replace(recipe.optim, lr=rate, matrix_lr=rate))
    return train(recipe, out, device=CPU, reporter=Silent())


def dev_loss(model: Any, tokenizer: Tokenizer, pairs: tuple[list[str], list[str]], lead: list[int]) -> float:
    """What transformers' own model has on the development pairs, each alone, in its own form."""
    total, count = 0.0, 0
    for source, target in zip(*(side[40:] for side in pairs), strict=True):
        read = torch.tensor([[*lead, *tokenizer.encode(source), tokenizer.eos_id]])
        wanted = torch.tensor([[*lead, *tokenizer.encode(target), tokenizer.eos_id]])
        total += float(cross_entropy(logits(model, read, wanted), wanted[0], reduction="sum"))
        count += wanted.size(1)
    return total / count


@torch.no_grad()
def logits(model: Any, read: Tensor, wanted: Tensor) -> Tensor:
    return model(input_ids=read, labels=wanted).logits[0]  # it shifts the labels by its own rule


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["Marian", "Bart"])
def test_the_loss_is_the_cross_entropy_of_its_own_form(
    kind: str, pairs: tuple[list[str], list[str]], files: tuple[str, str], tmp_path: Path
) -> None:
    tokenizer, folder = Tokenizer.train([*pairs[0], *pairs[1]], vocab_size=400), tmp_path / "theirs"
    ids = {"pad_token_id": tokenizer.pad_id, "bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id}
    start, lead = tokenizer.pad_id, list[int]()
    if kind == "Bart":  # <s> a </s> in, </s> <s> b in the decoder, and <s> is forced
        start, lead = tokenizer.eos_id, [tokenizer.bos_id]
        tokenizer = tokenizer.framed(before="bos", after="eos")
    torch.manual_seed(1)
    config = getattr(hf, f"{kind}Config")(
        **SIZES, **ids, vocab_size=tokenizer.vocab_size, decoder_start_token_id=start, init_std=0.3
    )
    theirs = (hf.MarianMTModel if kind == "Marian" else hf.BartForConditionalGeneration)(config).eval()
    theirs.generation_config.forced_bos_token_id = lead[0] if lead else None
    theirs.save_pretrained(folder)
    tokenizer.save(folder)
    still = tune(folder, files, tmp_path / "still", rate=0.0)
    assert still.scores["dev_loss"] == pytest.approx(dev_loss(theirs, tokenizer, pairs, lead), rel=1e-4)
    tuned = tune(folder, files, tmp_path / "tuned")
    assert tuned.scores["dev_loss"] < still.scores["dev_loss"]
    before, after = load_model(folder), regard.load(tmp_path / "tuned", device="cpu")
    assert after.about["conventions"] == before.about["conventions"] and after.conventions.start == start
    scores = [score for own in after.token_scores(*(side[40:] for side in pairs)) for _, score in own]
    if not lead:  # what is forced is trained on, and not scored
        assert -sum(scores) / len(scores) == pytest.approx(tuned.scores["dev_loss"], rel=1e-4)
    assert after.about["training"]["init"]["from"] == str(folder)


def test_two_vocabularies_stay_two_and_a_resumed_run_has_them_too(
    pairs: tuple[list[str], list[str]], files: tuple[str, str], tmp_path: Path
) -> None:
    reads, says = (Tokenizer.train(side, vocab_size=size) for side, size in zip(pairs, (380, 420), strict=True))
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1}
    sizes |= {"vocab_size": reads.vocab_size, "decoder_vocab_size": says.vocab_size}
    torch.manual_seed(1)
    model = make_language_model(TransformerConfig(**sizes, tie_embeddings=False))  # type: ignore[arg-type]
    about = {"task": "translation", "languages": ["en", "de"]}
    commit_folder(tmp_path / "two", lambda folder: write_model(folder, model, reads, about, target_tokenizer=says))
    tune(tmp_path / "two", files, tmp_path / "tuned")
    more = regard.train(
        "translation", source="", out=tmp_path / "tuned", resume=True, device="cpu", reporter=Silent(),
        loop={"steps": 5},
    )  # fmt: skip
    after = regard.load(tmp_path / "tuned", device="cpu")
    assert after.target_tokenizer.vocab_size == says.vocab_size != after.tokenizer.vocab_size == reads.vocab_size
    scores = [score for own in after.token_scores(*(side[40:] for side in pairs)) for _, score in own]
    assert -sum(scores) / len(scores) == pytest.approx(more.scores["dev_loss"], rel=1e-4)
    one, two = (read_weights(after.path.parent / name / "model.safetensors") for name in ("step-000003", "step-000005"))
    assert any(not torch.equal(one[name], two[name]) for name in one)
