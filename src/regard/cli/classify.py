"""`regard classify`: a line in, its label, the label's probability and the line out.

What is unusual: from standard input whatever has arrived is classified at once, as in `regard translate`.
What it does not know: how a label is found (`regard.tasks.classifier`), and what effects are (`inspect.attribution`).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from regard.cli.common import InUse
from regard.cli.console import err_console, open_output
from regard.cli.translate import arriving, slices
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import Tensor

    from regard.loaded import Loaded
    from regard.tasks.classifier import Label


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Classify lines of text: label, TAB, probability, TAB, text. A regression model says a number, no probability.

    echo 'a stirring , funny film' | regard classify runs/sentiment

    For a model of pairs a line holds both texts with a TAB between. With --top-k K there are K lines for each line in.
    With --why a fourth column has what each word adds to the probability (or to the number) by leaving it out; --json
    also has the gradient times input of each token.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    file: Annotated[Positional[Path], arg(metavar="[FILE]", help_behavior_hint="")] = Path("-")
    """The text, a line an example, plain or compressed; - is standard input (the default)."""
    top_k: Annotated[int, arg(metavar="K")] = 1
    """How many classes to give of each line, the likeliest first."""
    why: bool = False
    """Also say what each word adds; takes as many passes as there are words."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write here in place of stdout; the file appears when it is whole."""


def run(args: Arguments) -> None:
    """Classify batch by batch, each written as soon as it is there."""
    device = args.apply()
    from regard.api import TOGETHER, load
    from regard.hub.quantized import QUANTIZED

    model = load(args.model, device=str(device), dtype=args.dtype)
    parts = model.classifier.parts
    if args.why and QUANTIZED in model.about:
        raise ConfigError("a quantised model has no gradients, which --why is made of", where=args.model,
                          expected="its plain weights", mend="take the model that it was made of")  # fmt: skip
    if args.file == Path("-") and sys.stdin.isatty() and not args.quiet:
        err_console.print("a line to classify, then Enter; Ctrl-D ends")
    batches = arriving(TOGETHER) if args.file == Path("-") else slices(args.file, TOGETHER)
    number = 0
    with open_output(args.out, args.file) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was left out is told below, with the line's number
        for lines in batches:
            if parts is None:  # the model does not say, so the first line does
                parts = 2 if lines and lines[0].count("\t") == 1 else 1
            texts = [_texts(line, parts, f"{args.file}:{number + i}") for i, line in enumerate(lines, 1)]
            found = model.classify(texts, top_k=args.top_k)
            for line, row, label in zip(lines, texts, found, strict=True):
                number += 1
                if label.left_out:
                    reads = f"the {model.model.config.max_len:,} tokens that the model reads"
                    err_console.print(f"line {number:,} is longer than {reads}; {label.left_out:,} were left out")
                why = explain(model, row, label) if args.why else None
                stream.write(_as_json(row, label, why, args) if args.json else _as_text(line, label, why))
            stream.flush()


def _texts(line: str, parts: int, where: str) -> tuple[str, ...]:
    texts = tuple(line.split("\t")) if parts == 2 else (line,)
    if len(texts) != parts:
        raise DataError("the line does not hold a pair of texts", where=where, got=f"{len(texts)} columns",
                        expected="the first text, TAB, the second")  # fmt: skip
    return texts


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


def _as_text(line: str, label: Label, why: dict[str, Any] | None) -> str:
    if isinstance(label.label, float):
        rows = [f"{label.label:.4f}\t\t{line}"]
    elif isinstance(label.label, tuple) and len(label.likeliest) == 1:
        rows = [f"{'|'.join(label.label)}\t{label.probability:.4f}\t{line}"]
    else:
        rows = [f"{name}\t{share:.4f}\t{line}" for name, share in label.likeliest]
    if why is not None:
        rows[0] += "\t" + " ".join(f"{word['text']}:{word['effect']:+.3f}" for word in why["words"])
    return "".join(row + "\n" for row in rows)


def _as_json(texts: Sequence[str], label: Label, why: dict[str, Any] | None, args: Arguments) -> str:
    row: dict[str, Any] = {"text": texts[0] if len(texts) == 1 else list(texts), "label": label.label}
    row["probability"] = label.probability
    if args.top_k > 1:
        row["likeliest"] = [{"label": name, "probability": share} for name, share in label.likeliest]
    row |= {"left_out": label.left_out} if label.left_out else {}
    row |= {"why": why} if why is not None else {}
    return json.dumps(row, ensure_ascii=False) + "\n"
