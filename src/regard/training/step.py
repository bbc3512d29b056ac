"""One forward for the loop: a batch in, the sum of its losses and their count out.

What is unusual: this module holds model and task together, so that DistributedDataParallel, FSDP2 and torch.compile
wrap this one thing and nothing else. A loss is a sum and a count, divided once per optimizer step by the count of the
whole step over micro-batches and ranks: then 1 batch of 8, 4 of 2, and 2 ranks holding 3 and 30 tokens give
one gradient (laws 15, 16; transformers #34191, #34242).
What it does not know: optimizers, clocks, files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.model import Model
from regard.tasks.base import Task


class TrainStep(nn.Module):
    """forward(batch) -> (loss_sum, count), under the precision that training was given."""

    def __init__(self, model: Model, task: Task, dtype: torch.dtype = torch.float32, *, compiled: bool = False) -> None:
        super().__init__()
        self.model, self.task, self.dtype = model, task, dtype
        # The loss stays out of the compiler's hands: it already works in the cache, row block by row block.
        self.hidden = torch.compile(task.hidden, dynamic=True) if compiled else task.hidden

    def precision(self) -> AbstractContextManager[Any]:
        """bf16 by autocast (weights stay float32), or nothing."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.model.device.type, dtype=self.dtype)

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        """The sum of the losses of the batch's supervised tokens (or samples), and how many there are."""
        with self.precision():
            hidden = self.hidden(self.model, batch)
            return self.task.loss(self.model, hidden, batch), batch.count


def world_size() -> int:
    """Processes training together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this process is."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def add_gradients(step: nn.Module, micro_batches: Sequence[Any]) -> tuple[float, int]:
    """Add to the parameters' .grad the gradient of the mean loss over all micro-batches of all ranks.

    Returns:
        The sum of losses and the count, over all ranks: their quotient is the step's loss.
    """
    count = sum(batch.count for batch in micro_batches)
    total = torch.zeros((), dtype=torch.float64)
    counts = torch.tensor([count], dtype=torch.float64)
    if world_size() > 1:
        dist.all_reduce(counts)
    everywhere = max(1, int(counts.item()))
    for batch in micro_batches:
        if not batch.count:  # a rank may go empty-handed from a batch of fewer rows than ranks
            continue
        loss, _ = step(batch)
        (loss / everywhere).backward()
        total += loss.detach().double().cpu()
    if world_size() > 1:
        _sum_over_ranks([p for p in step.parameters() if p.requires_grad], total)
    return float(total), everywhere


def _sum_over_ranks(parameters: Sequence[nn.Parameter], total: Tensor) -> None:
    """Add up the gradients, each already divided by the count of all ranks, in one flat message."""
    dist.all_reduce(total)
    gradients = [p.grad if p.grad is not None else p.new_zeros(p.shape) for p in parameters]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    for parameter, part in zip(parameters, flat.split([g.numel() for g in gradients]), strict=True):
        parameter.grad = part.view_as(parameter)
