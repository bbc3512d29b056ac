"""From TOML and dotted overrides to validated frozen dataclasses, and back.

What it is: `load_toml` and `override` make a plain tree; `build` turns a tree into any frozen dataclass by its type
hints; `to_tree` and `to_toml` are the way back: `build(type(x), to_tree(x), where=...) == x`.
What is unusual: every mistake in a tree is found before any is reported, each with its dotted field. A union of
dataclasses is told apart by the key `kind`, the class variable of the same name; a bare string `"rope"` stands for the
class of that kind with its defaults. TOML has no null, so in an optional field the word "none" stands for None.
What it does not know: any field, any default, any class of this package but its errors.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from regard.errors import ConfigError

T = TypeVar("T")

# ---------------------------------------------------------------- reading and overriding a tree


def load_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file; a ConfigError names the file, and the line where it is not TOML."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        got, mend = error.strerror, "check the path"
        raise ConfigError("cannot read the file", where=path, expected="a TOML file", got=got, mend=mend) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        got, mend = f"the byte 0x{error.object[error.start]:02x}", "save the file as UTF-8"
        raise ConfigError("not UTF-8", where=f"{path}:{line}", expected="UTF-8 text", got=got, mend=mend) from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        lines = text.split("\n")
        found = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        line = int(found[1]) if found else len(lines)  # the other ending is "(at end of document)"
        what, got = re.sub(r" \(at .*\)$", "", str(error)), lines[line - 1].strip() or "the end of the file"
        raise ConfigError(
            f"not TOML: {what}", where=f"{path}:{line}", expected="name = value", got=got, mend="change this line"
        ) from error


def override(tree: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """A new tree with each `a.b=value` put in; the value is read as TOML, or else taken as a bare string.

    Where a field holds the bare name of a kind (`positions = "rope"`), `positions.theta=5e5` keeps that kind.
    Raises ConfigError for an assignment without `=`, and for a path that leads through a plain value.
    """
    result = copy.deepcopy(dict(tree))
    for assignment in assignments:
        dotted, equals, text = assignment.partition("=")
        *parents, last = names = dotted.strip().split(".")
        if not equals or not all(names):
            mend = "write it like model.n_heads=8"
            raise ConfigError("not an override", expected="field.name=value", got=assignment, mend=mend)
        table = result
        for name in parents:
            inner = table.setdefault(name, {})
            if isinstance(inner, str):
                inner = table[name] = {"kind": inner}
            if not isinstance(inner, dict):
                what, expected = f"{name} holds a value, not fields", f"an assignment to {name} itself"
                raise ConfigError(what, where=dotted, expected=expected, got=_got(inner), mend=f"write {name}={text}")
            table = inner
        table[last] = _toml_or_text(text)
    return result


def _toml_or_text(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text  # a newline in the text could smuggle in a second key


# ---------------------------------------------------------------- from a tree to a dataclass


def build(cls: type[T], tree: Mapping[str, Any], *, where: str) -> T:
    """Build the dataclass `cls` from a tree of tables, lists and plain values.

    Understands int, float (an integer will do), bool, str, Path, Literal, `X | None`, tuple, list, dict[str, X], nested
    dataclasses, and unions of dataclasses by `kind`. Complaints of `__post_init__` (ConfigError, ValueError) get their
    dotted place. Raises one ConfigError with every mistake in it; `where` says whence the tree came.
    """
    builder = _Builder()
    result = builder.value(cls, tree, "")
    if not builder.mistakes:
        return cast(T, result)
    if len(builder.mistakes) == 1:
        raise _placed(builder.mistakes[0], where, separator=": ")
    raise ConfigError(
        f"{len(builder.mistakes)} mistakes in the configuration",
        where=where,
        got="".join("\n" + str(mistake) for mistake in builder.mistakes).replace("\n", "\n    "),
        mend="mend each of them",
    )


class _Builder:
    """Converts values by their hints, and notes each mistake instead of stopping at the first."""

    def __init__(self) -> None:
        self.mistakes: list[ConfigError] = []

    def mistake(self, what: str, place: str, expected: str, got: str, mend: str) -> None:
        self.mistakes.append(ConfigError(what, where=place or None, expected=expected, got=got, mend=mend))

    def value(self, hint: Any, given: Any, place: str) -> Any:
        origin, args = get_origin(hint), get_args(hint)
        if is_dataclass(hint):
            return self.kind_of((cast(type, hint),), given, place)
        if origin in (Union, UnionType):
            return self.union(hint, given, place)
        if origin in (tuple, list) and isinstance(given, list | tuple):
            return self.sequence(origin, args, given, place)
        if origin is dict and isinstance(given, Mapping):
            return {key: self.value(args[1], item, _join(place, key)) for key, item in given.items()}
        if origin is Literal:
            for allowed in args:
                if type(given) is type(allowed) and given == allowed:
                    return given
        elif hint is Any or type(given) is hint:
            return given
        elif hint is float and type(given) is int and abs(given) <= sys.float_info.max:
            return float(given)
        elif hint is Path and isinstance(given, str | Path):
            return Path(given)
        self.mistake("wrong value", place, _expected(hint), _got(given), _mend_value(hint, given, place))
        return None

    def sequence(self, origin: type, args: tuple[Any, ...], given: Sequence[Any], place: str) -> Any:
        if origin is list or args[-1] is Ellipsis:
            hints = [args[0]] * len(given)
        elif len(args) != len(given):
            mend = f"give {len(args)} values"
            return self.mistake("wrong length", place, f"{len(args)} values", f"{len(given)} values", mend)
        else:
            hints = list(args)
        pairs = enumerate(zip(hints, given, strict=True))
        return origin(self.value(hint, item, f"{place}[{i}]") for i, (hint, item) in pairs)

    def union(self, hint: Any, given: Any, place: str) -> Any:
        members = get_args(hint)
        classes = tuple(cast(type, member) for member in members if is_dataclass(member))
        others = [member for member in members if member not in classes and member is not NoneType]
        named = isinstance(given, str) and given in {_kind(member) for member in classes}
        if NoneType in members and (given is None or (given == "none" and not named)):
            return None
        if classes and (named or not others or isinstance(given, Mapping)):
            return self.kind_of(classes, given, place)
        for member in others:
            trial = _Builder()
            result = trial.value(member, given, place)
            if not trial.mistakes:
                return result
        if len(others) == 1 and not classes:
            self.mistakes += trial.mistakes  # `X | None`: the mistakes inside X say more than "expected X or none"
        else:
            self.mistake("wrong value", place, _expected(hint), _got(given), f"change {place}")
        return None

    def kind_of(self, classes: tuple[type, ...], given: Any, place: str) -> Any:
        """Choose the class by its kind, and build it."""
        kinds = {_kind(cls): cls for cls in classes}
        if isinstance(given, str) and None not in kinds:
            given = {"kind": given}
        if not isinstance(given, Mapping):
            return self.mistake("wrong value", place, _any_of(classes), _got(given), f"write {place}.name = value")
        if None in kinds:
            assert len(kinds) == 1, f"a union of dataclasses needs a kind in each: {classes}"
            return self.table(kinds[None], given, place)
        name = given.get("kind", next(iter(kinds)) if len(kinds) == 1 else None)
        if not isinstance(name, str) or name not in kinds:
            got = "nothing" if name is None else _got(name)
            mend = _did_you_mean(name, cast(Sequence[str], list(kinds)), otherwise="choose one of them")
            return self.mistake("unknown kind", _join(place, "kind"), _any_of(classes), got, mend)
        return self.table(kinds[name], {key: item for key, item in given.items() if key != "kind"}, place)

    def table(self, cls: type, given: Mapping[str, Any], place: str) -> Any:
        before = len(self.mistakes)
        hints = get_type_hints(cls)
        known = {field.name: field for field in fields(cls) if field.init}
        for key in given:
            if key not in known:
                names = ", ".join(known) or "no field"
                mend = _did_you_mean(key, list(known), otherwise="remove it")
                self.mistake("unknown field", _join(place, key), names, str(key), mend)
        values = {}
        for name, field in known.items():
            inner = _join(place, name)
            if name in given:
                values[name] = self.value(hints[name], given[name], inner)
            elif field.default is MISSING and field.default_factory is MISSING:
                self.mistake("missing field", inner, _expected(hints[name]), "nothing", f"add {inner} = ...")
        if len(self.mistakes) > before:
            return None
        try:
            return cls(**values)
        except ConfigError as error:
            self.mistakes.append(_placed(error, place))
        except ValueError as error:
            self.mistakes.append(ConfigError(str(error), where=place or None, mend=f"change {place or 'a field'}"))
        return None


# ---------------------------------------------------------------- what a mistake says


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _placed(error: ConfigError, place: str, *, separator: str = ".") -> ConfigError:
    """The same error, seen from outside: its place is put before its own."""
    places = [str(part) for part in (place, error.where) if part not in (None, "")]
    where = separator.join(places) or None
    return ConfigError(error.what, where=where, expected=error.expected, got=error.got, mend=error.mend)


def _kind(cls: Any) -> str | None:
    """The class variable `kind`; None for a class without one (a *field* named kind is an ordinary field)."""
    return None if "kind" in {field.name for field in fields(cls)} else getattr(cls, "kind", None)


_NAMES: dict[type, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a string", Path: "a path"}
_NAMES |= {list: "a list", tuple: "a list", dict: "a table", NoneType: "none"}


def _expected(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of(args)
    if origin is Literal:
        return " or ".join(json.dumps(allowed) for allowed in args)
    if origin is dict:
        return f"a table, each value {_expected(args[1])}"
    if origin in (tuple, list):
        return "a list of " + ", ".join("more" if member is Ellipsis else _expected(member) for member in args)
    if is_dataclass(hint):
        return f'"{_kind(hint)}"' if _kind(hint) else "a table of fields"
    return _NAMES[hint]


def _any_of(hints: Sequence[Any]) -> str:
    return " or ".join(_expected(hint) for hint in hints)


def _got(value: Any) -> str:
    text = repr(value)
    short = text if len(text) <= 80 else text[:77] + "..."
    return f"{short} ({_NAMES.get(type(value), type(value).__name__)})"


def _mend_value(hint: Any, given: Any, place: str) -> str:
    if hint is str and isinstance(given, int | float):
        return f'put it in quotes: {place} = "{given}"'
    if get_origin(hint) is Literal:
        return _did_you_mean(given, [str(allowed) for allowed in get_args(hint)], otherwise="choose one of them")
    return f"change {place}"


def _did_you_mean(word: Any, known: Sequence[str], *, otherwise: str) -> str:
    near = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean {near[0]}?" if near else otherwise


# ---------------------------------------------------------------- from a dataclass to a tree, and to TOML


def to_tree(obj: Any) -> dict[str, Any]:
    """The tree that `build` turns back into `obj`: tables, lists and plain values, ready for JSON and TOML.

    A class with a `kind` writes it. A None is left out where it is the default, and written "none" elsewhere.
    """
    kind = _kind(type(obj))
    tree: dict[str, Any] = {} if kind is None else {"kind": kind}
    for field in fields(obj):
        value = getattr(obj, field.name)
        if field.init and not (value is None and field.default is None):
            tree[field.name] = _plain(value)
    return tree


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_tree(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return "none" if value is None else value


def to_toml(tree: Mapping[str, Any]) -> str:
    """Write a tree of tables, lists, strings, numbers and booleans as TOML; `tomllib.loads` gives it back."""
    return "\n".join(_sections(tree, "")).lstrip("\n") + "\n"


def _sections(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """Plain values first: after a `[header]` every line belongs to that header."""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping) or _is_tables(value)}
    for key, value in table.items():
        if key not in inner:
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in inner.items():
        name = _join(path, _toml_key(key))
        header = f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"
        for item in [value] if isinstance(value, Mapping) else value:
            yield from ("", header)
            yield from _sections(item, name)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(item, Mapping) for item in value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON leaves DEL bare, TOML does not
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)  # inf and nan are TOML's own words too
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    raise TypeError(f"TOML has no value like {value!r}")
