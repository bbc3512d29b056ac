"""Adaptation to unlabelled texts before fine-tuning: two runs in one recipe, which a killed run goes on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.config import to_toml, to_tree
from regard.data import Finding
from regard.errors import ConfigError
from regard.hub.folder import describe_model, load_model, read_config
from regard.hub.weights import state_tensors
from regard.machine import Speeds
from regard.model import ClassifierHead, MaskedLMHead
from regard.training import Event, Progress, Recipe, StepEvent, read_recipe, train
from regard.training.adaptation import SHARE, first_run
from regard.training.language_models import PASSES
from regard.training.recipe import (
    AdaptRecipe,
    BatchRecipe,
    DataRecipe,
    LoopRecipe,
    OptimRecipe,
    ScheduleRecipe,
    TokenizerRecipe,
)
from regard.training.resolve import planned, resumed
from regard.training.start import make_model, read_origin, tuned

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SIZES = {"d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 2, "norm_order": "pre", "positions": "rope",
         "n_token_types": 2, "dropout": 0.1}  # fmt: skip
BATCH = BatchRecipe(tokens=600, max_len=64)


class Killed(Exception):
    """Stands for SIGKILL."""


class Listener:
    """Keeps what was said, and in which unit each run counts; dies after an update of the run of that number."""

    def __init__(self, dies_at: tuple[int, int] | None = None) -> None:
        self.said, self.units, self.dies_at = list[str](), list[str](), dies_at

    def begin(self, unit: str) -> None:
        self.units.append(unit)

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def show(self, findings: Iterable[Finding]) -> None:
        pass

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        if isinstance(event, StepEvent) and self.dies_at == (len(self.units), event.step):
            raise Killed


@pytest.fixture(scope="module")
def texts(data_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt: 200 questions of TREC with their classes; plain.txt: 300 others without."""
    folder = tmp_path_factory.mktemp("texts")
    lines = (data_dir("trec") / "train.txt").read_text(encoding="utf-8").split("\n")
    (folder / "train.txt").write_text("\n".join(lines[:200]) + "\n", encoding="utf-8")
    plain = [line.partition(" ")[2] for line in lines[200:500]]
    (folder / "plain.txt").write_text("\n".join(plain) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def base(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier to start from."""
    out = tmp_path_factory.mktemp("base") / "run"
    torch.set_num_threads(1)
    train(replace(recipe(texts, texts), init_from=None, adapt=None), out, device=CPU, reporter=Listener())
    return out


def recipe(texts: Path, base: Path, **more: Any) -> Recipe:
    """Eight updates on the texts, then six on the labels."""
    first = AdaptRecipe(
        data=DataRecipe(train=(str(texts / "plain.txt"),), unit="line"), batch=BATCH,
        optim=OptimRecipe(kind="adamw", lr=3e-3), schedule=ScheduleRecipe(warmup=2),
        loop=LoopRecipe(steps=8, evaluate_every=4),
    )  # fmt: skip
    whole = Recipe(
        task="classification", data=DataRecipe(train=(str(texts / "train.txt"),), label_until=":"), model=SIZES,
        init_from=str(base), adapt=first, tokenizer=TokenizerRecipe(vocab_size=500), batch=BATCH,
        optim=OptimRecipe(kind="adamw", lr=3e-3), schedule=ScheduleRecipe(warmup=2),
        loop=LoopRecipe(steps=6, evaluate_every=3),
    )  # fmt: skip
    return replace(whole, **more)


def carry_out(recipe: Recipe, out: Path, listener: Listener | None = None, **more: Any) -> dict[str, float]:
    return train(recipe, out, device=CPU, reporter=listener or Listener(), **more).scores


@pytest.fixture(scope="module")
def adapted(texts: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("adapted") / "run"
    torch.set_num_threads(1)
    carry_out(recipe(texts, base), out)
    return out


def test_the_encoder_is_adapted_and_the_folder_says_to_what(adapted: Path, texts: Path, base: Path) -> None:
    first, last = load_model(adapted / "adapt"), load_model(adapted)
    assert isinstance(first.model.head, MaskedLMHead) and first.about["task"] == "masked-lm"
    assert isinstance(last.model.head, ClassifierHead) and last.about["labels"][0] == "ABBR"
    started = state_tensors(load_model(base).model.transformer)
    assert any(
        not torch.equal(tensor, started[name]) for name, tensor in state_tensors(first.model.transformer).items()
    )
    init = last.about["training"]["init"]
    assert init["from"] == str(base) and init["adapted"]["steps"] == 8
    assert list(init["adapted"]["data"]) == [str(texts / "plain.txt")] and init["adapted"]["scores"]["dev_loss"] > 0
    log = [json.loads(line) for line in (adapted / "adapt" / "run.jsonl").read_text(encoding="utf-8").splitlines()]
    assert log[-1]["event"] == "end" and log[0]["task"] == "masked-lm"


def test_what_follows_begins_from_the_adapted_encoder(texts: Path, base: Path, tmp_path: Path) -> None:
    """With rate 0 the run itself moves nothing, so its encoder is the first run's."""
    still = recipe(texts, base, optim=OptimRecipe(kind="adamw", lr=0.0), loop=LoopRecipe(steps=1))
    carry_out(still, tmp_path / "run")
    one, two = (state_tensors(load_model(tmp_path / name).model.transformer) for name in ("run/adapt", "run"))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_its_recipe_repeats_both_runs(adapted: Path, tmp_path: Path) -> None:
    again = read_recipe(adapted / "recipe.toml")
    assert again.adapt is not None and again.adapt.loop.steps == 8
    scores = carry_out(again, tmp_path / "again")
    assert scores == read_config(load_model(adapted).path)["training"]["scores"]
    for name in ("adapt", "."):
        one, two = (state_tensors(load_model(run / name).model) for run in (adapted, tmp_path / "again"))
        assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.whole
@pytest.mark.parametrize("dies_at", [(1, 6), (2, 1), (2, 5)], ids=["adapting", "between", "after"])
def test_law_23_a_killed_run_goes_on_in_whichever_it_was(
    texts: Path, base: Path, adapted: Path, tmp_path: Path, dies_at: tuple[int, int]
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Killed):
        carry_out(recipe(texts, base), out, Listener(dies_at))
    with pytest.raises(ConfigError, match="already holds a run"):
        carry_out(recipe(texts, base), out)
    listener = Listener()
    scores = carry_out(resumed(out, []), out, listener, resume=True)
    assert listener.units == (["tokens", "examples"] if dies_at[0] == 1 else ["examples"])
    assert scores == read_config(load_model(adapted).path)["training"]["scores"]
    one, two = (state_tensors(load_model(run).model) for run in (adapted, out))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert read_recipe(out / "recipe.toml") == read_recipe(adapted / "recipe.toml")


@pytest.mark.whole
def test_killed_while_adapting_it_still_ends_in_time(
    texts: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second an update, half a minute for either run: 27 updates each, for 3 seconds are kept for the end."""
    now = [0.0]

    class Ticking(Listener):
        def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
            now[0] += isinstance(event, StepEvent)
            super().event(event, progress, seconds, seconds_left)

    def monotonic() -> float:
        now[0] += 1e-3  # no clock stands still
        return now[0]

    for module in ("run", "loop", "adaptation"):
        monkeypatch.setattr(f"regard.training.{module}.time", SimpleNamespace(monotonic=monotonic))
    timed = recipe(texts, base, loop=LoopRecipe(steps=60, minutes=0.5, evaluate_every=10))
    assert timed.adapt is not None
    timed = replace(timed, adapt=replace(timed.adapt, loop=timed.loop))
    with pytest.raises(Killed):
        carry_out(timed, tmp_path, Ticking((1, 15)))
    now[0] += 1_000
    carry_out(resumed(tmp_path, []), tmp_path, Ticking(), resume=True)
    after = read_recipe(tmp_path / "recipe.toml")
    assert after.adapt is not None
    for loop in (after.adapt.loop, after.loop):
        assert 25 <= (loop.stop or loop.steps) <= 30 and loop.minutes is None


def test_killed_before_its_first_checkpoint_it_begins_anew(texts: Path, base: Path, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        carry_out(recipe(texts, base), tmp_path / "run", Listener((1, 2)))
    with pytest.raises(ConfigError, match="no run to go on with"):
        carry_out(recipe(texts, base), tmp_path / "run", resume=True)
    assert "dev_accuracy" in carry_out(recipe(texts, base), tmp_path / "run")


def test_a_plan_parts_the_minutes_and_says_so(
    texts: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """On a machine so slow that the time is used up; on a quick one a few passes over few texts leave time over."""
    slow, quick = (Speeds("cpu", {"float32": rate, "bfloat16": rate}, rate, ()) for rate in (1e8, 1e13))
    monkeypatch.setattr("regard.training.resolve.speeds", lambda device: slow)
    start = Recipe(task="classification", data=DataRecipe(train=(str(texts / "train.txt"),), label_until=":"))
    changes = [f'init_from="{base}"', f'adapt.data.train=["{texts / "plain.txt"}"]']
    plan = planned(start, changes, minutes=3, device=CPU)
    recipe = plan.recipe
    assert recipe.adapt is not None and recipe.adapt.loop.minutes == pytest.approx(1)
    assert recipe.loop.minutes == pytest.approx(3 * (1 - SHARE)) and plan.minutes == pytest.approx(3)
    assert "plain.txt" in plan.sentences[0] and "passes" in plan.sentences[0]
    assert recipe.adapt.optim.lr == 1e-4 and "[adapt.loop]" in to_toml(to_tree(recipe))
    monkeypatch.setattr("regard.training.resolve.speeds", lambda device: quick)
    soon = planned(start, changes, minutes=3, device=CPU).recipe
    assert soon.adapt is not None and soon.adapt.loop.minutes is None and soon.adapt.loop.epochs == PASSES
    counted = planned(start, [*changes, "adapt.loop.steps=7", "loop.steps=5"], minutes=3, device=CPU).recipe
    assert counted.adapt is not None and (counted.adapt.loop.steps, counted.adapt.loop.minutes) == (7, None)
    assert (counted.loop.steps, counted.loop.minutes) == (5, None)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"task": "translation"}, "only an encoder that reads"), ({"task": "masked-lm"}, "only an encoder that reads"),
     ({"init_from": None}, "no model to adapt")],
)  # fmt: skip
def test_what_cannot_be_adapted_is_refused(texts: Path, tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        carry_out(recipe(texts, texts, **change), tmp_path / "run")
    with pytest.raises(ConfigError, match="nothing to adapt to"):
        first_run(recipe(texts, texts, adapt=AdaptRecipe(data=DataRecipe(train=()))))


def test_an_encoder_without_words_gets_a_head_to_guess_with(minilm: Path, texts: Path) -> None:
    """MiniLM comes with a pooler alone. Then the head of a classifier is new in its turn, without a bias on words."""
    data = DataRecipe(train=(str(texts / "plain.txt"),))
    guessing = tuned(Recipe(task="masked-lm", data=data, init_from=f"package:{minilm.parent.name}"))
    assert guessing.model["head_bias"] is True
    origin = read_origin(minilm)
    model = make_model(guessing, "masked-lm", origin.tokenizer, minilm)
    assert isinstance(model.head, MaskedLMHead) and model.head.bias is not None and model.config.head_bias
    theirs = state_tensors(load_model(minilm).model.transformer)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in state_tensors(model.transformer).items())


def test_the_head_over_words_leaves_nothing_behind(adapted: Path) -> None:
    described = describe_model(adapted)
    assert described.config.head_bias is False and describe_model(adapted / "adapt").config.head_bias is True
    assert not any("bias" in name and name.startswith("head.bias") for name in described.weights)
