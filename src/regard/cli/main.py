"""The command `regard`: from the first word to the verb's module, and from its end to an exit code.

What it is: the table of verbs, the help screen made from it, and `main`.
What is unusual: nothing but the chosen verb is imported, so the help screen starts in a fraction of a second.
What it does not know: the flags of any verb (tyro reads them from its `Arguments`) and the meaning of an error
(see `failures`).
"""

from __future__ import annotations

import difflib
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType

from regard import __version__
from regard.cli import failures
from regard.cli.console import err_console, out_console
from regard.errors import ConfigError

VERBS = {
    "train": "train a model from your own files",
    "plan": "say what a training would cost, and train nothing",
    "translate": "translate lines of text",
    "evaluate": "score a model on data",
    "info": "say what a model is",
    "doctor": "look for what is wrong: with the machine, a model, or data",
    "demo": "train a small translator in three minutes, and score it",
    "completion": "print the completion script of a shell",
}
"""Each verb, in the order of the help screen, with its summary; its module is regard.cli.<verb>."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (faults.md); `argv` defaults to the words after the program's name."""
    words = sys.argv[1:] if argv is None else list(argv)
    # Read when torch is loaded. Threads that spin while they wait can make a run several times slower when anything
    # else wants a core; ones that sleep may cost some percent on a quiet machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whatever the locale; a lone surrogate is escaped, as JSON would do
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _dispatch(words)
        sys.stdout.flush()  # here, where a reader that has gone away can still be noticed
        return code
    except BaseException as error:
        return failures.exit_code(error, as_json="--json" in words)
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(signum: int, frame: FrameType | None) -> None:
    """Leave through every `finally`, so that temporary files are removed."""
    raise SystemExit(128 + signum)


def _dispatch(words: list[str]) -> int:
    match words:
        case []:
            err_console.print(_help())
            return 2
        case ["-h" | "--help", *_]:
            out_console.print(_help())
            return 0
        case ["--version", *_]:
            print(f"regard {__version__}")
            return 0
        case [verb, *rest] if verb in VERBS:
            return _run(verb, rest)
    near = difflib.get_close_matches(words[0], VERBS, n=1)
    raise ConfigError(
        "an option before the verb" if words[0].startswith("-") else "unknown verb",
        where="regard",
        expected=", ".join(VERBS),
        got=words[0],
        mend=f"did you mean: regard {near[0]}?" if near else "see: regard --help",
    )


def _run(verb: str, rest: list[str]) -> int:
    import tyro

    module = import_module(f"regard.cli.{verb}")
    args = tyro.cli(module.Arguments, prog=f"regard {verb}", args=rest, config=(tyro.conf.FlagCreatePairsOff,))
    return module.run(args) or 0


def _help() -> str:
    width = max(map(len, VERBS))
    lines = [f"  [bold]{verb:<{width}}[/bold]  {summary}" for verb, summary in VERBS.items()]
    return "\n".join(
        [
            "[bold]regard[/bold]: the Transformer, whole: train it, look inside it, serve it\n",
            "usage: regard VERB ...",
            "       regard VERB --help",
            "       regard --version\n",
            *lines,
        ]
    )
