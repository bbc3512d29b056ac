"""Laws 15 to 19, 24 and 33 hold of every task that can be trained, and can fail: each is shown its own fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.data import TokenBatches, batch
from regard.laws import LAWS, Lesson, Verdict, ends, lesson, report_card
from regard.laws.trial import Trial
from regard.tasks import conventions, language_modeling, losses, translation
from regard.tasks.masked_lm import MaskedLMTask
from regard.tasks.reading import TextData
from regard.tasks.translation import TranslationData, TranslationTask
from regard.training import step
from regard.training.subjects import SUBJECTS

from . import lessons
from .lessons import LESSONS, SHARED

Patch = pytest.MonkeyPatch
NUMBERS = (15, 17, 18, 19, 24, 33)
"""Those that need no company."""
NEEDS = {18: ("translation", "language-model"), 19: ("translation", "language-model")}
"""The tasks that a law is about; the others it leaves alone."""
FAULTS: list[tuple[int, str, Callable[[Patch], None]]] = []
RANK_FAULTS = [(16, lessons.nothing_is_added_up), (16, lessons.each_rank_divides_by_its_own_count)]


def breaks(number: int, task: str = "translation") -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """This fault breaks that law in this task."""

    def register(fault: Callable[[Patch], None]) -> Callable[[Patch], None]:
        FAULTS.append((number, task, fault))
        return fault

    return register


def test_there_is_a_lesson_of_every_task() -> None:
    assert LESSONS.keys() == SUBJECTS.keys()


@pytest.mark.parametrize("task", LESSONS)
@pytest.mark.parametrize("number", NUMBERS)
def test_law_holds(number: int, task: str) -> None:
    verdict = LAWS[number](LESSONS[task]())
    assert verdict.outcome == ("pass" if task in NEEDS.get(number, (task,)) else "not applicable"), verdict
    assert verdict.measured is None or verdict.measured <= 1e-9, verdict


@pytest.mark.parametrize("number", NUMBERS)
def test_law_holds_of_numbers_where_it_says_something_of_them(number: int) -> None:
    verdict = LAWS[number](lessons.classification("number"))
    assert verdict.outcome == ("pass" if number in (15, 24, 33) else "not applicable"), verdict


@pytest.mark.parametrize("number", NUMBERS)
def test_law_is_not_about_a_single_short_pair(number: int) -> None:
    verdict = LAWS[number](lessons.translation((4,)))
    assert verdict.outcome == ("pass" if number in (19, 24, 33) else "not applicable"), verdict


def test_the_lesson_is_left_as_it_was() -> None:
    given = LESSONS["translation"]()
    before, random = {n: p.clone() for n, p in given.model.named_parameters()}, torch.get_rng_state()
    for number in NUMBERS:
        LAWS[number](given)
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in given.model.named_parameters())
    assert given.model.training and torch.equal(torch.get_rng_state(), random)


# ------------------------------------------------------------------ faults


@breaks(15)
@breaks(15, "classification")
@breaks(15, "question-answering")
def a_mean_of_means(patch: Patch) -> None:
    add = step.add_gradients

    def averaged(module: Any, micro_batches: list[Any]) -> tuple[float, int]:
        found = [add(module, [one]) for one in micro_batches if one.count]
        for parameter in module.parameters():
            parameter.grad = None if parameter.grad is None else parameter.grad / len(found)
        return sum(total for total, _ in found), sum(count for _, count in found)

    patch.setattr(lesson, "add_gradients", averaged)


@breaks(17)
def pads_are_counted(patch: Patch) -> None:
    def loss(self: TranslationTask, model: Any, hidden: torch.Tensor, batch: Any) -> torch.Tensor:
        logits = model.logits(hidden).flatten(0, 1)
        return F.cross_entropy(logits, batch.tgt_out.flatten(), reduction="sum", label_smoothing=self.label_smoothing)

    patch.setattr(TranslationTask, "loss", loss)


@breaks(17, "language-model")
def pads_are_looked_at(patch: Patch) -> None:
    """Of what is added to a row, every prediction is counted."""
    whole = language_modeling.LanguageModelTask.loss
    patch.setattr(
        language_modeling.LanguageModelTask, "loss",
        lambda self, model, hidden, batch: whole(self, model, hidden, replace(batch, count=batch.targets.numel())),
    )  # fmt: skip


@breaks(17, "masked-lm")
def all_tokens_are_guessed(patch: Patch) -> None:
    whole = MaskedLMTask.loss
    patch.setattr(
        MaskedLMTask, "loss", lambda self, model, hidden, batch: whole(self, model, hidden, replace(
            batch, chosen=torch.ones_like(batch.chosen))),
    )  # fmt: skip


@breaks(17)
def smoothing_spares_the_target(patch: Patch) -> None:
    """eps goes to the other classes alone, as some write it: eps / (V - 1) each."""
    whole = losses.linear_cross_entropy

    def spared(hidden: torch.Tensor, weight: torch.Tensor, *rest: Any, smoothing: float, **more: Any) -> torch.Tensor:
        return whole(hidden, weight, *rest, smoothing=smoothing * len(weight) / (len(weight) - 1), **more)

    patch.setattr(translation, "linear_cross_entropy", spared)


@breaks(18)
def the_end_is_dropped(patch: Patch) -> None:
    collate = conventions.Conventions.batch

    def endless(self: Any, *sides: Any, **more: Any) -> batch.Batch:
        given = collate(self, *sides, **more)
        real = given.tgt_real & (given.tgt_out != self.end)
        return replace(given, tgt_real=real, count=int(real.sum()))

    patch.setattr(conventions.Conventions, "batch", endless)


@breaks(18, "language-model")
def the_end_of_a_document_is_not_learned(patch: Patch) -> None:
    whole = language_modeling.LanguageModelTask.loss

    def loss(self: Any, model: Any, hidden: torch.Tensor, batch: Any) -> torch.Tensor:
        real = batch.real & (batch.targets != 2)
        return whole(self, model, hidden, replace(batch, real=real, count=int(real.sum())))

    patch.setattr(language_modeling.LanguageModelTask, "loss", loss)


@breaks(19)
def labels_are_not_shifted(patch: Patch) -> None:
    collate = conventions.Conventions.batch

    def same(self: Any, *sides: Any, **more: Any) -> batch.Batch:
        given = collate(self, *sides, **more)
        return replace(given, tgt_in=given.tgt_out)

    patch.setattr(conventions.Conventions, "batch", same)


@breaks(19)
def what_stands_on_padding_is_learned(patch: Patch) -> None:
    pads_are_counted(patch)


@breaks(24)
@breaks(24, "tagging")
@breaks(24, "question-answering")
def an_order_repeats_a_sample(patch: Patch) -> None:
    order = TokenBatches.batch
    patch.setattr(TokenBatches, "batch", lambda self, step: [*order(self, step)[:-1], order(self, step)[0]])


@breaks(24)
def ranks_get_the_same_rows(patch: Patch) -> None:
    patch.setattr(translation, "deal", lambda rows, rank, world: rows[: -(-len(rows) // world)])


@breaks(24, "classification")
def each_rank_orders_by_itself(patch: Patch) -> None:
    """A rank's batches are others than those that are shared out."""
    whole = TextData.batch
    patch.setattr(
        TextData, "batch",
        lambda self, step, rank=0, world=1: whole(self, (step + rank) % self.batches_per_epoch, rank, world),
    )  # fmt: skip


