"""Where in a text an answer begins and ends (chapter 4.2; Devlin et al. 2019): loss, and the likeliest spans.

For each token a model says how likely the answer begins there, and how likely it ends there; the first token stands for
"not here". In training a window that holds the whole answer points at it, every other one at the first token.

    p(i, j) = p_begin(i) p_end(j),  i <= j,  at most `longest` tokens;      p(not here) = p_begin(0) p_end(0)

What is unusual: all spans of a window are looked at, not some of the best beginnings and ends; and the tokens of the
question, of the template and of padding have no probability at all, in training as in use.
What it does not know: texts, and how the windows of one text are put together (`extractive_qa`).

Shapes: B windows, T tokens, D d_model, L the most tokens of an answer, K candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model import Model
from regard.tasks.groups import alike, tokens_together
from regard.tasks.reading import encode
from regard.tasks.windows import Window, window_tensors


@dataclass(frozen=True)
class WindowBatch:
    """B windows with their answers' places.

    Attributes:
        ids, types: (B, T).  real: (B, T) False at padding.
        places: (B, T) bool, where an answer may begin or end, and the first token.
        targets: (B, 2) where it begins and ends.
    """

    ids: Tensor
    real: Tensor
    types: Tensor
    places: Tensor
    targets: Tensor

    @classmethod
    def of(cls, windows: Sequence[Window], pad_id: int, multiple: int = 1) -> WindowBatch:
        """Some windows, padded on the right; none too."""
        targets = torch.tensor([window.target for window in windows], dtype=torch.int64).reshape(-1, 2)
        return cls(*window_tensors(windows, pad_id, multiple), targets)

    @property
    def count(self) -> int:
        """Windows: each has one loss."""
        return len(self.ids)

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return self.ids, self.real, self.types, self.places, self.targets

    def to(self, device: torch.device | str) -> WindowBatch:
        """The same batch on another device."""
        return WindowBatch(*(tensor.to(device) for tensor in self._tensors))

    def split(self, n: int) -> list[WindowBatch]:
        """At most `n` micro-batches of contiguous rows, together this batch."""
        n = max(1, min(n, self.count))
        parts = (tensor.tensor_split(n) for tensor in self._tensors)
        return [WindowBatch(*part) for part in zip(*parts, strict=True)]


@dataclass(frozen=True)
class ExtractiveQATask:
    """Cross entropy of where answers begin and end."""

    def hidden(self, model: Model, batch: WindowBatch) -> Tensor:
        """What the encoder makes of the windows, (B, T, D)."""
        return encode(model, batch.ids, batch.real, batch.types)

    def loss(self, model: Model, hidden: Tensor, batch: WindowBatch) -> Tensor:
        """Sum over the windows of the mean of both cross entropies."""
        return F.cross_entropy(_logits(model, hidden, batch), batch.targets, reduction="sum") / 2


def _logits(model: Model, hidden: Tensor, batch: WindowBatch) -> Tensor:
    """(B, T, 2) in float32 or wider; minus infinity where no answer can begin or end."""
    logits = model.head(hidden)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).masked_fill(~batch.places[..., None], -math.inf)


def read_windows(model: Model, windows: Sequence[Window], pad_id: int) -> Iterator[tuple[list[int], Tensor]]:
    """(the numbers of some windows, their log-probabilities (B, T, 2) on the CPU), until all were read.

    The caller sees to evaluation mode, and to there being no gradients.
    """
    task = ExtractiveQATask()
    for rows in alike([len(window) for window in windows], tokens_together(model.device)):
        batch = WindowBatch.of([windows[i] for i in rows], pad_id).to(model.device)
        logits = _logits(model, task.hidden(model, batch), batch)
        yield rows, logits.log_softmax(1).cpu()


def best_spans(log_p: Tensor, longest: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The likeliest spans of each window, best first: log p, first and last place, each (B, K), K <= count.

    A span has 1 to `longest` tokens. Its log p is minus infinity where a window has fewer spans than were asked for.
    """
    begin, end = log_p.clone().unbind(-1)  # (B, T)
    begin[:, 0] = -math.inf  # which stands for no answer
    ends = F.pad(end, (0, longest - 1), value=-math.inf).unfold(1, longest, 1)  # (B, T, L)
    both = (begin[..., None] + ends).flatten(1)  # (B, T L)
    best = both.topk(min(count, both.size(1)))
    first = best.indices // longest
    return best.values, first, first + best.indices % longest
