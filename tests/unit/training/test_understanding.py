"""Classifiers as they are trained: from nothing, from another model, frozen, in part slower; and what they keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.data import Finding
from regard.errors import CheckpointError, ConfigError, DataError
from regard.hub.folder import load_model, read_config
from regard.hub.weights import state_tensors
from regard.machine import Speeds
from regard.model import ClassifierHead, ClsClassifierHead, Model, Rope, TransformerConfig, make_model
from regard.tasks.classification import classify
from regard.tasks.classifier import Classifier
from regard.training import Event, Progress, Recipe, train
from regard.training.optim import layers_above, make_optimizers
from regard.training.plan import FEWEST, LEAST_BATCH, plan_recipe
from regard.training.recipe import (
    BatchRecipe,
    DataRecipe,
    LoopRecipe,
    LoraRecipe,
    OptimRecipe,
    ScheduleRecipe,
    TokenizerRecipe,
)
from regard.training.start import tuned
from regard.training.understanding import PASSES, Classifying

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SIZES = {"d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 2, "norm_order": "pre", "positions": "rope",
         "n_token_types": 2, "dropout": 0.1}  # fmt: skip


class Listener:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, unit: str) -> None:
        pass

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def show(self, findings: Iterable[Finding]) -> None:
        pass

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        pass


@pytest.fixture(scope="module")
def questions(data_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt and dev.txt: 240 and 60 questions of TREC; pairs.tsv: which of two neighbours asks for a number."""
    folder = tmp_path_factory.mktemp("questions")
    lines = (data_dir("trec") / "train.txt").read_text(encoding="utf-8").split("\n")
    (folder / "train.txt").write_text("\n".join(lines[:240]) + "\n", encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(lines[240:300]) + "\n", encoding="utf-8")
    rows = [line.partition(" ")[::2] for line in lines[:120]]
    pairs = [f"{a[1]}\t{b[1]}\t{a[0].startswith('NUM')}" for a, b in pairwise(rows)]
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    lengths = [f"{text}\t{len(text) / 10}" for _, text in rows]
    (folder / "lengths.tsv").write_text("\n".join(lengths) + "\n", encoding="utf-8")
    return folder


def recipe(questions: Path, steps: int = 30, **more: object) -> Recipe:
    data = DataRecipe(train=(str(questions / "train.txt"),), dev=(str(questions / "dev.txt"),), label_until=":")
    whole = Recipe(
        task="classification", data=data, model=SIZES, tokenizer=TokenizerRecipe(vocab_size=500, dropout=0.1),
        batch=BatchRecipe(tokens=600, max_len=64), schedule=ScheduleRecipe(warmup=5),
        loop=LoopRecipe(steps=steps, evaluate_every=10),
    )  # fmt: skip
    return replace(whole, **more)


def carry_out(recipe: Recipe, out: Path, **more: bool) -> dict[str, float]:
    return train(recipe, out, device=CPU, reporter=Listener(), **more).scores


