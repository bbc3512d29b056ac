"""Laws 18 and 19: a target is learned one place further than it is given, and its end with it, once.

What is unusual: whether the end was learned is tried, too: a copy of the model learns four samples by heart in some
seconds, and must then end each by itself.
What it does not know: tasks whose targets are no text.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.generate import Hypothesis, beam_search
from regard.laws.batches import documents, expected, samples, scribbled
from regard.laws.law import law
from regard.laws.learning import differing
from regard.laws.lesson import Lesson
from regard.laws.trial import NotApplicable
from regard.model import Model
from regard.tasks.base import Task
from regard.tasks.language_modeling import LanguageData
from regard.tasks.translation import TranslationData
from regard.training.optim import lr_factor, make_optimizers, set_lr
from regard.training.recipe import OptimRecipe, ScheduleRecipe
from regard.training.step import TrainStep, add_gradients

KNOWN = 4
"""Samples that are learned by heart."""
UPDATES = 120
OPTIM, SCHEDULE = OptimRecipe(lr=0.01, matrix_lr=0.02), ScheduleRecipe(warmup=20, decay=0.5)
BEYOND = 10
"""Tokens for which an output may go on after its target's end."""


def sequences(lesson: Lesson) -> TranslationData | LanguageData:
    """The data, if its targets are texts with ends."""
    if not isinstance(lesson.data, TranslationData | LanguageData):
        raise NotApplicable("its targets are no texts that end")
    return lesson.data


@law(18, "each target has one supervised end, and what is learned by heart ends by itself", on=Lesson, exact=True)
def ends(lesson: Lesson) -> Iterator[float]:
    """transformers #23530, torchtune #949."""
    data = sequences(lesson)
    batches: list[Any] = [data.batch(step) for step in range(data.batches_per_epoch)]
    if isinstance(data, TranslationData):
        rows = [row[real].tolist() for b in batches for row, real in zip(b.tgt_out, b.tgt_real, strict=True)]
        yield sum(row.count(data.conventions.end) != 1 or row[-1] != data.conventions.end for row in rows)
        yield sum(batch.count for batch in batches) - sum(map(len, rows))
    else:
        said = torch.cat([batch.targets[batch.real] for batch in batches])
        yield abs(int((said == data.conventions.end).sum()) - len(data.train))
        yield sum(batch.count for batch in batches) - len(said)
    known = four(data)
    found = continued(by_heart(lesson.model, lesson.task, known.batch), known, data.conventions.end)
    yield sum(not one.finished or list(one.ids) != ids for one, ids in zip(found, known.targets, strict=True))


@law(19, "a target a b is given as <s> a b and wanted as a b </s>, and nothing on padding is learned", on=Lesson)
def shifted(lesson: Lesson) -> Iterator[float]:
    """Over an epoch; and whatever stands on padding changes no gradient (transformers #7077, #18249)."""
    data = sequences(lesson)
    there = Counter[Any]()
    for step in range(data.batches_per_epoch):
        there.update(samples(data.batch(step)))
    yield differing(there, expected(data))
    batch = next((b for b in map(data.batch, range(data.batches_per_epoch)) if _has_padding(b)), None)
    if batch is not None:
        yield lesson.gap(lesson.plain(scribbled(batch, 1)), lesson.plain(batch))


def _has_padding(batch: Any) -> bool:
    return not bool((batch.real if hasattr(batch, "real") else batch.tgt_real).all())


@dataclass(frozen=True)
class Known:
    """Samples to be learned by heart: as a batch, how each output begins, and how it goes on before its end."""

    batch: Any
    first: Tensor
    targets: list[list[int]]


def four(data: TranslationData | LanguageData) -> Known:
    """Short samples that can be told apart by how they begin: pairs by their sources, documents by a first token."""
    if isinstance(data, TranslationData):
        pairs = sorted(zip(*data.train, strict=True), key=lambda pair: len(pair[0]) + len(pair[1]))
        chosen = {tuple(source): (source, target) for source, target in reversed(pairs) if target}
        sources, targets = map(list, zip(*list(chosen.values())[-KNOWN:], strict=True))
        first = torch.tensor([data.conventions.first] * len(targets))
        known = Known(data.conventions.batch(sources, targets), first, [[*t] for t in targets])
    else:
        texts = [data.train.document(i).tolist() for i in range(len(data.train))]
        fitting = sorted((text for text in texts if 2 <= len(text) < data.length), key=len, reverse=True)
        own = list({text[0]: text for text in fitting}.values())[-KNOWN:]
        begin, end = data.conventions.beginning, data.conventions.end
        batch = documents([[begin, *text] for text in own], [[*text, end] for text in own]) if own else None
        known = Known(batch, torch.tensor([[begin, text[0]] for text in own]), [text[1:] for text in own])
    if len(known.targets) < KNOWN:
        raise NotApplicable(f"there are no {KNOWN} short samples that begin differently")
    return known


def by_heart(model: Model, task: Task, batch: Any) -> Model:
    """A copy of the model that was shown this batch and nothing else, with a recipe's own optimizers."""
    learner = copy.deepcopy(model).float().eval()  # dropout would only make it longer
    step_module, optimizers = TrainStep(learner, task), make_optimizers(learner, OPTIM)
    for step in range(UPDATES):
        set_lr(optimizers, lr_factor(step, SCHEDULE, UPDATES))
        add_gradients(step_module, [batch])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return learner


@torch.no_grad()
def continued(model: Model, known: Known, end: int) -> list[Hypothesis]:
    """The likeliest output for each of what is known, free to go on beyond its target."""
    limit = min(model.config.max_len - known.first.size(1), max(map(len, known.targets)) + 1 + BEYOND)
    transformer, memory, real = model.transformer, None, None
    if transformer.encoder is not None:
        real = known.batch.src_real
        memory = transformer.encode(known.batch.src, real=real)
    state = transformer.start(memory, real, capacity=limit + known.first.size(1))
    limits = torch.full((len(known.targets),), limit)
    return [best[0] for best in beam_search(model, state, known.first, ends=(end,), limits=limits, beam=1)]
