"""Training in seconds: the recipe's own optimizers and schedule, through the loop's own step, on made-up examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.model import Model
from regard.tasks.base import Task
from regard.training.optim import lr_factor, make_optimizers, set_lr
from regard.training.recipe import OptimRecipe, ScheduleRecipe
from regard.training.step import TrainStep, add_gradients

Train = Callable[..., Model]
OPTIM = OptimRecipe(lr=0.01, matrix_lr=0.02)


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """These models are too small for two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def train() -> Train:
    """`train(model, task, batch, steps)` makes that many updates on `batch(step)`, and gives the model back to use."""

    def run(model: Model, task: Task, batch: Callable[[int], Any], steps: int) -> Model:
        step_module, schedule = TrainStep(model.train(), task), ScheduleRecipe(warmup=20, decay=0.5)
        optimizers = make_optimizers(model, OPTIM)
        for step in range(steps):
            set_lr(optimizers, lr_factor(step, schedule, steps))
            add_gradients(step_module, [batch(step)])
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return model.eval()

    return run
