"""Who may look at whom, as a description (chapter 2.8).

What is unusual: a mask is not a tensor. It says causal, window, real, document, and the positions these words are
about; it becomes booleans only where a kernel needs them, for one block of queries and the keys that block can reach.
One rule serves training, prefill and cached steps: a key is visible when  k_pos <= q_pos  (causal),
q_pos - k_pos < window,  it is real (not padding),  and it stands in the query's document.
What it does not know: scores, kernels, caches.

    causal          window 2        real [1 1 1 0]   documents [0 0 1 1], causal
    1 . . .         1 . . .         1 1 1 .          1 . . .
    1 1 . .         1 1 . .         1 1 1 .          1 1 . .
    1 1 1 .         . 1 1 .         1 1 1 .          . . 1 .
    1 1 1 1         . . 1 1         1 1 1 .          . . 1 1

Shapes: B batch, T queries, S keys. True = may look.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Mask:
    """Which keys each query may see. `q_pos` (B|1, T) and `k_pos` (B|1, S) are positions; a slot below 0 is empty."""

    q_pos: Tensor
    k_pos: Tensor
    causal: bool = False
    """A query sees no key after it."""
    window: int | None = None
    """A query sees itself and the window - 1 keys before it."""
    real: Tensor | None = None
    """(B, S) False where the key is padding; None: no key is."""
    documents: tuple[Tensor, Tensor] | None = None
    """(B, T) and (B, S): the document that each query and each key stands in; None: all in one."""
    aligned: bool = False
    """T == S, query i and key i are the same token, and tokens stand in their order: then an index is as good as a
    position, the kernel's own causal flag means the same thing, and a window's block of queries can skip far keys."""
    holes: bool = False
    """Some slots of `k_pos` may be empty (a cache whose rows have different lengths)."""

    @property
    def limited(self) -> int | None:
        """The window, unless it is at least as wide as all the keys."""
        return self.window if self.window is not None and self.window < self.k_pos.size(-1) else None

    @property
    def kernel_causal(self) -> bool:
        """The kernel's own causal flag says all there is to say. Never when T != S (pytorch #108108, #144858)."""
        return self.causal and self.aligned and self.limited is None and self.real is None and self.documents is None

    @property
    def same_for_all_queries(self) -> bool:
        """Every query of a row sees the same keys, so one line (B, 1, 1, S) says it."""
        return not self.causal and self.limited is None and self.documents is None

    @property
    def may_hide_all(self) -> bool:
        """Some query may see no key at all; its output is then zero, not NaN."""
        return self.real is not None or self.holes or not self.aligned

    def reach(self, rows: slice) -> slice:
        """The columns that this block of queries can see at all; with a window, a band beside the diagonal."""
        if not (self.causal and self.aligned):
            return slice(0, self.k_pos.size(-1))
        first = 0 if self.limited is None else max(0, rows.start - self.limited + 1)
        return slice(first, rows.stop)

    def draw(self, rows: slice, columns: slice) -> Tensor | None:
        """The booleans for these queries and keys, (B|1, 1, rows|1, columns); None when all is visible."""
        if self.same_for_all_queries and self.real is None and not self.holes:
            return None  # a step of decoding asks for it in every layer
        q_pos, k_pos = self.q_pos[:, rows, None], self.k_pos[:, None, columns]
        parts: list[Tensor] = []
        if self.causal:
            parts.append(k_pos <= q_pos)
        if self.limited is not None:
            parts.append(q_pos - k_pos < self.limited)
        if self.holes:
            parts.append(k_pos >= 0)
        if self.real is not None:
            parts.append(self.real[:, None, columns])
        if self.documents is not None:
            ours, theirs = self.documents
            parts.append(ours[:, rows, None] == theirs[:, None, columns])
        if not parts:
            return None
        visible = parts[0]
        for part in parts[1:]:
            visible = visible & part
        return visible[:, None]  # (B|1, 1, rows|1, columns)
