"""`regard translate`: lines in, lines out, in the same order and number.

What is unusual: from standard input whatever has arrived is translated at once, so a line typed or sent alone is
answered alone, while a full pipe is taken some hundred lines at a time. Nothing waits for more.
What it does not know: how a translation is found (`regard.api`).
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import err_console, open_output
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.api import Loaded, Translation

READ_BYTES = 2**16
LONGEST_LINE = 2**24


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Translate lines of text: one line out for each line in, an empty one for an empty one.

    echo 'A man rides a bicycle.' | regard translate runs/en-de

    With --n-best N a line is `number ||| translation ||| score`, up to N for each line in; lines are numbered from 0.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    file: Annotated[Positional[Path], arg(metavar="FILE", help_behavior_hint="")] = Path("-")
    """The text, a line a sentence, plain or compressed; - is standard input (the default)."""
    beam: Annotated[int, arg(metavar="N")] = 4
    """Hypotheses kept at each step; 1 is greedy, and quicker."""
    n_best: Annotated[int, arg(metavar="N")] = 1
    """How many translations of each line, at most --beam."""
    alignments: bool = False
    """Also give source-target pairs of token numbers from 0, after |||; with --json the tokens too."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write here in place of stdout; the file appears when it is whole."""


def run(args: Arguments) -> None:
    """Translate batch by batch, each written as soon as it is there."""
    device = args.apply()
    from regard.api import TOGETHER, load

    warnings.simplefilter("ignore")  # what was left out is told below, with the line's number
    model = load(args.model, device=str(device))
    if args.file == Path("-") and sys.stdin.isatty() and not args.quiet:
        err_console.print("a line to translate, then Enter; Ctrl-D ends")
    batches = arriving(TOGETHER) if args.file == Path("-") else slices(args.file, TOGETHER)
    number = 0
    with open_output(args.out) as stream:
        for lines in batches:
            found = model.translate(lines, beam=args.beam, n_best=args.n_best, alignments=args.alignments)
            for line, translation in zip(lines, found, strict=True):
                _report_length(model, translation, number + 1)
                stream.write(_as_json(line, translation) if args.json else _as_text(number, translation, args))
                number += 1
            stream.flush()


def slices(path: Path, count: int) -> Iterator[list[str]]:
    """The lines of a file, so many at a time."""
    from regard.data import read_lines

    batch: list[str] = []
    for line in read_lines(path):
        batch.append(line)
        if len(batch) == count:
            yield batch
            batch = []
    if batch:
        yield batch


def arriving(count: int) -> Iterator[list[str]]:
    """The lines of standard input as they come: those that are whole by now, at most so many at a time.

    Raises:
        DataError: a line is not UTF-8, or longer than 16 MiB.
    """
    pending, number = b"", 0
    while chunk := os.read(sys.stdin.fileno(), READ_BYTES):
        *lines, pending = (pending + chunk).split(b"\n")
        if len(pending) > LONGEST_LINE:
            raise DataError(
                "the line is too long", where=f"-:{number + len(lines) + 1}", expected=f"<= {LONGEST_LINE:,} bytes"
            )
        for start in range(0, len(lines), count):
            yield _decoded(lines[start : start + count], number + start)
        number += len(lines)
    if pending:
        yield _decoded([pending], number)


def _decoded(lines: Sequence[bytes], before: int) -> list[str]:
    texts = []
    for number, line in enumerate(lines, before + 1):
        try:
            texts.append(line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise DataError("the line is not UTF-8", where=f"-:{number}", got=f"the byte 0x{line[error.start]:02x}",
                            mend="iconv -f LATIN1 -t UTF-8 (or whatever the encoding is)") from None  # fmt: skip
    return texts


def _report_length(model: Loaded, translation: Translation, number: int) -> None:
    if translation.left_out:
        reads = model.longest_source
        total = reads + translation.left_out
        err_console.print(
            f"line {number:,}: {total:,} tokens, of which the model reads {reads:,}; the rest was left out"
        )


def _as_text(number: int, best: Translation, args: Arguments) -> str:
    lines = []
    for translation in (best, *best.alternatives):
        parts = [translation.text]
        if args.n_best > 1:
            parts = [str(number), translation.text, f"{translation.score:.4f}"]
        if translation.alignment is not None:
            parts.append(" ".join(f"{source}-{target}" for source, target in translation.alignment))
        lines.append(" ||| ".join(parts) + "\n")
    return "".join(lines)


def _as_json(line: str, best: Translation) -> str:
    rows = [_object(translation) for translation in (best, *best.alternatives)]
    more: dict[str, Any] = {"alternatives": rows[1:]} if best.alternatives else {}
    more |= {"left_out": best.left_out} if best.left_out else {}
    return json.dumps({"source": line, **rows[0], **more}, ensure_ascii=False) + "\n"


def _object(found: Translation) -> dict[str, Any]:
    row: dict[str, Any] = {"translation": found.text, "score": found.score, "logprob": found.logprob}
    if found.alignment is not None:
        tokens = {"source_tokens": found.source_tokens, "target_tokens": found.target_tokens}
        row |= {"alignment": found.alignment, **tokens}
    return row
