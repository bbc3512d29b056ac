"""The command `regard`: from the first word to the verb's module, and from its end to an exit code.

What it is: the table of verbs, the help screen made from it, and `main`.
What is unusual: nothing but the chosen verb is imported, so the help screen starts in a fraction of a second.
What it does not know: the flags of any verb (see `parsing`) and the meaning of an error (see `failures`).
"""

from __future__ import annotations

import difflib
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from types import FrameType, ModuleType

from regard import __version__
from regard.cli import failures
from regard.cli.console import err_console, out_console
from regard.errors import ConfigError
from regard.limits import others_at_work

WAITING = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
VERBS = {
    "train": "train a model from your own files",
    "plan": "say what a training would cost, and train nothing",
    "prepare": "turn a large corpus into files of token ids to train on",
    "translate": "translate lines of text",
    "generate": "continue a text",
    "classify": "say which class lines of text are of",
    "tag": "find spans in lines of text, and say what they are",
    "answer": "find the piece of a text that answers a question",
    "embed": "turn lines of text into vectors",
    "evaluate": "score a model on data",
    "score": "say how probable a model finds given texts or translations",
    "compare": "say whether two models really differ on data",
    "reproduce": "run a shipped recipe again, and hold its scores against the recorded ones",
    "import": "make a model folder of a Hugging Face folder",
    "export": "write a model for other tools, and show that it does the same there",
    "quantize": "round a model's weights, and show what that costs on data",
    "look": "see what a model does, number by number, on a page",
    "info": "say what a model is",
    "doctor": "look for what is wrong: with the machine, a model, or data",
    "demo": "train a small translator in under four minutes, and score it",
    "completion": "print the completion script of a shell",
}
"""Each verb, in the order of the help screen, with its summary; `module_of` is its module."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (faults.md); `argv` defaults to the words after the program's name."""
    words = sys.argv[1:] if argv is None else list(argv)
    if not WAITING & os.environ.keys():
        os.environ |= how_to_wait()
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


def how_to_wait() -> dict[str, str]:
    """What computing threads do between two products, for the library that reads it when torch is loaded.

    On a machine with nothing else to do they had best spin for a while: a 4 + 4 layer model of width 128 trains 7 to
    30 % faster than with threads that sleep at once (python bench/training.py --size tiny --engines "regard bf16",
    under GOMP_SPINCOUNT=100000 and OMP_WAIT_POLICY=passive). But not without end, as under OMP_WAIT_POLICY=active: that
    is 9 % slower, and torch's threads and Numba's would keep each other from the cores. Where anything else wants a
    core, spinning made it three to four times slower.
    """
    return {"GOMP_SPINCOUNT": "300" if others_at_work() else "100000"}


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


def module_of(verb: str) -> ModuleType:
    """regard.cli.<verb>, with an underscore after a word that is Python's own (import)."""
    return import_module(f"regard.cli.{verb}" + "_" * iskeyword(verb))


def _run(verb: str, rest: list[str]) -> int:
    from regard.cli.parsing import parse

    module = module_of(verb)
    return module.run(parse(module.Arguments, rest, f"regard {verb}")) or 0


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
