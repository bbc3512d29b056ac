"""`regard translate`: lines in, lines out, in the same order and number.

What is unusual: from standard input whatever has arrived is translated at once, so a line typed or sent alone is
answered alone, while a full pipe is taken some hundred lines at a time. Nothing waits for more.
What it does not know: how a translation is found (`regard.api`).
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from regard.cli.common import InUse
from regard.cli.console import err_console, open_output
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.api import Loaded, Translation

READ_BYTES = 2**16
LONGEST_LINE = 2**24
NAMED = 20
"""Lines of which something is said at the end."""


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Translate lines of text: one line out for each line in, an empty one for an empty one.

    echo 'A man rides a bicycle.' | regard translate runs/en-de

    With --n-best N a line is `number ||| translation ||| score`, up to N for each line in; lines are numbered from 0.
    With --alignments it ends in ` ||| 0-0 1-2`, the numbers of words (what stands between white space) in source and
    translation, as fast_align writes them; | sed 's/.* ||| //' leaves just these.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    file: Annotated[Positional[Path], arg(metavar="[FILE]", help_behavior_hint="")] = Path("-")
    """The text, a line a sentence, plain or compressed; - is standard input (the default)."""
    to: Annotated[str | None, arg(metavar="CODE", help_behavior_hint="")] = None
    """The language to translate into, for a model that has several."""
    beam: Annotated[int, arg(metavar="N")] = 4
    """Hypotheses kept at each step; 1 is greedy, and quicker."""
    n_best: Annotated[int, arg(metavar="N")] = 1
    """How many translations of each line, at most --beam."""
    alignments: bool = False
    """Also say which source word each word is from; with --json by tokens, which are given too."""
    prefix: Annotated[str, arg(metavar="TEXT", help_behavior_hint="")] = ""
    """What every translation begins with."""
    glossary: Annotated[Path | None, arg(metavar="FILE.tsv", help_behavior_hint="")] = None
    """Source term, TAB, target term: where a line holds the one, its translation holds the other."""
    protect: Literal["none", "placeholders", "numbers"] = "placeholders"
    """What is copied: {name}, %s, addresses and <b>; these and numbers, as they are written; or nothing."""
    no_repeat_ngram: Annotated[int, arg(metavar="N")] = 0
    """Say no N tokens in a row twice in a sentence; 0: do."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write here in place of stdout; the file appears when it is whole."""


def run(args: Arguments) -> None:
    """Translate batch by batch, each written as soon as it is there."""
    args.apply()
    from regard.api import TOGETHER, load

    warnings.simplefilter("ignore")  # what was left out is told below, with the line's number
    model = load(args.model, device=args.named_device, dtype=args.dtype)
    if args.file == Path("-") and sys.stdin.isatty() and not args.quiet:
        err_console.print("a line to translate, then Enter; Ctrl-D ends")
    batches = arriving(TOGETHER) if args.file == Path("-") else slices(args.file, TOGETHER)
    glossary = None if args.glossary is None else read_glossary(args.glossary)
    model.translate([], to=args.to, beam=args.beam, n_best=args.n_best, no_repeat_ngram=args.no_repeat_ngram)
    number, unfinished = 0, list[int]()
    with open_output(args.out, args.file) as stream:
        for lines in batches:
            found = model.translate(
                lines, to=args.to, beam=args.beam, n_best=args.n_best, alignments=args.alignments,
                prefix=[args.prefix] * len(lines), glossary=glossary, protect=args.protect,
                no_repeat_ngram=args.no_repeat_ngram,
            )  # fmt: skip
            for line, translation in zip(lines, found, strict=True):
                _report_length(model, translation, number + 1, args)
                stream.write(_as_json(line, translation) if args.json else _as_text(number, translation, args))
                number += 1
                unfinished += [number] * (translation.unfinished > 0)
            stream.flush()
    if unfinished:
        _report_unfinished(unfinished)


