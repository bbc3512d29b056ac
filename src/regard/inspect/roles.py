"""What each head of attention does, over a few sentences: its role, how sure that is, and what it is worth.

    previous self next offset    a fixed place beside the query          sink       control tokens and punctuation
    local                        two tokens to either side               uniform    everything alike
    duplicate                    the same token elsewhere                long-range far away
    induction                    what followed the same token before     mixed      none of these

    of cross-attention:  band (the diagonal)   source-end   rare (the rarest word)   copy (the token being written)

What is unusual: a label is given only where a head looks there beyond chance (`inspect.aims`): by three standard
deviations, which over many tokens is little, and by a quarter of what chance leaves. Of several the one that explains
most beyond chance is taken; everything else is mixed, as many heads are. Beside the label stands what the loss rises by
without the head, and the two need not agree.
What it does not know: pictures; grammar.

Shapes: L layers, H heads, N = L H, T queries, S keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.errors import ConfigError
from regard.inspect import aims
from regard.inspect.aims import Array, Tally
from regard.inspect.effects import has_probability, rise_without_heads
from regard.inspect.parts import Part, part_of, parts_of
from regard.inspect.scripts import Request, Script
from regard.inspect.sentences import LONGEST, Role, aims_of, repeated, short, weights_of
from regard.loaded import Loaded

EVEN = 0.9
"""Entropy / log n above which a head is uniform."""
SIGMAS, LEAST = 3, 0.25
"""How far beyond chance a role must be: standard deviations, and the share of what chance leaves."""
INDUCTION: Role = ("induction", None)
ANY: Role = ("", None)
"""No role: the greatest single weight."""


class Stopped(Exception):
    """Whoever asked for the roles wants them no more."""


@dataclass(frozen=True)
class Score:
    """How far a head looks where a role would: a share of its weights, beside chance and its standard deviation.

    "uniform" is measured otherwise: by entropy / log n, and the baseline is a fixed 0.9.
    """

    role: str
    offset: int | None
    score: float
    baseline: float
    sigma: float

    @property
    def holds(self) -> bool:
        """It is beyond chance, or above what is uniform."""
        least = 0.0 if self.role == "uniform" else LEAST * (1 - self.baseline)
        return self.lift > max(SIGMAS * self.sigma, least)

    @property
    def lift(self) -> float:
        """What it explains beyond chance."""
        return self.score - self.baseline


@dataclass(frozen=True)
class Example:
    """The row that shows a role best: a sentence by its number, a row and a key of it."""

    sentence: int
    row: int
    key: int


@dataclass(frozen=True)
class HeadRole:
    """A head.

    Attributes:
        role: one of the module's, or "mixed"; `offset` tells which fixed place "offset" looks at.
        score, baseline, sigma: of the role, or for "mixed" of the one that comes nearest.
        effect: nats a token (of a model that reads: a text) that the loss rises without the head; None for a model
            that says nothing with a probability.
        example: None where no row shows it: induction is found in random tokens.
        scores: of all roles, the best first.
    """

    part: str
    layer: int
    head: int
    role: str
    offset: int | None
    score: float
    baseline: float
    sigma: float
    effect: float | None
    example: Example | None
    scores: tuple[Score, ...]


def head_roles(
    loaded: Loaded,
    sentences: Sequence[Request],
    part: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[HeadRole]:
    """The role of every head, by part, layer and head.

    Args:
        sentences: to look at; a translator's best with their targets, else it writes them.
        part: of this part alone; None: of all.
        progress: is told how many of how many passes are done.
        stop: is asked before each; when it says yes, Stopped is raised.

    Raises:
        ConfigError: no sentence is short enough, or there is no such part.
        Stopped: see `stop`.
    """
    config, able = loaded.model.config, has_probability(loaded)
    parts = [part_of(config, part)] if part is not None else list(parts_of(config))
    ahead = _Ahead(len(sentences) * (1 + able * len(parts)), progress, stop)
    scripts = {i: script for i, one in ahead.each(sentences) if (script := short(loaded, one)) is not None}
    if not scripts:
        raise ConfigError("there is no sentence to look at", where="sentences", got=f"{len(sentences):,}, all longer",
                          expected=f"one of at most {LONGEST} tokens a side")  # fmt: skip
    tables = _looked_at(loaded, scripts, sentences, parts, ahead.ask)
    roles = list[HeadRole]()
    for table in tables:
        effects = np.zeros((table.part.layers, table.part.heads)) if able else None
        count = 0
        for i, one in ahead.each(sentences) if able else ():
            if i in scripts:
                rise, n = rise_without_heads(loaded, scripts[i], one.edits, table.part.name, ahead.ask)
                effects, count = effects + rise, count + n
        roles += table.roles(None if effects is None else effects / max(1, count))
    return roles


def _looked_at(
    loaded: Loaded, scripts: Mapping[int, Script], sentences: Sequence[Request], parts: Sequence[Part],
    ask: Callable[[], None],
) -> list[_Table]:  # fmt: skip
    """Where the heads of each part look, over all scripts, and over random tokens that repeat."""
    counts = Counter(index for script in scripts.values() for index in (script.source.ids if script.source else ()))
    tables = [_Table(part) for part in parts]
    for i, script in scripts.items():
        ask()
        for table, (weights, visible) in zip(tables, weights_of(loaded, script, sentences[i], parts), strict=True):
            table.add(weights, visible, aims_of(table.part, script, visible, counts), i)
    if within := [table for table in tables if table.part.name == "decoder.self"]:
        first = min(scripts)
        for script, place, period in repeated(loaded, scripts[first]):
            ask()
            ((weights, visible),) = weights_of(loaded, script, sentences[first], [within[0].part])
            within[0].count({INDUCTION: aims.after_the_last(len(visible), place, period)}, weights, visible)
    return tables


@dataclass
class _Table:
    """What is known of the heads of a part, N of them, as sequences are added."""

    part: Part
    tallies: dict[Role, Tally] = field(default_factory=dict)
    even: Array | float = 0.0
    rows: int = 0
    shown: dict[Role, tuple[Array, list[Example]]] = field(default_factory=dict)
    """Of each role, and of ANY, what each head's best row has beyond chance, and that row."""

    def add(self, weights: Array, visible: Array, chosen: Mapping[Role, Array], sentence: int) -> None:
        """A sentence's weights, (N, T, S)."""
        self.count(chosen, weights, visible)
        even, rows = aims.evenness(weights, visible)
        self.even, self.rows = self.even + even, self.rows + rows
        several = visible.sum(-1) > 1
        for role, aim in {**chosen, ANY: visible}.items():
            chance = (aim * visible).sum(-1) / np.maximum(1, visible.sum(-1))  # (T,)
            there = weights * aim * several[:, None]
            gain = there.max(-1) if role == ANY else there.sum(-1) - chance * several  # (N, T)
            row, best = gain.argmax(-1), gain.max(-1)
            key = there[np.arange(len(row)), row].argmax(-1)
            found = [Example(sentence, int(r), int(k)) for r, k in zip(row, key, strict=True)]
            before, known = self.shown.get(role, (np.full(len(row), -np.inf), found))
            pairs = zip(best > before, found, known, strict=True)
            self.shown[role] = np.maximum(best, before), [new if better else old for better, new, old in pairs]

    def count(self, chosen: Mapping[Role, Array], weights: Array, visible: Array) -> None:
        """What some roles' aims are given."""
        for role, aim in chosen.items():
            found = aims.tally(weights, visible, aim)
            self.tallies[role] = self.tallies[role] + found if role in self.tallies else found

    def roles(self, effects: Array | None) -> Iterator[HeadRole]:
        """The roles of all heads; `effects` (L, H)."""
        even = np.broadcast_to(self.even / max(1, self.rows), self.part.layers * self.part.heads)
        found = {role: own for role, own in self.tallies.items() if own.rows}
        for n in range(len(even)):
            scores = [Score(*role, float(own.score[n]), float(own.baseline[n]), float(own.sigma[n]))
                      for role, own in found.items()]  # fmt: skip
            scores.append(Score("uniform", None, float(even[n]), EVEN, 0.0))
            scores.sort(key=lambda score: (not score.holds, not score.holds or score.role != "uniform", -score.lift))
            yield self._labelled(n, scores, None if effects is None else float(effects.flat[n]))

    def _labelled(self, n: int, scores: Sequence[Score], effect: float | None) -> HeadRole:
        best, (layer, head) = scores[0], divmod(n, self.part.heads)
        role: Role = (best.role, best.offset) if best.holds else ("mixed", None)
        example = None if role == INDUCTION else self.shown.get(role, self.shown[ANY])[1][n]
        return HeadRole(self.part.name, layer, head, *role, best.score, best.baseline, best.sigma, effect, example,
                        tuple(scores))  # fmt: skip


class _Ahead:
    """How far the work is, and whether it is still wanted."""

    def __init__(self, of: int, progress: Callable[[int, int], None] | None, stop: Callable[[], bool] | None) -> None:
        self.of, self.progress, self.stop, self.done = of, progress, stop, 0

    def ask(self) -> None:
        """Raise Stopped where it is not."""
        if self.stop is not None and self.stop():
            raise Stopped

    def each(self, sentences: Sequence[Request]) -> Iterator[tuple[int, Request]]:
        """The sentences with their numbers; each counts as one pass when the next is asked for."""
        for i, one in enumerate(sentences):
            self.ask()
            yield i, one
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.of)
