"""Laws 15, 16, 17, 24, 33: a loss is a sum and a count, over micro-batches, ranks, padding and evaluations alike.

What is unusual: law 16 needs the company of other processes: in each of them it is called on the same lesson, inside a
torch.distributed group. And how much is evaluated together is a constant of each task's module, replaced for a while.
What it does not know: what a batch of a task looks like (`batches`).
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.packing import TokenBatch
from regard.laws.batches import alone, expected, rows_of, samples, scribbled, widened
from regard.laws.law import law
from regard.laws.lesson import Lesson, relative, said, sharp, smoothed_by, with_fields
from regard.laws.trial import Broken, NotApplicable, Undecided, replaced
from regard.tasks import conversations, language_modeling, masked_lm, quiz, reading, spans, translation
from regard.tasks.base import TrainingData
from regard.training.step import rank, world_size

MORE = 10
"""Columns of padding that are added."""
STEPS = 4
"""Steps that ranks take together."""
TOGETHER = (1, 7, 50, 10**6)
"""How many examples, or tokens, an evaluation takes together."""
COUNTS = (
    (translation, "EVALUATED_TOGETHER"), (masked_lm, "EVALUATED_TOGETHER"), (conversations, "EVALUATED_TOGETHER"),
    (language_modeling, "EVALUATED_TOKENS"), (quiz, "QUESTIONS_TOGETHER"),
)  # fmt: skip


@law(15, "a batch cut into any micro-batches gives the gradient of the whole", on=Lesson)
def accumulated(lesson: Lesson) -> Iterator[float]:
    """Halves, quarters, single rows, and parts of unequal size (transformers #34191, OpenNMT-py #2209)."""
    batch = lesson.fullest
    whole, (first, second) = lesson.plain(batch), batch.split(2)
    for micro_batches in ([batch], [first, second], batch.split(4), batch.split(rows_of(batch)),
                          [*first.split(rows_of(first)), second]):  # fmt: skip
        yield lesson.gap(lesson.added(micro_batches), whole)


@law(16, "ranks holding parts of a batch give the gradient of one process holding it all", on=Lesson)
def over_ranks(lesson: Lesson) -> Iterator[float]:
    """To be called in every process of a group; a rank may be empty-handed (transformers #34242)."""
    world = world_size()
    if world < 2:
        raise NotApplicable("start it in two processes")
    for step in range(min(STEPS, lesson.data.batches_per_epoch)):
        part = lesson.data.batch(step, rank(), world)
        yield lesson.gap(lesson.added(part.split(2)), lesson.plain(lesson.data.batch(step)))


@law(17, "padding leaves the loss unchanged; it is cross entropy, smoothed by the closed form", on=Lesson)
def smoothed(lesson: Lesson) -> Iterator[float]:
    """Ten more pad columns, whatever stands on them; eps 0, and others where the task has them."""
    batch, name = lesson.fullest, smoothed_by(lesson.task)
    sides = ("src", "tgt_in") if hasattr(batch, "src") else ("ids",)
    room = lesson.model.config.max_len - max(getattr(batch, side).size(1) for side in sides)
    if room < MORE and not isinstance(batch, TokenBatch):  # whose padding has positions of its own
        raise NotApplicable(f"no batch leaves room for {MORE} columns more")
    padded = scribbled(widened(batch, MORE), 1)
    yield lesson.gap(lesson.plain(padded), lesson.plain(batch))
    with torch.no_grad():
        logits, wanted, parts = said(lesson.model, lesson.task, batch)
    for eps in (0.0, 0.1, 0.3) if name else (0.0,):
        task = with_fields(sharp(lesson.task), **({name: eps} if name else {}))
        loss = cross_entropy(logits, wanted, eps) / parts / batch.count
        yield relative(lesson.plain(batch, task)[1], float(loss))


def cross_entropy(logits: Tensor, wanted: Tensor, eps: float) -> Tensor:
    """The sum over N places of -(1 - eps) log p(wanted) - eps / C * sum_c log p(c)."""
    if not eps:
        return F.cross_entropy(logits, wanted, reduction="sum")
    log_p = logits - logits.exp().sum(-1, keepdim=True).log()
    return -(1 - eps) * log_p[torch.arange(len(wanted)), wanted].sum() - eps * log_p.mean(-1).sum()


@law(24, "every sample comes exactly once an epoch, over all ranks and workers", on=Lesson, exact=True)
def once_an_epoch(lesson: Lesson) -> Iterator[float]:
    """1, 2, 3 ranks, read in one place or by 1 or 2 workers, each of which counts steps by itself (datasets #3423)."""
    length, every = lesson.data.batches_per_epoch, expected(lesson.data)
    for world, workers, epoch in product((1, 2, 3), (0, 1, 2), (0, 1)):
        seen = Counter[Any]()
        for own_rank, worker in product(range(world), range(max(1, workers))):
            data = _fresh(lesson.data)
            for step in range(epoch * length + worker, (epoch + 1) * length, max(1, workers)):
                seen.update(samples(data.batch(step, own_rank, world)))
        yield differing(seen, every)
    for step, world in product(range(length), (2, 3)):
        parts = [lesson.data.batch(step, own_rank, world) for own_rank in range(world)]
        there = Counter(sample for part in parts for sample in samples(part))
        yield differing(there, Counter(samples(lesson.data.batch(step))))


def differing(ours: Counter[Any], theirs: Counter[Any]) -> float:
    """How many samples only one of the two has, or has more often."""
    return float((ours - theirs).total() + (theirs - ours).total())


def _fresh(data: TrainingData) -> TrainingData:
    """The same data with an order that remembers nothing, as another process would have it."""
    own: Any = copy.copy(data)
    own.order = copy.copy(own.order)
    return own


@law(33, "an evaluation is the same whatever is evaluated together, and a mean over all of it", on=Lesson)
def evaluated(lesson: Lesson) -> Iterator[float]:
    """One by one without padding: total nats / total count, exp of it the perplexity (transformers #24839)."""
    scores, model = list[dict[str, float]](), lesson.model.train()
    for most in TOGETHER:
        with together(most):
            scores.append(lesson.data.evaluate(model))
    if not model.training:
        raise Broken("an evaluation leaves the model in another mode")
    for other in scores[1:]:
        yield max(relative(other[name], value) for name, value in scores[0].items())
    total, count, task = 0.0, 0, sharp(lesson.task)
    with torch.no_grad():
        for batch in alone(lesson.data):
            total += float(task.loss(model.eval(), task.hidden(model, batch), batch)) if batch.count else 0.0
            count += batch.count
    if not count:
        raise Undecided("nothing is there to be evaluated")
    yield relative(scores[0]["dev_loss"], total / count)
    if "dev_perplexity" in scores[0]:
        yield relative(math.log(scores[0]["dev_perplexity"]), total / count)


@contextmanager
def together(most: int) -> Iterator[None]:
    """So many examples, or tokens, evaluated together at most, for a while."""
    with ExitStack() as stack:
        for module, name in COUNTS:
            stack.enter_context(replaced(module, name, most))
        for module in (reading, spans):
            stack.enter_context(replaced(module, "tokens_together", lambda device: most))
        yield
