"""Changes to a model while it runs, to see what each piece of the chapter is for: as values, and carried out.

    with edited(model, [HeadOff("decoder.cross", 0, 3), Unmasked()]):
        model.transformer.decode(ids, model.transformer.start(memory))         # says what it would say without

    HeadOff      z of one head becomes 0: the head is missing from W_O's sum                     (2.5)
    EdgeOff      one query does not see one key; the rest of its weights is renormalised         (2.3)
    Unscaled     scores are q k, without 1/sqrt(d_k)                                             (2.3)
    Unmasked     a decoder's query sees the tokens after it                                      (2.8)
    NoPositions  nothing says where a token stands, whatever the scheme                          (2.6)
    NoResidual   a sublayer's result is put in the place of X, not added to it: f(X) for X + f(X)  (2.7)

What is unusual: nothing in the model is touched. An edit is a few functions at the places that the model offers to
`watch`, so it holds in this thread alone, for as long as the block, and for any number of edits together. They are
written for passes over whole sequences: rows and columns are tokens, and a query or a key that is not there is let be.
What it does not know: texts, tasks.

Shapes: B batch, T queries, S keys, H heads, K key/value heads, d head width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.inspect.parts import check, part_of, parts_of
from regard.model import HIDDEN_BELOW, Alibi, Learned, Model, Relative, Rope, Seen, Sinusoidal, TransformerConfig, watch

Door = tuple[str, Callable[[Tensor], Tensor]]
"""A place, and what is made of the tensor that passes it."""


@dataclass(frozen=True)
class HeadOff:
    """One head's z is 0."""

    kind: ClassVar[str] = "head"
    order: ClassVar[int] = 3
    part: str
    layer: int
    head: int

    def check(self, config: TransformerConfig) -> None:
        """Raise ConfigError where the model has no such head."""
        part = part_of(config, self.part)
        part.at(self.layer)
        check("head", self.head, part.heads, f"counted from 0 ({part.name})")

    def doors(self, config: TransformerConfig) -> Iterator[Door]:
        """Where it acts, and how."""

        def off(z: Tensor) -> Tensor:  # (B, H, T, d)
            return z.index_fill(1, torch.tensor([self.head], device=z.device), 0)

        yield f"{part_of(config, self.part).at(self.layer)}.z", off


@dataclass(frozen=True)
class EdgeOff:
    """One query does not see one key, in one head or (None) in all of a layer."""

    kind: ClassVar[str] = "edge"
    order: ClassVar[int] = 2
    part: str
    layer: int
    head: int | None
    query: int
    key: int

    def check(self, config: TransformerConfig) -> None:
        """Raise ConfigError where the model has no such head, or a number is negative."""
        HeadOff(self.part, self.layer, self.head or 0).check(config)
        for name, number in (("query", self.query), ("key", self.key)):
            if number < 0:
                raise ConfigError("tokens are counted from 0", where=name, got=number)

    def doors(self, config: TransformerConfig) -> Iterator[Door]:
        """Where it acts, and how."""
        heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
        row, column = slice(self.query, self.query + 1), slice(self.key, self.key + 1)

        def off(scores: Tensor) -> Tensor:  # (B, H, T, S)
            scores = scores.clone()
            scores[:, heads, row, column] = -torch.inf
            return scores

        yield from unseen(part_of(config, self.part).at(self.layer), off)


@dataclass(frozen=True)
class Unscaled:
    """Scores are products of queries and keys as they are, in all attention."""

    kind: ClassVar[str] = "unscaled"
    order: ClassVar[int] = 1

    def check(self, config: TransformerConfig) -> None:
        """Every model has scores."""

    def doors(self, config: TransformerConfig) -> Iterator[Door]:
        """Where it acts, and how."""
        for site in _sites(config):
            yield from _rescored(site, 1.0, lambda scores: scores >= HIDDEN_BELOW)