@pytest.fixture(scope="module")
def trained(questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 updates from nothing."""
    out = tmp_path_factory.mktemp("trained") / "run"
    carry_out(recipe(questions, 40), out)
    return out


def test_from_nothing_it_learns_and_the_folder_says_what(trained: Path, questions: Path) -> None:
    about = read_config(load_model(trained).path)
    scores = about["training"]["scores"]
    assert scores["dev_accuracy"] > scores["majority_accuracy"] + 0.1
    assert about["labels"] == ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"] and about["head"] == "classifier"
    assert (about["label_until"], about["texts"]) == (":", 1)
    assert about["training"]["train_examples"] == 240
    model = regard.load(trained, device="cpu")
    texts = [line.partition(" ")[2] for line in (questions / "dev.txt").read_text(encoding="utf-8").splitlines()]
    truth = [line.partition(":")[0] for line in (questions / "dev.txt").read_text(encoding="utf-8").splitlines()]
    right = [label.label == true for label, true in zip(model.classify(texts), truth, strict=True)]
    assert np.mean(right) == pytest.approx(scores["dev_accuracy"]), "what is loaded is what was scored"
    card = (load_model(trained).path / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: text-classification" in card and "Labels: ABBR, DESC" in card and "of 240 examples" in card


@pytest.mark.whole
def test_law_23_a_resumed_run_is_the_same_run(questions: Path, tmp_path: Path) -> None:
    """BPE dropout, the order and the best score so far included."""
    whole = carry_out(recipe(questions, 20), tmp_path / "whole")
    first = recipe(questions, 20, loop=LoopRecipe(steps=20, stop=10, evaluate_every=10))
    carry_out(first, tmp_path / "parts")
    parts = carry_out(recipe(questions, 20), tmp_path / "parts", resume=True)
    assert parts == whole
    one, two = (state_tensors(load_model(tmp_path / name).model) for name in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_best_is_the_one_with_the_best_score(questions: Path, tmp_path: Path) -> None:
    carry_out(recipe(questions, 30, optim=OptimRecipe(lr=0.03, matrix_lr=0.05)), tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "run.jsonl").read_text(encoding="utf-8").splitlines()]
    looks = [event for event in events if event["event"] == "dev"]
    best = max(event["dev_accuracy"] for event in looks)
    assert events[-1]["dev_accuracy"] == best and len(looks) == 3


@pytest.mark.parametrize(
    ("kind", "file", "score"), [("one", "pairs.tsv", "dev_accuracy"), ("number", "lengths.tsv", "dev_spearman")]
)
def test_pairs_and_numbers(questions: Path, tmp_path: Path, kind: str, file: str, score: str) -> None:
    base = recipe(questions, 10)
    data = DataRecipe(train=(str(questions / file),), labels=kind)
    scores = carry_out(replace(base, data=data), tmp_path / "run")
    assert score in scores and scores["dev_merit"] == scores[score]
    model = regard.load(tmp_path / "run", device="cpu")
    if kind == "number":
        found = model.classify(["Who ?", "How far is it from Denver to Aspen , and how far is it back again ?"])
        assert all(isinstance(label.label, float) and label.probability is None for label in found)
        assert 1 < found[0].label < 12, "in the units of the file, about the mean of what was seen"
    else:
        assert model.classify([("Who ?", "How many ?")])[0].label in ("True", "False")


@pytest.mark.whole
def test_from_a_published_encoder_the_head_is_new(minilm: Path, questions: Path, tmp_path: Path) -> None:
    """Its weights, its vocabulary and its template; with `cls`, its pooler too. An update at rate 0 moves nothing."""
    data = replace(recipe(questions).data, train=(str(questions / "dev.txt"),))
    quick = recipe(
        questions, 1, data=data, init_from=str(minilm), optim=OptimRecipe(kind="adamw", lr=0.0), pooling="cls",
        batch=BatchRecipe(tokens=300, max_len=64), model={},
    )  # fmt: skip
    carry_out(tuned(quick), tmp_path / "run")
    theirs, ours = load_model(minilm), load_model(tmp_path / "run")
    one, two = state_tensors(theirs.model.transformer), state_tensors(ours.model.transformer)
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    assert isinstance(ours.model.head, ClsClassifierHead)
    assert torch.equal(ours.model.head.pooler.dense.weight, theirs.model.head.dense.weight)
    assert ours.tokenizer.wrap([7, 8], [9]) == theirs.tokenizer.wrap([7, 8], [9])
    assert read_config(ours.path)["training"]["init"]["from"] == str(minilm)


def test_from_a_classifier_the_head_stays_where_the_labels_do(trained: Path, questions: Path, tmp_path: Path) -> None:
    still = OptimRecipe(kind="adamw", lr=0.0)
    same = tuned(recipe(questions, 1, init_from=str(trained), optim=still))
    carry_out(same, tmp_path / "same")
    before, after = (load_model(path).model.head for path in (trained, tmp_path / "same"))
    assert torch.equal(before.out.weight, after.out.weight)
    fifty = replace(same.data, label_until=None, dev=())
    carry_out(replace(same, data=fifty), tmp_path / "fifty")
    head = load_model(tmp_path / "fifty").model.head
    assert isinstance(head, ClassifierHead) and len(head.out.weight) > 20


def test_no_encoder_no_classifier(gpt2: Callable[..., Path], questions: Path) -> None:
    with pytest.raises(CheckpointError, match="another task") as caught:
        tuned(recipe(questions, 1, init_from=str(gpt2())))
    assert "or any encoder" in str(caught.value)


@pytest.mark.whole
def test_a_frozen_encoder_does_not_move(trained: Path, questions: Path, tmp_path: Path) -> None:
    fast = OptimRecipe(kind="adamw", lr=0.01)
    frozen = tuned(recipe(questions, 5, init_from=str(trained), freeze="encoder", optim=fast))
    carry_out(frozen, tmp_path / "run")
    before, after = (state_tensors(load_model(path).model) for path in (trained, tmp_path / "run"))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"head.out.weight", "head.out.bias"}


def tiny(**axes: object) -> Model:
    config = {**SIZES, "vocab_size": 20, "n_encoder_layers": 3, **axes}
    config["positions"] = None
    return make_model(TransformerConfig(**{k: v for k, v in config.items() if v is not None}), "classifier", 2)


def test_rates_decay_from_the_head_to_the_embeddings() -> None:
    model = tiny()
    above = layers_above(name for name, _ in model.named_parameters())
    assert above["head.out.weight"] == above["transformer.encoder.norm.weight"] == 0
    assert [above[f"transformer.encoder.layers.{i}.ffn.up.weight"] for i in range(3)] == [3, 2, 1]
    assert above["transformer.tokens.weight"] == above["transformer.encoder.types.weight"] == 4
    for kind in ("adamw", "muon"):
        optimizers = make_optimizers(model, OptimRecipe(kind=kind, lr=1.0, matrix_lr=1.0, layer_decay=0.5))
        rates = {id(p): group["peak_lr"] for o in optimizers for group in o.param_groups for p in group["params"]}
        assert len(rates) == len(list(model.parameters()))
        assert all(rates[id(p)] == 0.5 ** above[name] for name, p in model.named_parameters())


def test_without_decay_the_groups_are_those_of_before() -> None:
    """Checkpoints of earlier runs hold their optimizers' state by the parameters' places in these groups."""
    adam, muon = make_optimizers(tiny(), OptimRecipe(weight_decay=0.1))
    assert [(group["lr"], group["weight_decay"]) for group in adam.param_groups] == [(3e-3, 0.1), (3e-3, 0.0)]
    assert [group["lr"] for group in muon.param_groups] == [5e-3]


def test_class_weights_reach_the_loss(questions: Path) -> None:
    subject, chosen = Classifying(), recipe(questions, class_weights="balanced")
    corpus = subject.read(chosen)
    data = subject.data(chosen, corpus, subject.tokenizer(chosen, corpus))
    weights = subject.task(chosen, data).weights
    assert weights is not None and weights.argmax() == data.labels.names.index("ABBR"), "the rarest counts most"
    several = replace(chosen, data=replace(chosen.data, labels="several"))
    corpus = subject.read(several)
    with pytest.raises(ConfigError, match="a text has one"):
        subject.task(several, subject.data(several, corpus, subject.tokenizer(several, corpus)))


def test_an_unseen_class_stops_before_training(questions: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("NUM:count How many ?\nODD:one What ?\n", encoding="utf-8")
    data = replace(recipe(questions).data, dev=(str(tmp_path / "dev.txt"),))
    with pytest.raises(DataError) as caught:
        Classifying().read(recipe(questions, data=data))
    assert "dev.txt:2" in str(caught.value) and "'ODD'" in str(caught.value)


@pytest.mark.parametrize("kind", ["one", "several"])
def test_a_class_of_which_only_an_empty_text_is_trained_on_stops_too(tmp_path: Path, kind: str) -> None:
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("text\tlabel\n" + "fine\tgood\ndull\tbad\n" * 20 + " \todd\n", encoding="utf-8")
    dev.write_text("text\tlabel\nfine\tgood\nstrange\todd\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        data = DataRecipe(train=(str(train),), dev=(str(dev),), labels=kind)
        Classifying().read(Recipe(task="classification", data=data))
    assert "dev.tsv:3" in str(caught.value) and "'odd'" in str(caught.value)


@pytest.mark.parametrize("longest", [12, 24, 512])
def test_development_texts_are_read_as_they_are_in_use(questions: Path, longest: int) -> None:
    """Whatever a training batch has room for: what training says of a model, `classify` and `evaluate` say too."""
    subject = Classifying()
    chosen = recipe(questions, model={**SIZES, "max_len": longest}, batch=BatchRecipe(tokens=600, max_len=8))
    corpus = subject.read(chosen)
    tokenizer = subject.tokenizer(chosen, corpus)
    data = subject.data(chosen, corpus, tokenizer)
    config = TransformerConfig(vocab_size=tokenizer.vocab_size, **{**SIZES, "positions": Rope()}, max_len=longest)
    model = make_model(config, "classifier", 6).eval()
    logits, cut = Classifier(model, tokenizer, subject.facts(data, corpus)).logits(corpus.dev.texts)
    assert np.array_equal(classify(model, data.dev), logits)
    cuts = sum(map(bool, cut))
    assert (cuts > 0) is (longest < 512) and max(len(read.ids) for read in data.train) == 8
    said = f"{cuts:,} of 60 development texts are longer than the model reads and are cut"
    assert data.left_out is not None and (said in data.left_out) is (cuts > 0)
    assert "training texts are longer than 8 tokens" in data.left_out


def test_a_plan_for_fine_tuning_ends_after_a_few_passes(trained: Path, questions: Path) -> None:
    """Time for a thousand passes is not used up: of few examples FEWEST updates are made, of many PASSES passes."""
    speeds = Speeds("cpu", {"float32": 1e13, "bfloat16": 1e13}, 1e13, ())
    base = tuned(recipe(questions, init_from=str(trained)))
    corpus = Classifying().read(base)
    plan = plan_recipe(replace(base, optim=OptimRecipe()), corpus, minutes=10, device=CPU, speeds=speeds)
    assert plan.recipe.loop.minutes is None and plan.recipe.optim.kind == "adamw"
    assert plan.steps * 0.9 * LEAST_BATCH == pytest.approx(FEWEST * LEAST_BATCH, rel=0.02)

    class Large:
        def amount(self) -> tuple[float, float]:
            return 1e6, 1e6

    plan = plan_recipe(base, Large(), minutes=10, device=CPU, speeds=speeds)
    assert plan.steps * 0.9 * plan.recipe.batch.tokens == pytest.approx(PASSES * 1e6, rel=0.02)


@pytest.mark.whole
def test_adapters_are_merged_into_what_is_saved_and_go_on_bit_equal(
    trained: Path, questions: Path, tmp_path: Path
) -> None:
    """Law 23 for a run with adapters, whose checkpoints are plain models."""
    fast = OptimRecipe(kind="adamw", lr=0.01)
    lora = tuned(recipe(questions, 10, init_from=str(trained), lora=LoraRecipe(rank=4), optim=fast))
    lora = replace(lora, loop=LoopRecipe(steps=10, evaluate_every=5))
    whole = carry_out(lora, tmp_path / "whole")
    first = replace(lora, loop=LoopRecipe(steps=10, stop=5, evaluate_every=5))
    carry_out(first, tmp_path / "parts")
    assert carry_out(lora, tmp_path / "parts", resume=True) == whole
    before, one, two = (state_tensors(load_model(p).model) for p in (trained, tmp_path / "whole", tmp_path / "parts"))
    assert one.keys() == before.keys() and all(torch.equal(one[name], two[name]) for name in one)
    moved = {name for name in before if not torch.equal(before[name], one[name])}
    assert "transformer.tokens.weight" not in moved and "transformer.encoder.layers.0.self_attn.q.weight" in moved
    with pytest.raises(ConfigError, match="adapters go on a trained model"):
        carry_out(recipe(questions, 1, lora=LoraRecipe(rank=4)), tmp_path / "nothing")
