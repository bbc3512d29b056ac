"""The models that somebody looks at, and the runs that were made of them.

What is unusual: a run is named by what was asked of which weights, so asking again costs nothing and a link to it stays
good; the oldest are dropped where they take too much memory, and are made again when asked for. A model whose files
change while it is looked at stays as it was opened, each run says that it changed, and `reload` opens the new one.
What it does not know: HTTP. Whoever calls sees to it that one model runs at a time; what is kept may be asked for from
any thread.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from regard import __version__
from regard.errors import ConfigError, UserError
from regard.hub.atomic import write_text_atomic
from regard.hub.folder import find_model
from regard.hub.snapshots import find_snapshots
from regard.inspect.payload import fingerprint, model_json, request_json, view_json
from regard.inspect.roles import Stopped, head_roles
from regard.inspect.samples import Sample, samples
from regard.inspect.scripts import Request
from regard.inspect.views import View
from regard.inspect.views import run as run_model

if TYPE_CHECKING:
    from regard.loaded import Loaded

Opener = Callable[[Path], "Loaded"]
T = TypeVar("T")

MOST_BYTES = 2**28
"""Of the tensors of all runs, and of the weights of a run's early states."""
SHOWN = 3
"""Examples to begin with."""
ROLE_CHARACTERS = 200
"""Of a sentence whose heads' roles are measured, at most."""


class Kept(Generic[T]):
    """Values by name, the last used of them, so many bytes in all; of however large a value, at least that one."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._lock = most_bytes, Lock()
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, key: str) -> T | None:
        """The value, which now is the last used; None: it is not there, or no longer."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: str, value: T, size: int) -> None:
        """Keep a value of so many bytes."""
        with self._lock:
            self._values[key] = value, size
            self._values.move_to_end(key)
            while len(self._values) > 1 and sum(size for _, size in self._values.values()) > self._most:
                self._values.popitem(last=False)


@dataclass(frozen=True)
class Opened:
    """A model, where it was asked for, and its fingerprint when it was opened."""

    path: Path
    loaded: Loaded
    mark: str

    @classmethod
    def at(cls, path: Path, open_model: Opener) -> Opened:
        """Open what lies there now."""
        folder = find_model(path)
        mark = fingerprint(folder)  # before it is read: what changes meanwhile shows as a change
        return cls(path, open_model(folder), mark)

    @cached_property
    def examples(self) -> list[Sample]:
        """Texts to begin with."""
        return samples(self.loaded, SHOWN)

    @property
    def changed(self) -> bool:
        """Another model lies there now. Where none does any more, what was opened is all there is."""
        try:
            return fingerprint(find_model(self.path)) != self.mark
        except (OSError, UserError):
            return False


@dataclass(frozen=True)
class Run:
    """One view, its name, and the model that it is of."""

    id: str
    view: View
    model: Opened
    snapshot: str | None

    def json(self) -> dict[str, Any]:
        """The view in words; also whether the model's files have changed since."""
        told = view_json(self.view, mark=self.model.mark, run=self.id, changed=self.model.changed)
        return {**told, "request": {**told["request"], "snapshot": self.snapshot}}


class Desk:
    """One or two models, opened, with their runs.

    Args:
        paths: of the models.
        open_model: opens a folder.
        asked: what the user wants to see first.
        roles_cache: the folder where roles of heads are kept from one day to the next; None: nowhere.
    """

    def __init__(
        self, paths: Sequence[Path], open_model: Opener, *, asked: Sample | None = None, roles_cache: Path | None = None
    ) -> None:
        self._open, self._asked, self._roles = open_model, asked, roles_cache
        self._models = [Opened.at(path, open_model) for path in paths]
        self._early: Kept[Opened] = Kept(MOST_BYTES)
        self._runs: Kept[Run] = Kept(MOST_BYTES)

    def __len__(self) -> int:
        return len(self._models)

    def model(self, index: int) -> Opened:
        """The first or the second model. Raises ConfigError where there is none."""
        if not 0 <= index < len(self):
            raise ConfigError("there is no such model here", where="model", expected=f"0 to {len(self) - 1}", got=index,
                              mend="regard look MODEL --beside MODEL2")  # fmt: skip
        return self._models[index]

    def reload(self, index: int) -> dict[str, Any]:
        """What the page knows of a model; opened again where its files have changed."""
        model = self.model(index)
        if model.changed:
            model = self._models[index] = Opened.at(model.path, self._open)
        asked = self._asked if index == 0 else None
        return model_json(model.loaded, samples=model.examples, asked=asked, mark=model.mark)

    def run(self, request: Request, *, index: int = 0, snapshot: str | None = None) -> Run:
        """The run of a request; of the same one, on the same weights, the one that there is.

        Raises:
            ConfigError, CheckpointError: the request cannot be met; there is no such snapshot.
        """
        model = self.model(index) if snapshot is None else self._snapshot(index, snapshot)
        key = _digest(model.mark, str(snapshot), request_json(request))
        if (found := self._runs.get(key)) is None:
            view = run_model(model.loaded, request)
            found = Run(key, view, model, snapshot)
            self._runs.put(key, found, sum(tensor.nbytes for tensor in view.tensors.values()))
        return found

    def find(self, run: str) -> Run | None:
        """A run by its name; None where it was dropped, or never was."""
        return self._runs.get(run)

    def _snapshot(self, index: int, name: str) -> Opened:
        model = self.model(index)
        known = {kept.name: kept for _, kept in find_snapshots(model.loaded.path)}
        if name not in known:
            raise ConfigError("this run has no such snapshot", where="snapshot", got=name[:80],
                              expected=", ".join(known) or "none: no snapshots were kept")  # fmt: skip
        key = f"{index} {name}"
        if (found := self._early.get(key)) is None or found.changed:
            found = Opened.at(known[name], self._open)
            self._early.put(key, found, sum(p.nbytes for p in found.loaded.model.parameters()))
        return found

    # ------------------------------------------------------------ roles, which take long and are kept

    def roles(
        self, index: int, part: str | None, sentences: int, progress: Callable[[int, int], None],
        stop: Callable[[], bool],
    ) -> dict[str, Any]:  # fmt: skip
        """The roles of a model's heads, and the sentences they were measured on; kept where they were found before.

        Nothing of both when `stop` said so.
        """
        model = self.model(index)
        chosen = samples(model.loaded, sentences, longest=ROLE_CHARACTERS)
        key = _digest(model.mark, __version__, part, [asdict(sample) for sample in chosen])
        cached = None if self._roles is None else self._roles / f"{key}.json"
        if cached is not None and (known := _read_cache(cached)) is not None:
            return known
        try:
            found = measured_roles(model.loaded, chosen, part, progress=progress, stop=stop)
        except Stopped:
            return {}
        if cached is not None:
            write_text_atomic(cached, json.dumps(found, ensure_ascii=False))
        return found


def measured_roles(
    loaded: Loaded,
    chosen: Sequence[Sample],
    part: str | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """The roles of a model's heads over some texts, and these texts, for JSON.

    Raises:
        ConfigError: the model has no such part.
        Stopped: `stop` said so.
    """
    requests = [Request(texts=sample.texts, target=sample.target, to=sample.to) for sample in chosen]
    found = head_roles(loaded, requests, part=part, progress=progress, stop=stop)
    return {"roles": [asdict(role) for role in found], "sentences": [asdict(sample) for sample in chosen]}


def _digest(*parts: Any) -> str:
    """A name for these values."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True, default=str).encode()).hexdigest()[:20]


def _read_cache(path: Path) -> dict[str, Any] | None:
    """What was kept; None where there is nothing, or nothing that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