@dataclass(frozen=True)
class Unmasked:
    """The decoder's tokens see those after them; a window too is opened."""

    kind: ClassVar[str] = "unmasked"
    order: ClassVar[int] = 0

    def check(self, config: TransformerConfig) -> None:
        """Raise ConfigError for a model without a decoder: an encoder hides nothing."""
        if not config.n_decoder_layers:
            raise ConfigError("an encoder has no mask to take away", where="unmasked", expected="a decoder")

    def doors(self, config: TransformerConfig) -> Iterator[Door]:
        """Where it acts, and how."""
        for site in _sites(config, "decoder.self"):
            yield from _rescored(site, config.scale, lambda scores: scores < HIDDEN_BELOW)


@dataclass(frozen=True)
class NoPositions:
    """Embeddings without positions, queries and keys not turned, scores without a bias; a mask still tells the past."""

    kind: ClassVar[str] = "no-positions"
    order: ClassVar[int] = -1

    def check(self, config: TransformerConfig) -> None:
        """A model without positions is left as it is."""

    def doors(self, config: TransformerConfig) -> Iterator[Door]:
        """Where it acts, and how."""
        for stack in dict.fromkeys(part.stack for part in parts_of(config)):
            if isinstance(config.positions, Sinusoidal | Learned):
                yield from _unchanged(f"{stack}.embed", f"{stack}.positions")
            elif isinstance(config.positions, Rope):
                yield f"{stack}.positions.angles", torch.zeros_like
        if isinstance(config.positions, Alibi | Relative):
            for site in _sites(config, "encoder.self", "decoder.self"):
                yield f"{site}.bias", torch.zeros_like


@dataclass(frozen=True)
class NoResidual:
    """One sublayer goes without its residual connection: LayerNorm(f(X)), or f(LayerNorm(X)).

    Where two sublayers stand side by side there is but one connection, and naming either takes it away.
    """

    kind: ClassVar[str] = "no-residual"
    order: ClassVar[int] = 3
    layer: int
    stack: Literal["encoder", "decoder"]
    sublayer: Literal["self_attn", "cross_attn", "ffn"]

    def check(self, config: TransformerConfig) -> None:
        """Raise ConfigError where the model has no such sublayer."""
        name = "self" if self.sublayer == "ffn" else self.sublayer.removesuffix("_attn")
        part_of(config, f"{self.stack}.{name}").at(self.layer)

    def doors(self, config: TransformerConfig) -> Iterator[Door]:
        """Where it acts, and how."""
        layer = f"{self.stack}.layers.{self.layer}"
        if config.norm_order == "parallel":
            yield from _without(f"{layer}.resid_in", f"{layer}.resid_out")
        elif config.norm_order == "post":
            yield from _unchanged(f"{layer}.{self.sublayer}.out", f"{layer}.{self.sublayer}_norm.in")
        else:
            crosses = self.stack == "decoder" and config.n_encoder_layers > 0
            after = {"self_attn": "resid_cross" if crosses else "resid_mid", "cross_attn": "resid_mid",
                     "ffn": "resid_out"}[self.sublayer]  # fmt: skip
            yield from _unchanged(f"{layer}.{self.sublayer}.out", f"{layer}.{after}")


Edit = HeadOff | EdgeOff | Unscaled | Unmasked | NoPositions | NoResidual
KINDS: dict[str, type[Edit]] = {
    kind.kind: kind for kind in (HeadOff, EdgeOff, Unscaled, Unmasked, NoPositions, NoResidual)
}
"""The edits by the names that they have in JSON."""


def from_json(said: object) -> Edit:
    """An edit from `{"kind": "head", "part": "decoder.cross", "layer": 0, "head": 3}` and the like.

    Raises:
        ConfigError: it is no edit, or lacks a field, has one too many or one of another type.
    """
    kind = said.get("kind") if isinstance(said, Mapping) else None
    if not isinstance(said, Mapping) or not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError("this is no edit", where="edits", expected=f"a kind: {', '.join(KINDS)}", got=repr(said)[:80])
    given = {name: value for name, value in said.items() if name != "kind"}
    known = {field.name: str(field.type) for field in fields(KINDS[kind])}
    for name, told in known.items():
        value, wanted = given.get(name), int if told.startswith("int") else str
        if type(value) is not wanted and not (value is None and told.endswith("None")):
            raise ConfigError("a field of an edit cannot be", where=f"edits: {kind}.{name}", got=repr(value)[:80],
                              expected="a whole number" if wanted is int else "a name")  # fmt: skip
    if unknown := given.keys() - known.keys():
        raise ConfigError("an edit has no such field", where=f"edits: {kind}", got=", ".join(sorted(unknown)),
                          expected=", ".join(known) or "nothing but a kind")  # fmt: skip
    values: dict[str, Any] = {name: given.get(name) for name in known}
    return KINDS[kind](**values)