@breaks(33)
def a_mean_of_batch_means(patch: Patch) -> None:
    def evaluate(self: TranslationData, model: Any) -> dict[str, float]:
        task, means, most = TranslationTask(), [], translation.EVALUATED_TOGETHER
        with translation.evaluating(model):
            for start in range(0, len(self.dev_order), most):
                one = self._collate(self.dev, self.dev_order[start : start + most])
                means.append(float(task.loss(model, task.hidden(model, one), one)) / one.count)
        return {"dev_loss": sum(means) / len(means)}

    patch.setattr(TranslationData, "evaluate", evaluate)


@breaks(33, "language-model")
def perplexity_is_of_another_base(patch: Patch) -> None:
    patch.setattr(language_modeling.Reading, "perplexity", property(lambda self: 2**self.loss))


@breaks(33, "masked-lm")
@breaks(33, "tagging")
def an_evaluation_stays_in_training(patch: Patch) -> None:
    import contextlib

    for module in ("masked_lm", "tagging"):
        patch.setattr(f"regard.tasks.{module}.evaluating", lambda model: contextlib.nullcontext())


@pytest.mark.parametrize(("number", "task", "fault"), FAULTS, ids=[f"{n}-{t}-{f.__name__}" for n, t, f in FAULTS])
def test_law_fails(number: int, task: str, fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    verdict = LAWS[number](LESSONS[task]())
    assert verdict.outcome == "fail", verdict


def test_what_ends_by_itself_was_learned() -> None:
    """Else law 18 would hold of a model that ends everything at once."""
    given = LESSONS["translation"]()
    known = ends.four(given.data)
    assert len({tuple(target) for target in known.targets}) == ends.KNOWN and min(map(len, known.targets)) >= 2
    found = ends.continued(given.model.eval(), known, given.data.conventions.end)
    assert all(list(one.ids) != target for one, target in zip(found, known.targets, strict=True))


# ------------------------------------------------------------------ in company


def in_two_processes(folder: Path, *fault: str) -> list[dict[str, list[str]]]:
    """What two ranks, each with this fault, say of law 16 on every lesson."""
    environment = {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1])}
    running = [
        subprocess.Popen([sys.executable, lessons.__file__, str(rank), str(folder), *fault], env=environment)
        for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=120) for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_law_16_holds_of_every_lesson(tmp_path: Path) -> None:
    for found in in_two_processes(tmp_path):
        assert found.keys() == SHARED.keys()
        assert {outcome for outcome, _ in found.values()} == {"pass"}, found


@pytest.mark.whole
@pytest.mark.parametrize(("number", "fault"), RANK_FAULTS)
def test_law_of_ranks_fails(number: int, fault: Callable[[], None], tmp_path: Path) -> None:
    for found in in_two_processes(tmp_path, fault.__name__):
        assert found["3 tokens and 30"][0] == "fail" and found["translation"][0] == "fail", found


def test_law_16_needs_company() -> None:
    assert LAWS[16](LESSONS["translation"]()).outcome == "not applicable"


# ------------------------------------------------------------------ the register


def test_a_report_card_is_of_what_a_model_alone_can_be_asked(build) -> None:
    card: list[Verdict] = report_card(build("decoder", "rope"))
    assert {verdict.number for verdict in card} == {number for number, law in LAWS.items() if law.on is Trial}
    assert not {verdict.number for verdict in card} & {number for number, law in LAWS.items() if law.on is Lesson}