def read_glossary(path: Path) -> dict[str, str]:
    """Source term -> target term, of the lines of a file; blank ones, and those that begin with #, are left out.

    Raises:
        DataError: a line does not hold two terms, or a source term has a second translation.
    """
    from regard.data import read_lines

    glossary: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        terms = [term.strip() for term in line.split("\t")]
        if len(terms) != 2 or not all(terms):
            raise DataError("the line is not a glossary entry", where=f"{path}:{number}",
                            expected="source term, TAB, target term", got=repr(line[:80]),
                            mend="put one TAB between the two; a comment begins with #")  # fmt: skip
        if glossary.setdefault(*terms) != terms[1]:
            raise DataError("the source term has two translations", where=f"{path}:{number}",
                            expected=glossary[terms[0]], got=terms[1], mend="leave one of them out")  # fmt: skip
    return glossary


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
            raise DataError("the line is too long", where=f"-:{number + len(lines) + 1}",
                            expected=f"<= {LONGEST_LINE:,} bytes",
                            mend="put its sentences on lines of their own")  # fmt: skip
        for start in range(0, len(lines), count):
            yield _decoded(lines[start : start + count], number + start)
        number += len(lines)
    if pending:
        yield _decoded([pending], number)


def _decoded(lines: Sequence[bytes], before: int) -> list[str]:
    from regard.data.files import NOT_UTF8

    texts = []
    for number, line in enumerate(lines, before + 1):
        try:
            texts.append(line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(
                "the line is not UTF-8", where=f"-:{number}", got=f"the byte 0x{line[error.start]:02x}", mend=NOT_UTF8
            ) from None
    return texts


def _report_length(model: Loaded, translation: Translation, number: int, args: Arguments) -> None:
    if translation.left_out:
        what = "the line, which --prefix keeps whole," if args.prefix else "a word"
        err_console.print(
            f"line {number:,}: {what} is longer than the {model.longest_source:,} tokens that the model reads; "
            f"{translation.left_out:,} tokens were left out"
        )


def _report_unfinished(numbers: Sequence[int]) -> None:
    """One line for all: a model that has learned little may end none."""
    some = ", ".join(f"{number:,}" for number in numbers[:NAMED])
    more = f" and {len(numbers) - NAMED:,} more" if len(numbers) > NAMED else ""
    which = "the translation of line" if len(numbers) == 1 else "translations, of lines"
    err_console.print(f"cut at the greatest length before the model ended: {which} {some}{more}")


def _as_text(number: int, best: Translation, args: Arguments) -> str:
    lines = []
    for translation in (best, *best.alternatives):
        parts = [translation.text]
        if args.n_best > 1:
            parts = [str(number), translation.text, f"{translation.score:.4f}"]
        if translation.alignment is not None:
            parts.append(" ".join(f"{source}-{target}" for source, target in _word_links(translation)))
        lines.append(" ||| ".join(parts) + "\n")
    return "".join(lines)


def _word_links(found: Translation) -> list[tuple[int, int]]:
    """The alignment by words, each link once, in the order of the target."""
    source, target = (_words(tokens or ()) for tokens in (found.source_tokens, found.target_tokens))
    links = {(source[s], target[t]) for s, t in found.alignment or ()}
    return sorted(links, key=lambda link: link[::-1])


def _words(tokens: Sequence[str]) -> list[int]:
    """The number of the word that each token ends in."""
    text = "".join(tokens).replace("▁", " ")
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    ends = itertools.accumulate(map(len, tokens))
    return [max(0, bisect_right(starts, end - 1) - 1) for end in ends]


def _as_json(line: str, best: Translation) -> str:
    rows = [_object(translation) for translation in (best, *best.alternatives)]
    more: dict[str, Any] = {"alternatives": rows[1:]} if best.alternatives else {}
    more |= {name: count for name in ("left_out", "unfinished") if (count := getattr(best, name))}
    return json.dumps({"source": line, **rows[0], **more}, ensure_ascii=False) + "\n"


def _object(found: Translation) -> dict[str, Any]:
    row: dict[str, Any] = {"translation": found.text, "score": found.score, "logprob": found.logprob}
    row["confidence"] = found.confidence
    if found.alignment is not None:
        tokens = {"source_tokens": found.source_tokens, "target_tokens": found.target_tokens}
        row |= {"alignment": found.alignment, **tokens}
    return row