def to_json(edit: Edit) -> dict[str, Any]:
    """What `from_json` reads."""
    return {"kind": edit.kind, **asdict(edit)}


@contextmanager
def edited(model: Model, edits: Iterable[Edit]) -> Iterator[Seen]:
    """The model with these changes, while the block lasts; what passed the changed places, after the changes.

    Raises:
        ConfigError: the model has not what an edit is about.
    """
    chosen = sorted(edits, key=lambda edit: edit.order)
    for edit in chosen:
        edit.check(model.config)
    with doored(model, [door for edit in chosen for door in edit.doors(model.config)]) as seen:
        yield seen


@contextmanager
def doored(model: Model, doors: Iterable[Door]) -> Iterator[Seen]:
    """The model with functions at some of its places, those of one place in their order."""
    changes = dict[str, list[Callable[[Tensor], Tensor]]]()
    for place, change in doors:
        changes.setdefault(place, []).append(change)

    def through(name: str, x: Tensor) -> Tensor:
        for change in changes[name]:
            x = change(x)
        return x

    if not changes:  # to watch is to send attention along its open path
        yield Seen()
        return
    with watch(model, *changes, edit=through) as seen:
        yield seen


def _sites(config: TransformerConfig, *names: str) -> Iterator[str]:
    """The path of every attention, or of those of some parts."""
    for part in parts_of(config):
        if not names or part.name in names:
            yield from (part.at(layer) for layer in range(part.layers))


def unseen(site: str, change: Callable[[Tensor], Tensor]) -> Iterator[Door]:
    """Scores of one attention with some at -inf, as `change` has them; a query left with no key at all gives zero."""
    blind = list[Tensor]()

    def hide(scores: Tensor) -> Tensor:  # (B, H, T, S)
        # Masked keys are only very low: with nothing above them softmax would spread the row over them.
        scores = change(scores)
        scores = scores.masked_fill(scores < HIDDEN_BELOW, -torch.inf)
        blind[:] = [(scores == -torch.inf).all(-1, keepdim=True)]
        return scores

    yield f"{site}.scores", hide
    yield f"{site}.weights", lambda weights: weights.masked_fill(blind.pop(), 0)


def _rescored(site: str, scale: float, where: Callable[[Tensor], Tensor]) -> Iterator[Door]:
    """Scores made anew, where they are to be, from what attention offers before them."""
    passed = dict[str, Tensor]()

    def score(scores: Tensor) -> Tensor:  # (B, H, T, S)
        q, k, bias = passed.pop("q"), passed.pop("k"), passed.pop("bias", None)
        fresh = q @ k.repeat_interleave(q.size(1) // k.size(1), 1).transpose(-1, -2) * scale
        fresh = fresh if bias is None else fresh + bias
        return torch.where(where(scores), fresh.to(scores.dtype), scores)

    for leaf in ("q", "k", "bias"):
        yield f"{site}.{leaf}", partial(_kept, passed, leaf)
    yield f"{site}.scores", score


def _unchanged(before: str, after: str) -> Iterator[Door]:
    """What comes after a place is what came before it."""
    passed = dict[str, Tensor]()
    yield before, partial(_kept, passed, before)
    yield after, lambda _: passed.pop(before)


def _without(before: str, after: str) -> Iterator[Door]:
    """What comes after a place lacks what came before it."""
    passed = dict[str, Tensor]()
    yield before, partial(_kept, passed, before)
    yield after, lambda x: x - passed.pop(before)


def _kept(passed: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    passed[name] = x
    return x
