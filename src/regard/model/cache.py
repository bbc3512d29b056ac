"""What a decoder carries from one step to the next: keys and values, and how long each row is.

What is unusual: a token's slot is its position. Each row writes at its own length, padding is never written, and so
nobody ever sees a padding side: rows of 3 and 9 tokens continue side by side as if each were alone.

    capacity 6, rows of 3 and 5 tokens          after one more token each
    slot   0 1 2 3 4 5   length                 slot   0 1 2 3 4 5   length
    row 0  A B C . . .   3                      row 0  A B C D . .   4
    row 1  F G H I J .   5                      row 1  F G H I J K   6

With a window the slots form a ring: slot = position mod (window + chunk), and the position that a slot holds follows
from the row's length alone. When hypotheses of a beam go on from one another (`branch`) nothing is copied: a table says
in whose row each of their slots lies. The state is an argument of `decode`, never stored on a module, so one model
serves many.
What it does not know: layers, attention, positions beyond their being integers.

Shapes: B batch, P rows of a cache (B until some leave), T queries of a step, S slots, K key/value heads, d head width.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard.model.masks import Mask

CHUNK = 64
"""How many tokens may follow at once on a window's ring; longer continuations are fed in pieces of this size."""


@dataclass
class KVCache:
    """Keys and values of one self-attention layer, (P, K, slots, d), allocated at the first write."""

    slots: int
    k: Tensor | None = None
    v: Tensor | None = None

    def write(self, k: Tensor, v: Tensor, step: Step) -> None:
        """Put this step's k, v (B, K, T, d) into their slots."""
        if self.k is None or self.v is None:
            shape = (k.size(0), k.size(1), self.slots, k.size(3))
            self.k, self.v = k.new_zeros(shape), v.new_zeros(shape)
        if isinstance(step.target, int):
            slots, homes = (
                slice(step.target, step.target + k.size(2)),
                slice(None) if step.homes is None else step.homes,
            )
            self.k[homes, :, slots], self.v[homes, :, slots] = k, v
        elif step.target is not None:
            rows, places, columns = step.target
            homes = rows if step.homes is None else step.homes[rows]
            self.k[homes, :, places], self.v[homes, :, places] = k[rows, :, columns], v[rows, :, columns]

    def read(self, slots: int) -> tuple[Tensor, Tensor]:
        """The first `slots` slots of keys and values, as views."""
        assert self.k is not None and self.v is not None
        return self.k[:, :, :slots], self.v[:, :, :slots]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where the tokens of one call stand, and where their keys go."""

    pos: Tensor
    """(B|1, T) the position of each token; padding stands at 0."""
    mask: Mask
    target: tuple[Tensor, Tensor, Tensor] | int | None = None
    """The slots to write: all from this one on, the same for every row; or (rows, slots, columns) token by token."""
    slots: int | None = None
    """How many slots to read; None: attend to this step's own keys and values alone."""
    homes: Tensor | None = None
    """(B,) the cache's row that each row writes to; None: its own."""
    lies: Tensor | None = None
    """(B, slots) the cache's row in which each slot of a row lies; None: its own."""

    def keep(self, cache: KVCache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write k, v (B, K, T, d) where they belong and return the keys and values to attend to, (P, K, S, d)."""
        if cache is not None:
            cache.write(k, v, self)
        return (k, v) if cache is None or self.slots is None else cache.read(self.slots)


@dataclass
class DecodeState:
    """Everything a decoder carries between two steps. Made by `Transformer.start`; give it to one sequence of calls."""

    caches: list[KVCache] = field(default_factory=list)
    """One a layer; empty: nothing is kept, and the state is good for a single pass (training, scoring)."""
    memory: list[tuple[Tensor, Tensor]] | None = None
    """Cross-attention's keys and values, (B, K, S, d) a layer, projected once."""
    memory_real: Tensor | None = None
    """(B, S) False where the source is padding."""
    window: int | None = None
    length: Tensor | None = None
    """(B,) tokens that each row has; None before the first step."""
    longest: int = 0
    """The length of the longest row."""
    even: bool = True
    """All rows have the same length, so one range of slots serves them all."""
    homes: Tensor | None = None
    """(B,) the caches' row that each row writes to, once some have branched; no two share one."""
    lies: Tensor | None = None
    """(B, slots) the caches' row in which each slot of a row lies, once some have branched."""
    order: Tensor | None = None
    """(1, slots) counting from 0, made once."""

    @property
    def slots(self) -> int:
        """Slots of each cache."""
        return self.caches[0].slots

    def memory_mask(self) -> Mask | None:
        """What every decoder token sees of the source: all that is real, whatever its own position."""
        if self.memory is None:
            return None
        k = self.memory[0][0]
        order = torch.arange(k.size(2), device=k.device)[None]
        return Mask(q_pos=order[:, :1], k_pos=order, real=self.memory_real)

    def advance(
        self, ids: Tensor, real: Tensor | None = None, pos: Tensor | None = None, documents: Tensor | None = None
    ) -> Step:
        """Place the tokens ids (B, T) after those already there and count them. See `Transformer.decode`."""
        if real is not None and bool(real.all()):
            real = None
        if pos is not None or documents is not None or not self.caches:
            return self._single_pass(ids, real, pos, documents)
        step = self._next(ids, real)
        return step if self.lies is None else self._branched(step, ids.size(1))

    def _next(self, ids: Tensor, real: Tensor | None) -> Step:
        """Where tokens stand that are kept."""
        batch, width = ids.shape
        before = self.length if self.length is not None else torch.zeros(batch, dtype=torch.long, device=ids.device)
        columns = torch.arange(width, device=ids.device)[None]
        grown = width if real is None else real.sum(-1)
        first, was_even, self.length = self.longest == 0, self.even, before + grown
        self.even = was_even and (real is None or bool((self.length == self.length[0]).all()))
        self.longest = self.longest + width if real is None else int(self.length.max())
        if self.window is None and self.longest > self.slots:
            raise ValueError(f"the cache holds {self.slots} tokens a row, and a row would have {self.longest}")
        if real is None and was_even:
            start = self.longest - width
            return self._even_step(start, start + columns, first)
        pos = before[:, None] + columns  # (B, T)
        real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        kept = real & (pos >= self.length[:, None] - self.slots)
        rows, places = kept.nonzero(as_tuple=True)
        target = (rows, pos[rows, places] % self.slots, places)
        pos = pos.masked_fill(~real, 0)  # a pad's position may lie beyond the last; it is never written or believed
        if first:
            order = columns.expand(batch, -1)
            mask = Mask(q_pos=order, k_pos=order, causal=True, window=self.window, aligned=True)
            return Step(pos=pos, mask=mask, target=target)
        mask = Mask(q_pos=pos, k_pos=self._held(), causal=True, window=self.window, holes=self.window is not None)
        return Step(pos=pos, mask=mask, target=target, slots=mask.k_pos.size(1))

    def _single_pass(self, ids: Tensor, real: Tensor | None, pos: Tensor | None, documents: Tensor | None) -> Step:
        if self.longest:
            raise ValueError("this state keeps nothing: it is good for one pass; ask start for a capacity")
        self.longest = ids.size(1)
        order = torch.arange(ids.size(1), device=ids.device)[None]
        together = None if documents is None else (documents, documents)
        if pos is not None and documents is None:  # the caller's own positions: their order decides, wherever they are
            mask = Mask(q_pos=pos, k_pos=pos, causal=True, window=self.window, real=real)
            return Step(pos=pos, mask=mask)
        # Pads on the right come after every real token, so a causal mask hides them already (decision 4).
        mask = Mask(q_pos=order, k_pos=order, causal=True, window=self.window, documents=together, aligned=True)
        return Step(pos=order if pos is None else pos, mask=mask)

    def _even_step(self, start: int, pos: Tensor, first: bool) -> Step:
        """All rows stand at the same position: whole slices are written, and a single query needs no mask."""
        width, slot = pos.size(1), start % self.slots
        if first:
            mask = Mask(q_pos=pos, k_pos=pos, causal=True, window=self.window, aligned=True)
            if width <= self.slots:
                return Step(pos=pos, mask=mask, target=0)
        else:
            k_pos = self._held()[:1]
            seen = width == 1 and (self.window is None or self.longest <= self.window)
            hidden = None if seen else self.window
            mask = Mask(q_pos=pos, k_pos=k_pos, causal=not seen, window=hidden, holes=hidden is not None)
            if slot + width <= self.slots:
                return Step(pos=pos, mask=mask, target=slot, slots=k_pos.size(1))
        assert self.length is not None
        kept = torch.arange(max(0, width - self.slots), width, device=pos.device)
        rows = torch.arange(self.length.size(0), device=pos.device).repeat_interleave(len(kept))
        kept = kept.repeat(self.length.size(0))
        target = (rows, (start + kept) % self.slots, kept)
        return Step(pos=pos, mask=mask, target=target, slots=None if first else mask.k_pos.size(1))

    def _branched(self, step: Step, width: int) -> Step:
        """The same step for rows that have branched: what they write lies in rows of their own."""
        assert self.lies is not None and self.homes is not None
        if isinstance(step.target, int):
            self.lies[:, step.target : step.target + width] = self.homes[:, None]
        elif step.target is not None:
            rows, places, _ = step.target
            self.lies[rows, places] = self.homes[rows]
        return replace(step, homes=self.homes, lies=None if step.slots is None else self.lies[:, : step.slots])

    def _held(self) -> Tensor:
        """The position that each slot holds, (B|1, S): the last p < length with p = slot mod slots; below 0: none yet.

        Without a window it is the slot's own number: those that a row has not reached come after its query.
        """
        assert self.length is not None
        if self.order is None:
            self.order = torch.arange(self.slots, device=self.length.device)[None]
        slot = self.order[:, : self.longest]
        if self.window is None:
            return slot
        last = self.length[:, None] - 1
        return last - (last - slot) % self.slots

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep these rows, in this order, and nothing of the others (copies of a prompt, finished rows leaving).

        Args:
            rows: (B',) which rows of the decoder go on.
            sources: (sources',) which sources go on, when several rows share one; None: those of `rows`, or all of them
                when rows outnumber sources.
        """
        assert self.lies is None, "a state whose rows have branched cannot be reordered"
        for cache in self.caches:
            if cache.k is not None and cache.v is not None:
                cache.k, cache.v = cache.k.index_select(0, rows), cache.v.index_select(0, rows)
        self._follow(rows, sources)

    def branch(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Let the hypotheses of each source go on from these of its rows, several perhaps from one (beam search).

        Keys and values stay where they are: to copy them would take as long as all the rest of a step. What a source
        that does not go on had is kept until the end.

        Args:
            rows: (B',) which row each hypothesis goes on from, one of its own source's; as many for each source.
            sources: (sources',) which sources go on; None: all.
        """
        assert self.length is not None
        if self.lies is None:
            self.homes = torch.arange(len(self.length), device=rows.device)
            self.lies = self.homes[:, None].repeat(1, self.slots)
        assert self.homes is not None
        if sources is not None:
            self.homes = self.homes.view(-1, len(rows) // max(1, len(sources)))[sources].flatten()
        self.lies = self.lies.index_select(0, rows)
        self._follow(rows, sources)

    def _follow(self, rows: Tensor, sources: Tensor | None) -> None:
        """Sources and lengths after those rows."""
        if self.memory is not None:
            shared = self.length is not None and self.memory[0][0].size(0) != self.length.size(0)
            sources = rows if sources is None and not shared else sources
            if sources is not None:
                self.memory = [(k.index_select(0, sources), v.index_select(0, sources)) for k, v in self.memory]
                self.memory_real = None if self.memory_real is None else self.memory_real.index_select(0, sources)
        if self.length is not None:
            self.length = self.length.index_select(0, rows)
            self.longest = int(self.length.max()) if rows.numel() else 0

    def truncate(self, length: int | Tensor) -> None:
        """Forget all tokens from position `length` (a number, or (B,)) on; on a window's ring at most CHUNK."""
        if self.length is None:
            return
        kept = torch.minimum(self.length, torch.as_tensor(length, device=self.length.device))
        if self.window is not None and int((self.length - kept).max()) > CHUNK:
            raise ValueError(f"a window's ring can forget at most {CHUNK} tokens")
        self.length, self.longest = kept, int(kept.max())
        self.even = bool((kept == kept[0]).all())
