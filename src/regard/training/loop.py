"""The loop: batches to gradients to updates, with a clock, a look at the development set, and a guard.

What is unusual: the loop knows neither files nor screens. It is a generator of events (a step, a look, the end),
and whoever drives it logs, draws, saves, stops; its whole state is one `Progress`. With a budget of minutes the
learning rate stays up until the time left just suffices for its decay; the recipe written then names the steps made.
What it does not know: tasks, checkpoints, progress bars.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.errors import NonFiniteError
from regard.tasks.base import TrainingData, cost
from regard.training.ema import Ema
from regard.training.optim import lr_factor, set_lr
from regard.training.recipe import Recipe
from regard.training.state import Progress
from regard.training.step import TrainStep, add_gradients, rank, world_size

LOOK_FIRST = 20
"""Updates before the clock trusts its own measurement of a step."""


@dataclass(frozen=True)
class StepEvent:
    """One update was made."""

    step: int
    loss: float
    """Mean training loss over the step's supervised tokens, nats (smoothing and dropout included)."""
    lr: float
    grad_norm: float
    tokens: int
    """Supervised tokens of this step."""


@dataclass(frozen=True)
class DevEvent:
    """The development set was looked at."""

    step: int
    scores: dict[str, float]
    better: bool
    seconds: float
    """How long the look took."""


@dataclass(frozen=True)
class EndEvent:
    """There will be no more."""

    reason: str


@dataclass(frozen=True)
class LeaveEvent:
    """Somebody asked to leave between two looks; the loop makes no more updates in this sitting."""

    step: int


Event = StepEvent | DevEvent | LeaveEvent | EndEvent


@dataclass
class Loop:
    """All that an update needs, put together by training/run.py."""

    step_module: nn.Module
    """TrainStep, or a wrapper of it."""
    inner: TrainStep
    data: TrainingData
    optimizers: list[torch.optim.Optimizer]
    recipe: Recipe
    progress: Progress
    ema: Ema | None = None
    """Averages the weights, and is what the development set is shown."""
    time_left: Callable[[], float] | None = None
    """Seconds for updates and evaluations from now on; None: the recipe's steps decide."""

    def run(self, asked: Callable[[], bool] = lambda: False) -> Iterator[Event]:
        """Train until the steps, the time or the patience is used up, or it is asked to leave.

        Raises:
            NonFiniteError: a loss or gradient is NaN or infinite; the update was not made.
        """
        progress, recipe = self.progress, self.recipe.loop
        started, looked = time.monotonic() - progress.loop_seconds, progress.step
        while progress.total is None or progress.step < progress.total:
            if asked():
                yield from self._leave(started)
                return
            if progress.step == recipe.stop or (self.time_left is not None and self._out_of_time(started)):
                break
            yield self._update()
            last = progress.step == progress.total
            if last or (progress.step % recipe.evaluate_every == 0):
                looked = progress.step
                yield from self._look(started)
                if recipe.patience and progress.since_best >= recipe.patience:
                    yield EndEvent(f"nothing better on the development examples in {recipe.patience} evaluations")
                    return
        if progress.step != looked and progress.step:
            yield from self._look(started)  # whatever was reached in time is worth a checkpoint
        done = progress.total is not None and progress.step >= progress.total
        cut = "stopped where the recipe says" if recipe.stop else "the time is used up"
        yield EndEvent("all steps are done" if done else cut)

    def _update(self) -> StepEvent:
        progress, recipe = self.progress, self.recipe
        schedule = recipe.schedule if progress.decay is None else replace(recipe.schedule, decay=progress.decay)
        rate = set_lr(self.optimizers, lr_factor(progress.step, schedule, progress.total))
        batch = self.data.batch(progress.step, rank(), world_size()).to(self.inner.model.device)
        micro = batch.split(recipe.batch.accumulate) if recipe.batch.accumulate > 1 else [batch]
        self.inner.train()
        total, count = add_gradients(self.step_module, micro)
        limit = recipe.optim.clip or math.inf
        norm = float(nn.utils.clip_grad_norm_(self.inner.parameters(), limit))
        if not math.isfinite(total) or not math.isfinite(norm):
            raise self._diverged(total / count, norm)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        progress.tokens += count
        if self.ema:
            self.ema.update(progress.step)
        return StepEvent(progress.step, total / count, rate, norm, count)

    def _look(self, started: float) -> Iterator[DevEvent]:
        progress, before = self.progress, time.monotonic()
        with self.ema.exchanged() if self.ema else nullcontext():  # whoever hears of it saves the averages
            scores = self.data.evaluate(self.inner.model)
            better = progress.best is None or cost(scores) < progress.best
            if better:
                progress.best, progress.best_step, progress.since_best = cost(scores), progress.step, 0
            else:
                progress.since_best += 1
            now = time.monotonic()
            progress.loop_seconds, progress.look_seconds = now - started, now - before
            yield DevEvent(progress.step, scores, better, progress.look_seconds)

    def _leave(self, started: float) -> Iterator[LeaveEvent]:
        self.progress.loop_seconds = time.monotonic() - started
        with self.ema.exchanged() if self.ema else nullcontext():  # as of a look
            yield LeaveEvent(self.progress.step)

    def _out_of_time(self, started: float) -> bool:
        """Decide, once, how many steps there will be: as soon as the time left is what the decay needs."""
        assert self.time_left is not None
        progress, left = self.progress, self.time_left()
        if left <= 0:
            return True
        if progress.total is None and progress.step >= LOOK_FIRST:
            remaining = left * progress.step / (time.monotonic() - started)
            if remaining <= self.recipe.schedule.decay * (progress.step + remaining):
                progress.total = progress.step + max(1, int(remaining))
                progress.decay = 1 - progress.step / progress.total
        return False

    def _diverged(self, loss: float, norm: float) -> NonFiniteError:
        step = self.progress.step
        return NonFiniteError(
            f"training met a number that is not finite before update {step + 1}; the update was not made",
            got=f"loss {loss}, gradient norm {norm}",
            mend="go on from the last checkpoint with a lower rate (--resume --set optim.lr=...), or without one begin "
            f"anew with it; or look at the examples of step {step}, which are named in run.jsonl",
        )
