"""Language models and masked ones as training sees them: cut and resumed, prepared, trained on, taught to answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import regard
from regard.config import build
from regard.data import Finding
from regard.data.shards import prepare
from regard.errors import CheckpointError, DataError
from regard.hub.export import find_form
from regard.hub.folder import load_model
from regard.hub.weights import read_weights
from regard.model import TransformerConfig
from regard.text import Tokenizer
from regard.training import DevEvent, Event, Progress, Recipe, Result, StepEvent, train
from regard.training.language_models import LanguageModelling, MaskedLanguageModelling
from regard.training.plan import LADDER
from regard.training.recipe import BatchRecipe, DataRecipe, LoopRecipe, ScheduleRecipe, TokenizerRecipe
from regard.training.resolve import planned

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SIZES = {
    "language-model": {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_decoder_layers": 1, "dropout": 0.2},
    "masked-lm": {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "dropout": 0.2},
}


class Cut(Exception):
    """The process is gone."""


class Listener:
    """Keeps what was said and every loss, and dies after the checkpoint of a step."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.said, self.losses, self.dies_at = list[str](), list[float](), dies_at

    def begin(self, unit: str) -> None:
        pass

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def show(self, findings: Iterable[Finding]) -> None:
        self.said += [finding.sentence for finding in findings if finding.severity == "warn"]

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        if isinstance(event, StepEvent):
            self.losses.append(event.loss)
        if isinstance(event, DevEvent) and event.step == self.dies_at:
            raise Cut


@pytest.fixture
def text(data_dir: Callable[[str], Path], tmp_path: Path) -> str:
    """A file of some pages."""
    path = tmp_path / "pages.txt"
    path.write_text((data_dir("tinyshakespeare") / "input.txt").read_text()[:6_000])
    return str(path)


@pytest.fixture
def chat(tmp_path: Path) -> str:
    """Conversations, so alike that a small model learns to answer in some tens of updates."""
    rows = []
    for i in range(60):
        asked = [{"role": "user", "content": f"Number {i % 5}?"}, {"role": "assistant", "content": f"It is {i % 5}."}]
        before = [{"role": "system", "content": f"Talk {i}"}] * (i % 2)
        rows.append(json.dumps({"messages": before + asked * (1 + i % 3)}))
    (tmp_path / "chat.jsonl").write_text("\n".join([*rows, '{"messages": []}']) + "\n")
    return str(tmp_path / "chat.jsonl")


def recipe(task: str, file: str, **changes: object) -> Recipe:
    length = 64 if file.endswith("jsonl") else 32
    whole = Recipe(
        task=task,  # type: ignore[arg-type]
        data=DataRecipe(train=(file,), unit="paragraph"), tokenizer=TokenizerRecipe(kind="bytes", vocab_size=300),
        model=SIZES[task] | {"max_len": length}, batch=BatchRecipe(tokens=400, accumulate=3, max_len=length),
        schedule=ScheduleRecipe(warmup=2), loop=LoopRecipe(steps=6, evaluate_every=3, keep=9), label_smoothing=0.0,
    )  # fmt: skip
    return replace(whole, **changes)  # type: ignore[arg-type]


def run(recipe: Recipe, out: Path) -> tuple[Result, list[str]]:
    listener = Listener()
    return train(recipe, out, device=CPU, reporter=listener), listener.said


@pytest.mark.parametrize("kind", ["language-model", "masked-lm", "chat"])
def test_a_resumed_run_is_the_uninterrupted_one_to_the_last_bit(
    kind: str, text: str, chat: str, tmp_path: Path
) -> None:
    """Law 23, in the middle of an epoch, with dropout and accumulation."""
    task, file = ("language-model", chat) if kind == "chat" else (kind, text)
    plain = recipe(task, file)
    plain = replace(plain, data=replace(plain.data, skip_bad=1))
    whole = Listener()
    train(plain, tmp_path / "whole", device=CPU, reporter=whole)
    parts = [Listener(dies_at=3), Listener()]
    for number, part in enumerate(parts):
        try:
            train(plain, tmp_path / "cut", device=CPU, reporter=part, resume=number > 0)
        except Cut:
            torch.manual_seed(number)  # a new process would not have the old one's random state
    assert [loss for part in parts for loss in part.losses] == whole.losses
    for name in ("model.safetensors", "state/optimizer.safetensors"):
        one, two = (read_weights(tmp_path / out / "checkpoints" / "step-000006" / name) for out in ("whole", "cut"))
        assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)
    other = Listener()
    train(replace(plain, seed=9, loop=replace(plain.loop, steps=1)), tmp_path / "other", device=CPU, reporter=other)
    assert other.losses != whole.losses[:1], "the test could not fail"


def test_a_prepared_folder_is_trained_on_with_its_own_vocabulary(text: str, tmp_path: Path) -> None:
    tokenizer, out = Tokenizer.train([Path(text).read_text()], kind="bytes", vocab_size=350), tmp_path / "prepared"
    prepare([Path(text)], out, tokenizer, unit="paragraph")
    base = Recipe(task="language-model", data=DataRecipe(train=(str(out),)))
    plan = planned(base, ["model.d_model=16", "loop.steps=2", "batch.max_len=32"], minutes=1, device=CPU)
    assert (plan.recipe.tokenizer.vocab_size, plan.recipe.model["max_len"]) == (350, 32)
    result, said = run(plan.recipe, tmp_path / "run")
    found = load_model(tmp_path / "run")
    assert plan.parameters == found.model.config.n_parameters and result.scores["dev_bits_per_byte"] > 0
    assert found.tokenizer.wrap([9])[0] == [found.tokenizer.bos_id, 9]
    assert any("prepared documents" in sentence for sentence in said)
    corpus = LanguageModelling().read(plan.recipe)
    assert "held out" in corpus.told()[-1]
    with pytest.raises(DataError, match="looked at on a prepared one"):
        LanguageModelling().read(replace(plan.recipe, data=replace(plan.recipe.data, dev=(text,))))


