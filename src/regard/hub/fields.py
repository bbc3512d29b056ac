"""Reading another tool's config.json, where a field may be missing, null, misspelt or of another time.

What is unusual: a field that a model cannot do without is asked for by its type, and one whose value changes the
mathematics in a way that we do not have is refused by name, never ignored.
What it does not know: any family.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.errors import ConfigError

T = TypeVar("T", int, float, str, bool)
V = TypeVar("V")

CORRECT = "correct it in config.json, or take the config.json that was published with these weights"
USE_OTHERS = "use this model with transformers, or another of its family: docs/families.md lists what opens here"


@dataclass(frozen=True)
class Fields:
    """The fields of a config.json. A null counts as missing; of several names the first that is there is read."""

    values: Mapping[str, Any]
    seen: dict[str, int | float] = field(default_factory=dict, compare=False, repr=False)
    """The numbers that were read, by the names that the file has for them: for the message when they cannot be."""

    def need(self, kind: type[T], *names: str) -> T:
        """A field that must be there. Raises ConfigError when it is not, or is of another type."""
        value = self.get(kind, *names)
        if value is None:
            raise ConfigError("the configuration lacks a field", where="config.json", expected=" or ".join(names),
                              mend=f"write {names[0]} into it, or take the config.json that was published with these "
                              "weights")  # fmt: skip
        return value

    def get(self, kind: type[T], *names: str) -> T | None:
        """A field, or None. Raises ConfigError when it is of another type."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if kind is float and type(value) is int:
                value = float(value)
            if type(value) is not kind:
                raise ConfigError("a field has another type", where=f"config.json: {name}", expected=kind.__name__,
                                  got=repr(value)[:80], mend=CORRECT)  # fmt: skip
            if isinstance(value, (int, float)) and kind is not bool:
                self.seen[name] = value
            return value
        return None

    def get_or(self, default: T, *names: str) -> T:
        """A field of the type of `default`, or that where it is missing. A 0 in the file is a 0."""
        value = self.get(type(default), *names)
        return default if value is None else value

    def table(self, *names: str) -> Fields | None:
        """A nested object, or None."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                if not isinstance(value, Mapping):
                    raise ConfigError("a field has another type", where=f"config.json: {name}", expected="an object",
                                      got=repr(value)[:80], mend=CORRECT)  # fmt: skip
                return Fields(value, self.seen)
        return None

    def only(self, name: str, *allowed: Any) -> None:
        """Refuse a field unless it is missing, null, or has one of these values."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            raise ConfigError("regard has no such kind of model", where=f"config.json: {name}",
                              expected=" or ".join(map(repr, allowed)), got=repr(value)[:80],
                              mend=USE_OTHERS)  # fmt: skip

    def chosen(self, table: Mapping[str, V], *names: str, default: str | None = None) -> V:
        """What `table` has for the value of a field. Raises ConfigError for one that it has not."""
        value = self.get(str, *names) or default
        if value is None or value not in table:
            near = difflib.get_close_matches(str(value), table, n=1, cutoff=0.8)
            raise ConfigError("regard has no such kind of model", where=f"config.json: {' or '.join(names)}",
                              expected=" or ".join(table), got=repr(value)[:80],
                              mend=f"did you mean {near[0]}? Else {USE_OTHERS}" if near else USE_OTHERS)  # fmt: skip
        return table[value]
