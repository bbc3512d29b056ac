"""From the words after a verb to its `Arguments`, with one form of error for whatever cannot be read.

What it is: tyro reads the words; this module writes the usage lines, and turns tyro's events into ConfigError.
What is unusual: the events come by a hook that tyro calls experimental (hence its range in pyproject.toml): nothing
public tells which flag was wrong without a box drawn around it. Help is always that of the whole verb, wherever among
the words it was asked for.
What it does not know: what a flag does.
"""

from __future__ import annotations

import difflib
import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, get_args, get_type_hints

import tyro
from tyro import _errors
from tyro.conf import FlagCreatePairsOff, Positional

from regard.errors import ConfigError

POSITIONAL = Positional[int].__metadata__[0]  # type: ignore[attr-defined]
KINDS = {int: "a whole number", float: "a number"}
"""What to write for a type; of the others, any text will do."""

A = TypeVar("A")


@dataclass(frozen=True)
class Argument:
    """One field of a verb's `Arguments`, as it is typed: a flag, or (None) a word by its place."""

    flag: str | None
    metavar: str
    required: bool

    def __str__(self) -> str:
        return f"{self.flag or ''} {self.metavar}".strip()


def arguments(cls: type) -> Iterator[Argument]:
    """The arguments of a verb, in their order."""
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        marks = getattr(hints[field.name], "__metadata__", ())
        metavar, name = (next((v for m in marks if (v := getattr(m, part, None))), "") for part in ("metavar", "name"))
        flag = None if POSITIONAL in marks else "--" + (name or field.name.replace("_", "-"))
        yield Argument(flag, metavar, field.default is MISSING)


def usage(prog: str, cls: type) -> list[str]:
    """A line for each way to call a verb; " | " in the metavar of a word by its place parts two ways."""
    lines = [prog]
    for argument in arguments(cls):
        if argument.flag is None:
            lines = [f"{line} {way}" for line in lines for way in argument.metavar.split(" | ")]
    needed = [str(argument) for argument in arguments(cls) if argument.flag and argument.required]
    return [" ".join([line, *needed]) for line in lines]


def parse(cls: type[A], words: Sequence[str], prog: str) -> A:
    """The words as `cls`. Help, where it is asked for, goes to stdout.

    Raises:
        ConfigError: a flag that there is not, a value that cannot be, words too few or too many.
        SystemExit: help was shown.
    """
    if {"-h", "--help"}.intersection(words):
        print(_help(cls, prog))
        raise SystemExit(0)

    def refuse(event: _errors.ParseErrorEvent) -> None:
        raise _told(event, cls, words)

    with _errors.on_parse_error(refuse):
        return tyro.cli(cls, prog=prog, args=words, config=(FlagCreatePairsOff,))


class _Page(io.StringIO):
    """Print into it and get what standard output would get, boxes and colours included."""

    encoding = "utf-8"  # which main gave standard output
    isatty = staticmethod(sys.stdout.isatty)


def _help(cls: type, prog: str) -> str:
    """tyro's help screen below our usage lines: its own leave out the flags that must be given."""
    with redirect_stdout(_Page()) as shown, suppress(SystemExit):
        tyro.cli(cls, prog=prog, args=["--help"], config=(FlagCreatePairsOff,))
    _, _, rest = shown.getvalue().rstrip().partition("\n")
    ways = "\n       ".join(f"{line} [OPTIONS]" for line in usage(prog, cls))
    return f"usage: {ways}\n{rest}"


def _told(event: _errors.ParseErrorEvent, cls: type, words: Sequence[str]) -> ConfigError:
    see, ways = f"see: {event.prog} --help", ", or ".join(usage(event.prog, cls))
    got = shlex.join(words) or "no words"
    match event:
        case _errors.MissingArgs(unrecognized_tokens=tokens) | _errors.UnrecognizedArgs(tokens=tokens) if tokens:
            return _unknown(tokens, cls, event.prog)
        case _errors.MissingArgs():
            missing = ", ".join(arg.arg.get_invocation_text()[1].as_str_no_ansi() for arg in event.missing_arguments)
            what = f"missing: {missing}" if words else "words are missing"
            return ConfigError(what, where=event.prog, expected=ways, got=got, mend=see)
        case _errors.InvalidChoice():
            near = difflib.get_close_matches(event.value, event.choices, n=1)
            mend, choices = f"did you mean {near[0]}?" if near else see, ", ".join(event.choices)
            return ConfigError("not one of the choices", where=event.prog, expected=choices, got=event.value, mend=mend)
        case _errors.BadValue():
            flag = event.argument.display_name()
            return ConfigError(f"{flag} has no value", where=event.prog, expected=f"{flag} "
                               f"{event.argument.lowered.metavar}", got=got, mend=see)  # fmt: skip
        case _errors.InstantiationFailure(argument=argument) if argument is not None:
            flag, kind = argument.display_name(), argument.field.type_stripped
            expected = next(
                (KINDS[kind] for kind in (kind, *get_args(kind)) if kind in KINDS), argument.lowered.metavar
            )
            return ConfigError("not a value of this flag", where=flag, expected=expected, got=_value(flag, words),
                               mend=see)  # fmt: skip
    return ConfigError("these words cannot be read", where=event.prog, expected=ways, got=got, mend=see)


def _unknown(tokens: Sequence[str], cls: type, prog: str) -> ConfigError:
    """The first unknown flag, else the words that nothing asks for."""
    flag = next((token.partition("=")[0] for token in tokens if token.startswith("-") and token != "-"), None)
    if flag is None:
        expected, see = ", or ".join(usage(prog, cls)), f"see: {prog} --help"
        return ConfigError("more words than it takes", where=prog, expected=expected, got=shlex.join(tokens), mend=see)
    flags = [argument.flag for argument in arguments(cls) if argument.flag]
    near = difflib.get_close_matches(flag, flags, n=1) or [name for name in flags if name.startswith(flag)]
    mend = f"did you mean {near[0]}?" if near else f"see: {prog} --help"
    return ConfigError("an unknown flag", where=prog, expected=", ".join(flags), got=flag, mend=mend)


def _value(flag: str, words: Sequence[Any]) -> str:
    """What was given to a flag, as `--flag value` or `--flag=value`."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            return value if equals else after
    return shlex.join(words)
