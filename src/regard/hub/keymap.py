"""Other families' weight names and layouts, and ours: tables that are data, read both ways.

    Row("h.{i}.attn.c_attn", tuple(f"decoder.layers.{{i}}.self_attn.{x}" for x in "qkv"), CONV1D)

says that their one tensor holds our three, side by side and transposed; loading cuts it, exporting joins it again.
What is unusual: every name without a row, on either side, is reported, all at once; a tensor is cut as it is read, so
that a checkpoint is never in memory twice.
What it does not know: any family (`families/`), files (`weights.py`), what a tensor means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.hub.fields import Fields
from regard.model import TransformerConfig

Split = Callable[[Tensor, int, TransformerConfig], Sequence[Tensor]]
Join = Callable[[Sequence[Tensor], TransformerConfig], Tensor]


@dataclass(frozen=True)
class Layout:
    """How one of their tensors holds n of ours: cut into n, and joined again to the very same bits."""

    split: Split
    join: Join


def _conv1d(tensor: Tensor) -> Tensor:
    return tensor.T if tensor.ndim == 2 else tensor


def _by_heads(tensor: Tensor, parts: int, config: TransformerConfig) -> list[Tensor]:
    heads = tensor.unflatten(0, (config.n_heads, parts, -1))  # (H, parts, d, ..)
    return [part.flatten(0, 1) for part in heads.unbind(1)]


def _of_heads(tensors: Sequence[Tensor], config: TransformerConfig) -> Tensor:
    heads = [tensor.unflatten(0, (config.n_heads, -1)) for tensor in tensors]  # (H, d, ..)
    return torch.stack(heads, 1).flatten(0, 2)


PLAIN = Layout(lambda t, n, c: t.chunk(n) if n > 1 else (t,), lambda ts, c: torch.cat(list(ts)) if ts[1:] else ts[0])
"""As ours; of several, one after another along the first axis."""
CONV1D = Layout(
    lambda t, n, c: _conv1d(t).chunk(n), lambda ts, c: _conv1d(torch.cat(list(ts))) if ts[1:] else _conv1d(ts[0])
)
"""GPT-2's: matrices are (in, out)."""
BY_HEADS = Layout(_by_heads, _of_heads)
"""GPT-NeoX's: the first axis goes by head, then by q, k, v."""
AS_ROW = Layout(lambda t, n, c: (t.squeeze(0),), lambda ts, c: ts[0][None])
"""A vector, kept as a matrix of one row."""


@dataclass(frozen=True)
class Row:
    """One line of a table: their name, ours, and how theirs holds ours.

    A name is a module's path, whose leaves (.weight, .bias) follow, or a tensor's own. `{i}` is the number of a layer.
    Ours leave out `transformer.`: "decoder.layers.{i}.ffn.up", "tokens", "head.dense".
    """

    theirs: str
    ours: str | tuple[str, ...]
    layout: Layout = PLAIN

    @property
    def names(self) -> tuple[str, ...]:
        """Ours, one or more."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    @property
    def leaves(self) -> str:
        """What follows either name, as a regular expression: nothing where ours is a tensor's own."""
        return "" if self.names[0].endswith((".weight", ".bias")) else r"\.weight|\.bias"


@dataclass(frozen=True)
class Opened:
    """What a family reads out of a config.json: our configuration, and the name of the head (`model.HEADS`)."""

    config: TransformerConfig
    head: str


@dataclass(frozen=True, kw_only=True)
class Family:
    """A line of published models. `read` and `write` are each other's inverse, and so are the rows, read either way.

    Attributes:
        name: as people say it, "GPT-2".
        model_types: of their config.json, the first of them written.
        read: their configuration, and the names of their tensors (with `base`), to ours. ConfigError names a field
            whose value has no counterpart here.
        write: ours to their configuration, with "architectures"; ConfigError names the axis without a counterpart.
        rows: the table for a model of this configuration and head.
        base: what their tensors' names begin with, and in some files do not ("transformer.").
        heads: tensors whose names never begin with `base`, as regular expressions ("lm_head").
        buffers: tensors that hold nothing learned, as regular expressions.
        unused: learned tensors that a model without a row for them does not need, as regular expressions; leaving
            them out is reported.
        computed: of the buffers, those that other tools miss in a file that lacks them; from our configuration.
        old_endings: (how old files end a tensor's name, how it ends today).
        copies: (a tensor's name, that of the one it repeats where no row, or a tied head, gives it a place of its own).
    """

    name: str
    model_types: tuple[str, ...]
    read: Callable[[Fields, Collection[str]], Opened]
    write: Callable[[TransformerConfig, str], dict[str, Any]]
    rows: Callable[[TransformerConfig, str], tuple[Row, ...]]
    base: str = ""
    heads: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    computed: Callable[[TransformerConfig], Mapping[str, Tensor]] | None = None
    unused: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    old_endings: tuple[tuple[str, str], ...] = ()

    def full_name(self, name: str) -> str:
        """A tensor's name as it ends today, with the base prefix, which a file of the bare model leaves out."""
        for old, new in self.old_endings:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        if name.startswith(self.base) or any(re.match(head, name) for head in self.heads):
            return name
        return self.base + name


@dataclass(frozen=True)
class Place:
    """Where one of their tensors goes: the names of ours (a Model's state dict), and how it is cut."""

    ours: tuple[str, ...]
    layout: Layout


def place(rows: Sequence[Row], name: str) -> Place | None:
    """Where their tensor `name` goes, by the first row that fits; None: no row knows it."""
    for row in rows:
        if (found := _pattern(row.theirs, row.leaves).fullmatch(name)) is not None:
            layer, leaf = found.groupdict().get("i") or "", found["leaf"]
            return Place(tuple(_ours(part, layer) + leaf for part in row.names), row.layout)
    return None


def to_theirs(
    rows: Sequence[Row], tensors: Mapping[str, Tensor], config: TransformerConfig
) -> tuple[dict[str, Tensor], list[str]]:
    """All of our tensors under their names, and the names of ours that no row knows."""
    theirs: dict[str, Tensor] = {}
    used: set[str] = set()
    for row in rows:
        first = _pattern(_ours(row.names[0], "{i}"), row.leaves)
        for name in tensors:
            if name in used or (found := first.fullmatch(name)) is None:
                continue
            layer, leaf = found.groupdict().get("i") or "", found["leaf"]
            parts = [_ours(part, layer) + leaf for part in row.names]
            if all(part in tensors for part in parts):
                theirs[row.theirs.replace("{i}", layer) + leaf] = row.layout.join([tensors[p] for p in parts], config)
                used.update(parts)
    return theirs, sorted(tensors.keys() - used)


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the regular expressions fits the whole name."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _ours(name: str, layer: str) -> str:
    full = name if name.startswith("head.") else f"transformer.{name}"
    return full.replace("{i}", layer)


def _pattern(template: str, leaves: str) -> re.Pattern[str]:
    return re.compile(re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)") + f"(?P<leaf>{leaves})")
