"""`regard answer`: a question and a text in, the piece of the text that answers it out.

What is unusual: start and end count characters of the text as it was given, whatever its line ends; and that a text
does not say is an answer too.
What it does not know: how an answer is found (`regard.loaded`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.common import InUse
from regard.cli.console import err_console, print_json, table
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tasks.extractive_qa import Answer

LONGEST_CONTEXT = 2**26
"""Bytes of a text to be asked about."""
NO_ANSWER = "(the text does not say)"


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Find the piece of a text that answers a question.

    regard answer runs/qa --question 'Who wrote it?' --context 'It was written by Ada.'

    regard answer runs/qa --question 'Who wrote it?' --context-file book.txt --top-k 3

    A text may be of any length. start and end are its characters, from 0, the end not included. A model that was
    trained on questions without an answer may say that the text has none.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run that answers questions."""
    question: Annotated[str, arg(metavar="Q")]
    """What to ask."""
    context: Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")] = None
    """The text that is asked about."""
    context_file: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """A file with the text, plain or compressed; - is standard input."""
    top_k: Annotated[int, arg(metavar="K")] = 1
    """How many answers, the likeliest first."""
    null_threshold: Annotated[float | None, arg(metavar="T", help_behavior_hint="")] = None
    """Say that there is no answer where log p(none) - log p(the best) is above this; default: 0 for a model that
    learned of such questions, never for any other."""


def run(args: Arguments) -> None:
    """Ask, and write what was found."""
    device = args.apply()
    from regard.api import load

    if (args.context is None) == (args.context_file is None):
        got = "neither" if args.context is None else "both"
        raise ConfigError("a question needs a text", where="regard answer", got=got,
                          expected="--context TEXT or --context-file FILE")  # fmt: skip
    context = args.context if args.context_file is None else read_context(args.context_file)
    model = load(args.model, device=str(device), dtype=args.dtype)
    found = model.answer(args.question, context or "", top_k=args.top_k, null_threshold=args.null_threshold)
    if found.left_out:
        err_console.print(f"the question is too long; its last {found.left_out:,} tokens were left out")
    if args.json:
        print_json({"question": args.question, **_object(found)})
    else:
        table(["answer", "start", "end", "score"], [_row(one) for one in (found, *found.alternatives)])


def read_context(path: Path) -> str:
    """The text of a file, its line ends as they are.

    Raises:
        DataError: there is none, it is larger than 64 MiB, or no UTF-8.
    """
    from regard.data.files import NOT_UTF8, Lines

    with Lines(path, max_bytes=LONGEST_CONTEXT) as lines:
        data = b"".join(lines.blocks())
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError("the text is not UTF-8", where=f"{path}:{line}", got=f"the byte 0x{data[error.start]:02x}",
                        mend=NOT_UTF8) from None  # fmt: skip


def _row(found: Answer) -> tuple[str, str, str, str]:
    """A line for people: white space within an answer is one space."""
    if found.start is None:
        return NO_ANSWER, "", "", f"{found.score:.4f}"
    return " ".join(found.text.split()), str(found.start), str(found.end), f"{found.score:.4f}"


def _object(found: Answer) -> dict[str, Any]:
    row: dict[str, Any] = {"answer": found.text, "start": found.start, "end": found.end, "score": found.score}
    row["null_odds"] = found.null_odds
    row |= {"left_out": found.left_out} if found.left_out else {}
    return row | ({"alternatives": [_object(one) for one in found.alternatives]} if found.alternatives else {})
