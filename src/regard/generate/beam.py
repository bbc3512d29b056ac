"""Beam search over anything that can start, decode and be reordered; with a beam of 1 it is greedy decoding.

The score of a hypothesis is defined once, here (laws, 26):

    score(y) = sum_t log p(y_t | y_<t, x)  /  length ** alpha        length = generated tokens, </s> included

What is unusual: the search of a source ends only when no living hypothesis can still beat its finished ones, even if
every further token had probability 1, so ending early never changes the result. (To end with the W-th finished one, as
is usual, would let a confident model's unlikely short outputs, which nothing else crowds out of the W best, shut out
its likely long one.) A beam of 1 has nothing to compare and ends with its first end. Hypotheses of one source share its
memory (they are more queries of it), and sources that are done leave the batch. A source with phrases to hold keeps
more hypotheses than the beam, and its ends compete among those that hold all (`generate.constraints`).
What it does not know: text, tasks, files.

Shapes: N sources, W hypotheses of each (the beam, or more for constraints), V vocabulary, t tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.generate.constraints import Constraint, Tracks
from regard.model import DecodeState, Model


@dataclass(frozen=True)
class Hypothesis:
    """One output: its token ids without control tokens, what they scored, and whether it ended by itself."""

    ids: tuple[int, ...]
    score: float
    """log p / length ** alpha."""
    logprob: float
    """log p(y | x), natural logarithm, the end included when it is finished."""
    finished: bool
    """False: it was cut at its greatest length."""
    met: tuple[tuple[int, int, int], ...] = ()
    """Where the phrases of its constraint stand: (phrase, first token, token after its last)."""

    @property
    def length(self) -> int:
        """Generated tokens, </s> included."""
        return len(self.ids) + self.finished


@torch.no_grad()
def beam_search(
    model: Model,
    state: DecodeState,
    first: Tensor,
    *,
    ends: Sequence[int],
    limits: Tensor,
    beam: int = 4,
    n_best: int = 1,
    alpha: float = 1.0,
    banned: tuple[int, ...] = (),
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """The n best continuations of each source, best first.

    Args:
        model: in eval mode.
        state: from `start`, nothing decoded yet, with a capacity of at least max(limits) + k - 1.
        first: (N, k) the tokens each row begins with; they are no part of the output, nor of its score.
        ends: token ids that end an output. Of several the likeliest is its end.
        limits: (N,) the most tokens each may have, </s> included; at least 1.
        beam: hypotheses kept.  n_best: how many to return, at most `beam`.
        alpha: 0 compares plain log-probabilities and so favours short outputs, 1 compares means.
        banned: token ids that are never generated (padding, <s>).
        constraints: N, what each source's outputs must keep to; none for no source. All outputs do, if `limits` leave
            each its `Constraint.least` tokens.
    """
    search = _Search(
        limits, beam=beam, keep=min(n_best, beam), eos_id=ends[0], alpha=alpha, constraints=constraints
    )  # fmt: skip
    tokens = first.repeat_interleave(search.width, 0)  # (N * W, k)
    while True:
        hidden = model.transformer.decode(tokens, state)[:, -1]  # (N * W, D)
        logits = model.logits(hidden)
        # Cast first: on a CPU, log_softmax of bfloat16 into float32 takes three times as long as the two by themselves.
        log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        log_p = log_p.view(search.n, search.width, -1)  # (N, W, V)
        if banned:
            log_p[..., list(banned)] = -torch.inf
        if len(ends) > 1:
            likeliest = log_p[..., list(ends)].amax(-1)
            log_p[..., list(ends)] = -torch.inf
            log_p[..., ends[0]] = likeliest
        rows, tokens = search.advance(log_p)
        going = search.leave()
        if not len(going):
            return search.results()
        left = len(going) < len(rows)
        rows, tokens = (rows[going], tokens[going]) if left else (rows, tokens)
        if search.width > 1:
            state.branch(rows.flatten(), going if left else None)
        elif left:
            state.reorder(rows.flatten(), going)
        tokens = tokens.flatten()[:, None]


class _Search:
    """The hypotheses of all sources still searching: living ones as tensors, finished ones as sorted lists."""

    def __init__(
        self, limits: Tensor, *, beam: int, keep: int, eos_id: int, alpha: float, constraints: Sequence[Constraint] = ()
    ) -> None:
        self.beam, self.keep, self.eos_id, self.alpha, self.t = beam, keep, eos_id, alpha, 0
        self.n, device = len(limits), limits.device
        self.limits = limits
        # A beam of 1 takes its first end, but the first to hold all phrases held them early, not well.
        self.greedy = [beam == 1 and not (constraints and constraints[row].phrases) for row in range(self.n)]
        self.source = list(range(self.n))  # which input each searching row belongs to
        self.width = max([beam, *(constraint.width(beam) for constraint in constraints)])
        self.tracks = Tracks(constraints, self.width) if constraints else None
        self.total = torch.full((self.n, self.width), -torch.inf, device=device)
        self.total[:, 0] = 0  # at the start all W rows of a source are the same hypothesis
        self.ids = torch.empty(self.n, self.width, 0, dtype=torch.long, device=device)
        self.done: list[list[Hypothesis]] = [[] for _ in range(self.n)]

    def advance(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """Extend by one token. Returns the state rows to go on from and their new tokens, (N, W) each."""
        if self.tracks:
            self.tracks.restrict(log_p, self.total, (self.limits - self.t).tolist(), self.eos_id)
        self.t += 1
        before, vocabulary = self.total[..., None], log_p.size(-1)
        # Of one hypothesis at most its W best tokens go on, and the end may be one more of its best.
        best, tokens = greatest(log_p, min(self.width + 1, vocabulary))  # (N, W, k)
        totals, ending = before + best, self.total + log_p[..., self.eos_id]
        # An end must be among the best of all continuations; else a wide beam would prefer to say nothing. Hypotheses
        # that cannot end yet have no part in that: what they have still to say would cost them more.
        rivals = totals if self.tracks is None else totals.masked_fill(self.tracks.unmet(totals)[..., None], -torch.inf)
        least = rivals.flatten(1).topk(min(self.beam, totals[0].numel())).values[:, -1:]
        self._finish((ending >= least) & (ending > -torch.inf), ending)
        self.total, places = totals.masked_fill(tokens == self.eos_id, -torch.inf).flatten(1).topk(self.width)  # (N, W)
        parents, tokens = places // best.size(-1), tokens.flatten(1).gather(1, places)
        if self.tracks:
            everything = before + log_p
            everything[..., self.eos_id] = -torch.inf
            places = parents * vocabulary + tokens
            self.total, places = self.tracks.advance(everything, self.total, places, self.beam)
            parents, tokens = places // vocabulary, places % vocabulary
        self.ids = torch.cat([self.ids.gather(1, parents[..., None].expand_as(self.ids)), tokens[..., None]], -1)
        rows = torch.arange(self.n, device=parents.device)[:, None] * self.width + parents
        return rows, tokens

    def _finish(self, ends: Tensor, ending: Tensor) -> None:
        for row, w in ends.nonzero().tolist():
            self._add(row, w, float(ending[row, w]), self.ids[row, w].tolist(), finished=True)

    def _add(self, row: int, w: int, logprob: float, ids: list[int], *, finished: bool) -> None:
        met = self.tracks.progress[row][w].met if self.tracks else ()
        found = Hypothesis(tuple(ids), logprob / (len(ids) + finished) ** self.alpha, logprob, finished, met)
        mine = self.done[self.source[row]]
        mine.append(found)
        mine.sort(key=lambda hypothesis: -hypothesis.score)
        del mine[self.keep :]

    def leave(self) -> Tensor:
        """Drop the sources whose result is settled; returns the places of those that go on, (N',)."""
        at_limit = (self.t >= self.limits).tolist()
        living, limits = self.total[:, 0].tolist(), self.limits.tolist()
        going = []
        for row in range(self.n):
            mine = self.done[self.source[row]]
            # log p only falls, and at best nothing is added up to the greatest length.
            attainable = living[row] / max(self.t, limits[row]) ** self.alpha
            settled = len(mine) == self.keep and (self.greedy[row] or mine[-1].score >= attainable)
            if at_limit[row] and not settled:
                for w in range(self.width):
                    if self.total[row, w] > -torch.inf:
                        self._add(row, w, float(self.total[row, w]), self.ids[row, w].tolist(), finished=False)
            if not settled and not at_limit[row] and living[row] > -torch.inf:
                going.append(row)
        kept = torch.tensor(going, dtype=torch.long, device=self.total.device)
        if len(going) < self.n:
            self.source = [self.source[row] for row in going]
            self.greedy = [self.greedy[row] for row in going]
            if self.tracks:
                self.tracks.keep(going)
            self.n, self.total, self.ids, self.limits = len(going), self.total[kept], self.ids[kept], self.limits[kept]
        return kept

    def results(self) -> list[list[Hypothesis]]:
        """What was found for each source, in the order of the input."""
        return self.done


RUN = 64
"""Elements that `greatest` looks at together."""


def greatest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k greatest of the last axis and their places, as `topk` gives them.

    On a CPU `topk` of a whole vocabulary takes ten times as long as a pass for maxima (112 x 32,000: 10 ms and 1). The
    k greatest are in the k runs with the greatest maxima, or in what is left over after the last run.
    """
    runs = x.size(-1) // RUN
    if runs <= k:
        return x.topk(k)
    split = x[..., : runs * RUN].unflatten(-1, (runs, RUN))
    chosen = split.amax(-1).topk(k).indices[..., None]  # (.., k, 1)
    within = torch.arange(RUN, device=x.device)
    left = torch.arange(runs * RUN, x.size(-1), device=x.device).expand(*x.shape[:-1], -1)
    places = torch.cat([(chosen * RUN + within).flatten(-2), left], -1)
    values, found = x.gather(-1, places).topk(k)
    return values, places.gather(-1, found)
