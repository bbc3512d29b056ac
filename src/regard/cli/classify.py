"""`regard classify`: a line in, its label, the label's probability and the line out.

What is unusual: from standard input whatever has arrived is classified at once, as in `regard translate`. A file
named as a table is read as one, as training reads it; its labels are left aside. What stands before a bad line is
answered before the line is refused.
What it does not know: how a label is found (`regard.tasks.classifier`), and what effects are (`inspect.attribution`).
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from tyro.conf import Positional, arg

from regard.cli.common import InUse
from regard.cli.console import err_console, open_output
from regard.cli.translate import arriving
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import Tensor

    from regard.loaded import Loaded
    from regard.tasks.classifier import Label

T = TypeVar("T")
TABLES = (".tsv", ".csv", ".jsonl")
"""Ends of the names, before .gz or .zst, of files with columns."""


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Classify lines of text: label, TAB, probability, TAB, text. A regression model says a number, no probability.

    echo 'a stirring , funny film' | regard classify runs/sentiment

    For a model of pairs a line holds both texts with a TAB between. A .tsv, .csv or .jsonl is read as in training, its
    label left aside. Of a model of several labels those above one half are said with `|` between, and so are their
    probabilities. With --top-k K there are K lines for each text, a class each.
    With --why a fourth column has what each word adds to the probability (or to the number) by leaving it out; --json
    also has the gradient times input of each token.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    file: Annotated[Positional[Path], arg(metavar="[FILE]", help_behavior_hint="")] = Path("-")
    """The text, a line an example, or a table, plain or compressed; - is standard input (the default)."""
    columns: Annotated[str | None, arg(metavar="A[,B]", help_behavior_hint="")] = None
    """The column of the text in a table, or of both texts: names, or numbers from 1."""
    top_k: Annotated[int, arg(metavar="K")] = 1
    """How many classes to give of each line, the likeliest first."""
    why: bool = False
    """Also say what each word adds; takes as many passes as there are words."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write here in place of stdout; the file appears when it is whole."""


def run(args: Arguments) -> None:
    """Classify batch by batch, each written as soon as it is there."""
    args.apply()
    from regard.api import load
    from regard.hub.quantized import QUANTIZED

    model = load(args.model, device=args.named_device, dtype=args.dtype)
    labels = model.classifier.labels
    if args.why and QUANTIZED in model.about:
        raise ConfigError("a quantised model has no gradients, which --why is made of", where=args.model,
                          expected="its plain weights", mend="take the model that it was made of")  # fmt: skip
    batches = _examples(args, model.classifier.parts)
    if args.file == Path("-") and sys.stdin.isatty() and not args.quiet:
        err_console.print("a line to classify, then Enter; Ctrl-D ends")
    # Of several classes any number may be above one half, and each is told with a probability of its own.
    asked = max(args.top_k, len(labels.names)) if labels.kind == "several" and args.top_k > 0 else args.top_k
    with open_output(args.out, args.file) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was left out is told below, with the line's number
        for batch in batches:
            found = model.classify([example.texts for example in batch], top_k=asked)
            for example, label in zip(batch, found, strict=True):
                if label.left_out:
                    reads = f"the {model.model.config.max_len:,} tokens that the model reads"
                    left = f"{label.left_out:,} {'was' if label.left_out == 1 else 'were'} left out"
                    err_console.print(f"line {example.number:,} is longer than {reads}; {left}")
                why = explain(model, example.texts, label) if args.why else None
                say = _as_json if args.json else _as_text
                stream.write(say(example, label, why, args.top_k))
            stream.flush()


@dataclass(frozen=True)
class Example:
    """What is to be classified.

    Attributes:
        number: of its line in the file.
        texts: one, or the two of a pair.
        line: the same to be shown on one line.
    """

    number: int
    texts: tuple[str, ...]
    line: str


def good_first(examples: Iterable[T]) -> Iterator[list[T]]:
    """Some hundred at a time; those that stand before a bad one are given before its DataError is raised."""
    from regard.api import TOGETHER

    batch: list[T] = []
    try:
        for example in examples:
            batch.append(example)
            if len(batch) == TOGETHER:
                yield batch
                batch = []
    except DataError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _examples(args: Arguments, parts: int | None) -> Iterator[list[Example]]:
    """The examples as they come. Raises ConfigError at once for --columns that cannot be."""
    from regard.data.languages import bare

    if bare(args.file).suffix.lower() in TABLES:
        wanted = None if args.columns is None else _wanted(args.columns, parts)
        return good_first(_rows(args.file, wanted, parts))
    if args.columns is not None:
        raise ConfigError("only a table has columns", where="--columns", got=args.file,
                          expected=f"a file named {', '.join(TABLES)}",
                          mend="leave it out, or rename the file")  # fmt: skip
    return _lines(args.file, parts)


