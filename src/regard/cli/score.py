"""`regard score`: how probable a model finds texts, or translations, that are given.

What is unusual: nothing is searched, cut or left out; what the model cannot read whole has no score, and stops.
What it does not know: how scores are computed (`regard.api`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from regard.cli.console import err_console, open_output
from regard.cli.evaluate import OnPairs, read_data
from regard.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Arguments(OnPairs):
    """Write log p(target | source) of each pair, or log p of each text to a language model, its end included.

    regard score runs/en-de test.en test.de

    regard score runs/novels sentences.txt

    Natural logarithms, a line a pair or a text. With --per-token a line is `log p ||| token log p token log p ...`, the
    last token being the end.
    """

    unit: Annotated[str, arg(metavar="UNIT")] = "line"
    """What of a plain text has a score: each line, paragraph, file, or what stands between two lines like this."""
    field: Annotated[str, arg(metavar="NAME")] = "text"
    """The column or field of the text in tables of texts."""
    per_token: bool = False
    """Also the log-probability of each token."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write here in place of stdout; the file appears when it is whole."""


@dataclass(frozen=True)
class Examples:
    """What is scored.

    Attributes:
        sides: sources and targets, or texts, by the names that --json has for them.
        to: the language of each target.
        where: file:line of an example.
    """

    sides: Mapping[str, Sequence[str]]
    to: Sequence[str] | None
    where: Callable[[int], str]


def run(args: Arguments) -> None:
    """Score batch by batch, each written as soon as it is there."""
    args.apply()
    from regard.api import TOGETHER, load
    from regard.hub.folder import describe_model

    alone = describe_model(args.model).about.get("task") == "language-model"
    examples = _texts(args) if alone else _pairs(args)
    model, sides, to = load(args.model, device=args.named_device), list(examples.sides.values()), examples.to
    if long := model.too_long(*sides, to=to):
        raise DataError(
            "a text is longer than the model reads", where=examples.where(long[0]), mend="split it, or leave it out",
            expected=model.reads, got=f"{len(long):,} such {'texts' if alone else 'pairs'}",
        )  # fmt: skip
    with open_output(args.out, *args.data) as stream:
        for start in range(0, len(sides[0]), TOGETHER):
            some = [side[start : start + TOGETHER] for side in sides]
            found = model.token_scores(*some, to=to and to[start : start + TOGETHER])
            for *texts, tokens in zip(*some, found, strict=True):
                stream.write(_line(dict(zip(examples.sides, texts, strict=True)), tokens, args))
            stream.flush()


def _pairs(args: Arguments) -> Examples:
    pairs = read_data(args.data, args.columns, args.to)
    return Examples({"source": pairs.source, "target": pairs.target}, pairs.to, pairs.where)


def _texts(args: Arguments) -> Examples:
    from regard.data.documents import read_documents

    if not args.data:
        raise DataError("no data is given", where="FILES", expected="texts", mend="name it after the model")
    documents = read_documents(args.data, unit=args.unit, field=args.field)
    found = list(documents)
    if documents.empty and not args.quiet:
        err_console.print(f"{documents.empty:,} empty texts have no score and no line")
    to = None if args.to is None else [args.to] * len(found)
    return Examples({"text": [document.text for document in found]}, to, lambda i: f"{found[i].path}:{found[i].line}")


def _line(texts: Mapping[str, str], tokens: list[tuple[str, float]], args: Arguments) -> str:
    logprob = sum(score for _, score in tokens)
    if args.json:
        row: dict[str, object] = {**texts, "logprob": logprob}
        if args.per_token:
            row |= {"tokens": [token for token, _ in tokens], "token_logprobs": [score for _, score in tokens]}
        return json.dumps(row, ensure_ascii=False) + "\n"
    each = " ".join(f"{token} {score:.4f}" for token, score in tokens)
    return f"{logprob:.4f}" + (f" ||| {each}" if args.per_token else "") + "\n"
