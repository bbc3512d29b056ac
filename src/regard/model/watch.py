"""Named places inside a model where somebody may look, or change what passes.

    with watch(model, "decoder.layers.*.self_attn.weights") as seen:
        model(...)
    seen["decoder.layers.0.self_attn.weights"]                     # (B, H, T, S)

    with watch(model, "encoder.layers.2.self_attn.z", edit=lambda name, z: ablate(z)):
        model(...)                                                 # the model runs on what `edit` returned

What is unusual: nothing is installed in the model. A module offers a tensor to `see`; while nobody watches, that is one
look at a context variable (60 ns), and under torch.compile it is nothing at all. Watching is per thread and per task,
so one request that looks does not slow or see another. Asking for scores or weights makes attention take its open path.
What it does not know: what the names mean; they are the module's path and the word it gives (architecture.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

Edit = Callable[[str, Tensor], Tensor]


@dataclass
class Seen(Mapping[str, Tensor]):
    """What passed the watched places: `seen[name]` is the last tensor, `seen.all(name)` every one in order."""

    passed: dict[str, list[Tensor]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.passed[name][-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self.passed)

    def __len__(self) -> int:
        return len(self.passed)

    def all(self, name: str) -> list[Tensor]:
        """Every tensor that passed `name`, oldest first (cached decoding passes once a step)."""
        return self.passed[name]


@dataclass(frozen=True)
class _Watcher:
    paths: dict[int, str]
    patterns: tuple[str, ...]
    edit: Edit | None
    seen: Seen

    def wants(self, module: nn.Module, leaf: str) -> str | None:
        path = self.paths.get(id(module))
        if path is None:
            return None
        name = f"{path}.{leaf}" if path else leaf
        return name if any(fnmatchcase(name, pattern) for pattern in self.patterns) else None


_WATCHERS: ContextVar[tuple[_Watcher, ...]] = ContextVar("regard_watchers", default=())


def see(module: nn.Module, leaf: str, x: Tensor) -> Tensor:
    """Offer a tensor to whoever watches `leaf` of this module; returns it, or what an edit made of it."""
    if torch.compiler.is_compiling():
        return x
    for watcher in _WATCHERS.get():
        if (name := watcher.wants(module, leaf)) is not None:
            if watcher.edit is not None:
                x = watcher.edit(name, x)
            watcher.seen.passed.setdefault(name, []).append(x)
    return x


def watched(module: nn.Module | None, *leaves: str) -> bool:
    """Whether somebody watches one of these places."""
    if module is None or torch.compiler.is_compiling():
        return False
    return any(watcher.wants(module, leaf) for watcher in _WATCHERS.get() for leaf in leaves)


@contextmanager
def watch(model: nn.Module, *patterns: str, edit: Edit | None = None) -> Iterator[Seen]:
    """Look at every place whose name matches a pattern (`*` matches dots too); optionally change what passes.

    Args:
        model: a Transformer, or a Model around one (names are the Transformer's either way).
        patterns: e.g. "decoder.layers.*.cross_attn.weights"; see architecture.md for the names on offer.
        edit: called with the full name and the tensor; what it returns goes on through the model.
    """
    inner = getattr(model, "transformer", model)
    paths = {id(module): path for path, module in inner.named_modules()}
    if inner is not model:
        paths |= {id(model): ""}
    seen = Seen()
    token = _WATCHERS.set((*_WATCHERS.get(), _Watcher(paths, patterns, edit, seen)))
    try:
        yield seen
    finally:
        _WATCHERS.reset(token)