@pytest.mark.parametrize("task", ["language-model", "masked-lm"])
def test_from_a_model_keeps_its_sizes_vocabulary_and_weights(task: str, text: str, tmp_path: Path) -> None:
    run(recipe(task, text), tmp_path / "first")
    base = Recipe(task=task, data=DataRecipe(train=(text,), unit="line"), init_from=str(tmp_path / "first"))  # type: ignore[arg-type]
    plan = planned(base, ["loop.steps=1", "optim.lr=0.0", "optim.matrix_lr=0.0"], minutes=1, device=CPU)
    assert (plan.recipe.batch.max_len, plan.recipe.tokenizer.vocab_size) == (32, 300)
    assert plan.recipe.model.items() >= SIZES[task].items()
    run(plan.recipe, tmp_path / "second")
    one, two = load_model(tmp_path / "first"), load_model(tmp_path / "second")
    assert all(torch.equal(p, q) for p, q in zip(one.model.parameters(), two.model.parameters(), strict=True))
    assert (one.path / "tokenizer.json").read_bytes() == (two.path / "tokenizer.json").read_bytes()
    other = "masked-lm" if task == "language-model" else "language-model"
    with pytest.raises(CheckpointError, match="another task"):
        run(replace(plan.recipe, task=other), tmp_path / "third")  # type: ignore[arg-type]


def test_a_published_language_model_is_trained_on_by_its_own_rules(
    gpt2: Callable[..., Path], text: str, tmp_path: Path
) -> None:
    base = Recipe(task="language-model", data=DataRecipe(train=(text,)), init_from=str(gpt2(n_positions=24)))
    plan = planned(base, ["loop.steps=2", "loop.evaluate_every=1", "batch.tokens=200"], minutes=1, device=CPU)
    assert plan.recipe.batch.max_len == 24
    result, _ = run(plan.recipe, tmp_path / "run")
    model = regard.load(tmp_path / "run", device="cpu")
    assert model.conventions.ends == (0,) and model.conventions.lead == ()
    held = Path(text).read_text()[-1_200:]
    assert result.scores["dev_bits_per_byte"] > 0 and model.score([held[:20]])[0] < 0
    assert model.about["training"]["init"]["sha256"] and len(model.generate("x", max_tokens=3).tokens) <= 3


def test_a_model_learns_to_answer_and_says_how_it_is_asked(text: str, chat: str, tmp_path: Path) -> None:
    run(recipe("language-model", text), tmp_path / "first")
    data = DataRecipe(train=(chat,), skip_bad=1)
    base = Recipe(task="language-model", data=data, init_from=str(tmp_path / "first"))
    changes = ["loop.steps=120", "loop.evaluate_every=60", "model.max_len=64", "batch.max_len=64", "optim.lr=0.02",
               "optim.matrix_lr=0.02", "model.dropout=0.0", "batch.tokens=600"]  # fmt: skip
    plan = planned(base, changes, minutes=1, device=CPU)
    result, said = run(plan.recipe, tmp_path / "chat")
    assert result.scores["dev_loss"] < 0.5, "it has not learned to answer"
    assert "bad lines left out: 1" in said and any("lose their first turns" in sentence for sentence in said)
    assert any(sentence.startswith("it answers: ") for sentence in said)
    model = regard.load(tmp_path / "chat", device="cpu")
    assert model.conventions.turn is not None and model.about["training"]["train_conversations"] == 54
    answer = model.generate("Number 3?", max_tokens=12)
    assert answer.text.startswith("It is") and answer.finish_reason == "stop"
    assert model.generate("Number 3?", max_tokens=12, raw=True).text != answer.text
    more = replace(plan.recipe, init_from=str(tmp_path / "chat"), loop=replace(plan.recipe.loop, steps=1))
    run(replace(more, data=DataRecipe(train=(text,))), tmp_path / "plain")
    assert load_model(tmp_path / "plain").about["chat"] == model.about["chat"], "what it answers to is kept"


def test_conversations_need_no_model_before_them(chat: str, tmp_path: Path) -> None:
    plain = recipe("language-model", chat)
    result, _ = run(replace(plain, data=replace(plain.data, skip_bad=1)), tmp_path / "run")
    assert result.scores.keys() == {"dev_loss", "dev_perplexity"}
    with pytest.raises(DataError, match="messages"):
        run(plain, tmp_path / "other")
    with pytest.raises(DataError, match="'text' is missing"):
        MaskedLanguageModelling().read(recipe("masked-lm", chat))


@pytest.mark.parametrize(("subject", "family"), [(LanguageModelling(), "Llama"), (MaskedLanguageModelling(), "BERT")])
def test_what_is_planned_opens_elsewhere(subject: LanguageModelling | MaskedLanguageModelling, family: str) -> None:
    for width, layers in LADDER:
        config = build(TransformerConfig, {**subject.axes(width, layers), "vocab_size": 300}, where="[model]")
        assert find_form(config, subject.head).family.name == family
