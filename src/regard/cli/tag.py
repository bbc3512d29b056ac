"""`regard tag`: a line in, its spans out.

What is unusual: from standard input whatever has arrived is tagged at once, as in `regard translate`. Words with their
tags in columns, which training reads, are no text, and are refused.
What it does not know: how a span is found (`regard.tasks.tagging`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from regard.cli.common import InUse
from regard.cli.console import err_console, open_output
from regard.cli.translate import arriving, slices
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.tasks.tagging import TaggedSpan


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Find spans in lines of text. A line out for each line in: the spans as `label start-stop text`, TABs between.

    echo 'How far is it from Denver to Aspen ?' | regard tag runs/places

    Start and stop count characters from 0, stop being the first one after the span.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    file: Annotated[Positional[Path], arg(metavar="[FILE]", help_behavior_hint="")] = Path("-")
    """The text, a line a text, plain or compressed; - is standard input (the default)."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write here in place of stdout; the file appears when it is whole."""


def run(args: Arguments) -> None:
    """Tag batch by batch, each written as soon as it is there."""
    args.apply()
    from regard.api import TOGETHER, load

    model = load(args.model, device=args.named_device, dtype=args.dtype)
    model.tag([])  # a model that cannot is refused before anything is read
    if args.file == Path("-") and sys.stdin.isatty() and not args.quiet:
        err_console.print("a line to tag, then Enter; Ctrl-D ends")
    batches = arriving(TOGETHER) if args.file == Path("-") else slices(args.file, TOGETHER)
    with open_output(args.out, args.file) as stream:
        for number, lines in enumerate(batches):
            if not number:
                _refuse_tagged(lines, args)
            for line, spans in zip(lines, model.tag(lines), strict=True):
                stream.write(_as_json(line, spans) if args.json else _as_text(spans))
            stream.flush()


def _refuse_tagged(lines: Sequence[str], args: Arguments) -> None:
    """Raise DataError where all of the lines end in a tag, as those of CoNLL do and no two lines of a text."""
    from regard.data.conll import prefix_at_end

    columns = [line.split() for line in lines if line.strip()]
    if len(columns) > 1 and None not in map(prefix_at_end, columns):
        raise DataError("these are words with their tags, not lines of text", where=args.file,
                        expected="a text a line", got=" ".join(columns[0])[:80],
                        mend=f"to score the model on them, regard evaluate {args.model} FILE; to tag them anew, a "
                             """sentence a line: awk 'NF {printf "%s ", $1} !NF {print ""}' FILE""")  # fmt: skip


def _as_text(spans: Sequence[TaggedSpan]) -> str:
    return "\t".join(f"{span.label} {span.start}-{span.stop} {span.text}" for span in spans) + "\n"


def _as_json(line: str, spans: Sequence[TaggedSpan]) -> str:
    return json.dumps({"text": line, "spans": [asdict(span) for span in spans]}, ensure_ascii=False) + "\n"