def _lines(path: Path, parts: int | None) -> Iterator[list[Example]]:
    """The lines of a plain text, or of standard input, an example each."""
    from regard.api import TOGETHER
    from regard.data import read_lines

    numbers = itertools.count(1)

    def example(line: str) -> Example:
        nonlocal parts
        if parts is None:  # the model does not say, so the first line does
            parts = 2 if line.count("\t") == 1 else 1
        number = next(numbers)
        texts = tuple(line.split("\t")) if parts == 2 else (line,)
        if len(texts) != parts:
            raise DataError("the line does not hold a pair of texts", where=f"{path}:{number}",
                            got=f"{len(texts)} column{'s' * (len(texts) > 1)}",
                            expected="the first text, TAB, the second")  # fmt: skip
        return Example(number, texts, line)

    for lines in arriving(TOGETHER) if path == Path("-") else [read_lines(path)]:
        yield from good_first(map(example, lines))


def _rows(path: Path, wanted: Sequence[str] | None, parts: int | None) -> Iterator[Example]:
    """The rows of a table, an example each."""
    from regard.data.label_columns import Header
    from regard.data.unlabelled import read_rows

    def tell(header: Header) -> None:
        err_console.print(f"note: {header}", markup=False)

    for number, texts in read_rows(path, wanted, parts, tell):
        yield Example(number, texts, "\t".join(re.sub(r"[\t\r\n]+", " ", text) for text in texts))


def _wanted(columns: str, parts: int | None) -> list[str]:
    """The columns of the texts that were named; one more is that of the label, as --columns of training has it."""
    names = [name.strip() for name in columns.split(",")]
    most = parts or 2
    if not all(names) or not (parts or 1) <= len(names) <= most + 1:
        expected = {1: "TEXT", 2: "FIRST,SECOND", None: "TEXT, or FIRST,SECOND"}[parts]
        raise ConfigError("these are not the columns of what the model reads", where="--columns", expected=expected,
                          got=columns)  # fmt: skip
    return names[:most]


def explain(model: Loaded, texts: Sequence[str], label: Label) -> dict[str, Any]:
    """What words and tokens add to what was said: of classes to the probability of the first, else to the number.

    Tokens by gradient times input add to what stands before softmax or sigmoid.
    """
    import torch

    from regard.inspect.attribution import gradient_x_input, leave_one_out
    from regard.tasks.classification import probabilities
    from regard.tasks.reading import read_texts

    classifier = model.classifier
    labels = classifier.labels
    place = labels.names.index(label.likeliest[0][0]) if label.likeliest else 0

    def score(examples: list[tuple[str, ...]]) -> np.ndarray:
        logits, _ = classifier.logits(examples)
        if labels.kind == "number":
            return labels.decided(logits)
        return probabilities(labels.kind, logits)[:, place]

    words = leave_one_out(texts, score)
    (read,), _ = read_texts(model.tokenizer, [texts], model.model.config.max_len)
    if not read.ids:  # a text of nothing, in a vocabulary that puts nothing around it
        return {"words": [], "tokens": []}

    def logit(hidden: Tensor) -> Tensor:
        return model.model.head(hidden, torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device))[0, place]

    effects = gradient_x_input(model.model, *read, logit)
    tokens = zip(model.tokenizer.tokens(read.ids), effects.tolist(), strict=True)
    return {
        "words": [asdict(effect) for effect in words],
        "tokens": [{"token": token, "effect": effect} for token, effect in tokens],
    }  # fmt: skip


def _as_text(example: Example, label: Label, why: dict[str, Any] | None, top_k: int) -> str:
    own = dict(label.likeliest)
    if isinstance(label.label, float):
        rows = [(f"{label.label:.4f}", "")]
    elif isinstance(label.label, tuple) and top_k == 1:
        rows = [("|".join(label.label), "|".join(f"{own[name]:.4f}" for name in label.label))]
    else:
        rows = [(name, f"{share:.4f}") for name, share in label.likeliest[:top_k]]
    lines = [f"{name}\t{share}\t{example.line}" for name, share in rows]
    if why is not None:
        lines[0] += "\t" + " ".join(f"{word['text']}:{word['effect']:+.3f}" for word in why["words"])
    return "".join(line + "\n" for line in lines)


def _as_json(example: Example, label: Label, why: dict[str, Any] | None, top_k: int) -> str:
    texts, said, own = example.texts, label.label, dict(label.likeliest)
    row: dict[str, Any] = {"text": texts[0] if len(texts) == 1 else list(texts), "label": said}
    row["probability"] = [own[name] for name in said] if isinstance(said, tuple) else label.probability
    if top_k > 1:
        row["likeliest"] = [{"label": name, "probability": share} for name, share in label.likeliest[:top_k]]
    row |= {"left_out": label.left_out} if label.left_out else {}
    row |= {"why": why} if why is not None else {}
    return json.dumps(row, ensure_ascii=False) + "\n"
