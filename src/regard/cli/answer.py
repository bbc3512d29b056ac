"""`regard answer`: a question and a text in, the piece of the text that answers it out; or a file of questions.

What is unusual: start and end count characters of the text as it was given, whatever its line ends; and that a text
does not say is an answer too. From standard input what has arrived is answered at once, as in `regard classify`.
What it does not know: how an answer is found (`regard.loaded`).
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.classify import TABLES, good_first
from regard.cli.common import InUse
from regard.cli.console import err_console, print_json, table
from regard.cli.translate import arriving
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tasks.extractive_qa import Answer

LONGEST_CONTEXT = 2**26
"""Bytes of a text to be asked about."""
NO_ANSWER = "(the text does not say)"
STDIN = Path("-")


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Find the piece of a text that answers a question.

    regard answer runs/qa --question 'Who wrote it?' --context 'It was written by Ada.'

    regard answer runs/qa --question 'Who wrote it?' --context-file book.txt --top-k 3

    regard answer runs/qa questions.jsonl

    Without --question there are many: of a file with the columns question and context, or of SQuAD's JSON, whose
    answers are not looked at; from standard input {"question": .., "context": ..} a line. With a text given by
    --context or --context-file, a question a line.

    A text may be of any length. start and end are its characters, from 0, the end not included. A model that was
    trained on questions without an answer may say that the text has none.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run that answers questions."""
    file: Annotated[Positional[Path | None], arg(metavar="[FILE]", help_behavior_hint="")] = None
    """Questions, plain or compressed; - is standard input (the default where no --question is given)."""
    question: Annotated[str | None, arg(metavar="Q", help_behavior_hint="")] = None
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
    """Ask, and write what was found; of many questions some together, each as soon as it is there."""
    args.apply()
    from regard.api import load
    from regard.tasks.extractive_qa import Answerer

    _refuse(args)
    context = args.context if args.context_file is None else read_context(args.context_file)
    model = load(args.model, device=args.named_device, dtype=args.dtype)
    how: dict[str, Any] = {"top_k": args.top_k, "null_threshold": args.null_threshold}
    if args.question is not None:
        found = model.answer(args.question, context or "", **how)
        _tell_cut(found, "the question")
        _write(args.question, found, args)
        return
    model.answer("", "", **how)  # a model that cannot, or numbers that cannot be, are refused before anything is read
    if args.file in (None, STDIN) and sys.stdin.isatty() and not args.quiet:
        what = 'a question, or {"question": .., "context": ..}' if context is None else "a question"
        err_console.print(f"{what}, then Enter; Ctrl-D ends", markup=False)
    answerer, numbers = Answerer(model.fast, model.tokenizer, model.about), itertools.count(1)
    for asked in _asked(args.file or STDIN, context):
        answers = answerer.answer_all([question for question, _ in asked], [text for _, text in asked], **how)
        for (question, _), found, number in zip(asked, answers, numbers, strict=False):
            _tell_cut(found, f"question {number:,}")
            if not args.json:
                print("\n" * (number > 1) + " ".join(question.split()))
            _write(question, found, args)
        sys.stdout.flush()


def _refuse(args: Arguments) -> None:
    """Raise ConfigError for questions and texts that do not go together."""
    from regard.data.languages import bare

    texts = [text for text in (args.context, args.context_file) if text is not None]
    if args.question is not None and args.file is not None:
        raise ConfigError("either one question or a file of them", where="regard answer", expected="--question Q or "
                          "FILE", got="both")  # fmt: skip
    if len(texts) == 2 or (args.question is not None and not texts):
        raise ConfigError("a question needs a text", where="regard answer", got="both" if texts else "neither",
                          expected="--context TEXT or --context-file FILE")  # fmt: skip
    if args.question is None and args.context_file == STDIN == (args.file or STDIN):
        raise ConfigError("standard input cannot be both the text and the questions", where="--context-file",
                          expected="--question Q, or a FILE of questions", got="-")  # fmt: skip
    if texts and args.file and bare(args.file).suffix.lower() in (*TABLES, ".json"):
        raise ConfigError("such a file has a text for each question", where=args.file, expected="a question a line",
                          got="--context" if args.context_file is None else "--context-file",
                          mend="leave the text out, or put the questions into a .txt")  # fmt: skip


def _asked(file: Path, context: str | None) -> Iterator[list[tuple[str, str]]]:
    """Questions with their texts, as they come; those that stand before a bad line first."""
    from regard.api import TOGETHER
    from regard.data import read_lines
    from regard.data.squad import read_questions

    if context is not None:
        for lines in arriving(TOGETHER) if file == STDIN else [read_lines(file)]:
            yield from good_first((line, context) for line in lines)
    elif file == STDIN:
        numbers = itertools.count(1)
        for lines in arriving(TOGETHER):
            yield from good_first(
                _record(line, number) for line, number in zip(lines, numbers, strict=False) if line.strip()
            )
    else:
        yield from good_first((one.question, one.context) for one in read_questions([file], answered=False))


def _record(line: str, number: int) -> tuple[str, str]:
    """The question and the text of a line of JSON."""
    from regard.data.files import shorten

    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("question", "context")):
        raise DataError("the line is not a question with its text", where=f"-:{number}", got=shorten(line),
                        expected='{"question": "..", "context": ".."}',
                        mend="for questions alone, a line each, give their text: --context-file FILE")  # fmt: skip
    return row["question"], row["context"]


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


def _tell_cut(found: Answer, what: str) -> None:
    if found.left_out == 1:
        err_console.print(f"{what} is too long; its last token was left out")
    elif found.left_out:
        err_console.print(f"{what} is too long; its last {found.left_out:,} tokens were left out")


def _write(question: str, found: Answer, args: Arguments) -> None:
    if args.json:
        print_json({"question": question, **_object(found)})
    else:
        table(["answer", "start", "end", "score"], [_row(one) for one in (found, *found.alternatives)])


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
