"""Prompts continued side by side, a token of each at a time (chapter 4.3): one pass over them all, then cached steps.

    stream = TokenStream(model, model.transformer.start(capacity=..), [Prompt(ids, limit=50)], ends=[2])
    for step in stream:                  # [Said(row=0, token=17, logprob=-0.4, finish=None)], and so on
        ...

What is unusual: rows do not wait for one another. Prompts of different lengths stand side by side, each at its own
positions; several copies of a prompt share its one pass; a row that ends, or that the reader no longer wants (`stop`),
leaves the batch, and the step after it is that much cheaper. A row whose logits are no numbers ends alone.
What it does not know: text, and so strings to stop at.

Shapes: N prompts, R rows still going (at first n of each prompt), T tokens, D width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.generate.sampling import NOTHING, History, Sampler, choose
from regard.model import DecodeState, Learned, Model, TransformerConfig

Finish = Literal["stop", "length", "nonfinite"]
"""Why a row ended: by an end (or for want of any token that may be said), at its limit, or on logits that are NaN."""


@dataclass(frozen=True)
class Prompt:
    """Token ids, at least one, to be continued by at most `limit` tokens."""

    ids: Sequence[int]
    limit: int
    sampler: Sampler


@dataclass(frozen=True)
class Said:
    """What a row said in a step."""

    row: int
    """Copy k of prompt i is row i * n + k."""
    token: int | None
    """None: the row ended without one; an end is no token of its output."""
    logprob: float
    """log p of the token, or of the end, as the model says: natural logarithm, before bans, penalties and filters."""
    finish: Finish | None
    """Why this is the last of the row; None: it is not."""


def context(config: TransformerConfig) -> int | None:
    """How many tokens a decoder can look back on; None: any number, for it looks back by a window and forgets."""
    endless = config.window is not None and not isinstance(config.positions, Learned)
    return None if endless else config.max_len


class TokenStream:
    """Iterate over it, once, for lists of what each row still going says next.

    Args:
        model: in evaluation mode, with a language-model head.
        state: from `start`, nothing decoded yet, with a capacity of at least len(ids) + limit - 1 for each prompt.
        prompts: what to continue.
        n: copies of each.
        ends: token ids that end a row.
        banned: token ids that are never said.
    """

    def __init__(
        self,
        model: Model,
        state: DecodeState,
        prompts: Sequence[Prompt],
        *,
        n: int = 1,
        ends: Sequence[int] = (),
        banned: Sequence[int] = (),
    ) -> None:
        self.model, self.state, self.prompts, self.n, self.ends = model, state, list(prompts), n, frozenset(ends)
        self.banned = torch.tensor(sorted(banned), dtype=torch.long, device=model.device)
        self.rows = list(range(len(prompts) * n))
        self.left = [prompt.limit for prompt in prompts for _ in range(n)]
        self.samplers = [prompt.sampler for prompt in prompts for _ in range(n)]
        self.draws = [prompt.sampler.generator(k) for prompt in prompts for k in range(n)]
        self.history: History | None = None
        self.gone: set[int] = set()

    def __iter__(self) -> Iterator[list[Said]]:
        if silent := [Said(row, None, 0.0, "length") for row in self.rows if self.left[row] == 0]:
            self.gone.update(said.row for said in silent)
            yield silent
        hidden = self._begin() if len(self.gone) < len(self.rows) else None
        while hidden is not None:
            said, tokens = self._say(hidden)
            yield said
            hidden = self._go_on(tokens)

    def stop(self, row: int) -> None:
        """Nothing more is wanted of a row."""
        self.gone.add(row)

    @torch.no_grad()
    def _begin(self) -> Tensor:
        """Read the prompts; what is to be said next of, (R, D)."""
        device = self.model.device
        ids = pad_sequence([torch.tensor(prompt.ids) for prompt in self.prompts], batch_first=True).to(device)  # (N, T)
        lengths = torch.tensor([len(prompt.ids) for prompt in self.prompts], device=device)
        real = torch.arange(ids.size(1), device=device) < lengths[:, None]
        hidden = self.model.transformer.decode(ids, self.state, real=real)  # (N, T, D)
        hidden = hidden[torch.arange(len(ids), device=device), lengths - 1]  # (N, D)
        if any(prompt.sampler.remembers for prompt in self.prompts):
            given = [prompt.ids for prompt in self.prompts for _ in range(self.n)]
            self.history = History.of(given, self.model.config.target_vocab_size, device)
        copies = [i for i in range(len(ids)) for _ in range(self.n)]
        going = [row for row in self.rows if row not in self.gone]
        self._keep(going)
        kept = torch.tensor([copies[row] for row in going], device=device)
        if len(going) != len(ids) or self.n > 1:
            self.state.reorder(kept)
        return hidden[kept]

    def _say(self, hidden: Tensor) -> tuple[list[Said], Tensor]:
        """From (R, D): what each row says, and the tokens to go on with, (R,)."""
        with torch.no_grad():
            logits = self.model.logits(hidden)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # (R, V)
            may = logits.index_fill(1, self.banned, -torch.inf) if self.banned.numel() else logits
            draws = [
                float(torch.rand((), generator=own, dtype=torch.float64)) if sampler.temperature else 0.0
                for own, sampler in zip(self.draws, self.samplers, strict=True)
            ]
            tokens = choose(may, self.samplers, draws, self.history)
            log_p = logits.log_softmax(-1).gather(1, tokens.clamp(min=0)[:, None])[:, 0]
            sound = log_p.isfinite() | (tokens == NOTHING)  # beside a NaN or an infinity no token has a probability
        found = zip(self.rows, tokens.tolist(), log_p.tolist(), sound.tolist(), strict=True)
        said = [self._told(place, *one) for place, one in enumerate(found)]
        self.gone.update(one.row for one in said if one.finish)
        return said, tokens

    def _told(self, place: int, row: int, token: int, logprob: float, sound: bool) -> Said:
        if not sound:
            return Said(row, None, math.nan, "nonfinite")
        if token == NOTHING:
            return Said(row, None, -math.inf, "stop")
        if token in self.ends:
            return Said(row, None, logprob, "stop")
        self.left[place] -= 1
        return Said(row, token, logprob, None if self.left[place] else "length")

    @torch.no_grad()
    def _go_on(self, tokens: Tensor) -> Tensor | None:
        """Let those leave that have ended, and feed the others what they said, (R,) -> (R, D); None: all have left."""
        going = [place for place, row in enumerate(self.rows) if row not in self.gone]
        if not going:
            return None
        if self.history is not None:
            self.history.add(tokens.clamp(min=0))
        if len(going) < len(self.rows):
            kept = torch.tensor(going, device=tokens.device)
            tokens = tokens[kept]
            self._keep(going)
            self.state.reorder(kept)
        return self.model.transformer.decode(tokens[:, None], self.state)[:, -1]

    def _keep(self, places: list[int]) -> None:
        """Only the rows at these places go on."""
        if self.history is not None and len(places) < len(self.rows):
            self.history.keep(torch.tensor(places, device=self.model.device))
        self.rows, self.left = [self.rows[i] for i in places], [self.left[i] for i in places]
        self.samplers, self.draws = [self.samplers[i] for i in places], [self.draws[i] for i in places]
