"""`regard score`: how probable a model finds translations that are given.

What is unusual: nothing is searched, cut or left out; a pair that the model cannot read whole has no score, and stops.
What it does not know: how scores are computed (`regard.api`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from regard.cli.console import open_output
from regard.cli.evaluate import OnPairs, read_data
from regard.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Arguments(OnPairs):
    """Write log p(target | source) of each pair, natural logarithm, the end of the target included: a line a pair.

    regard score runs/en-de test.en test.de

    With --per-token a line is `log p ||| token log p token log p ...`, the last token being the end.
    """

    per_token: bool = False
    """Also the log-probability of each target token."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write here in place of stdout; the file appears when it is whole."""


def run(args: Arguments) -> None:
    """Score batch by batch, each written as soon as it is there."""
    device = args.apply()
    from regard.api import TOGETHER, load

    pairs = read_data(args.data, args.columns, args.to)
    model = load(args.model, device=str(device))
    if long := model.too_long(pairs.source, pairs.target, to=pairs.to):
        raise DataError(
            "a text is longer than the model reads", where=pairs.where(long[0]), mend="split it, or leave it out",
            expected=f"at most {model.longest_source:,} tokens a side", got=f"{len(long):,} such pairs",
        )  # fmt: skip
    with open_output(args.out) as stream:
        for start in range(0, len(pairs), TOGETHER):
            some = slice(start, start + TOGETHER)
            found = model.token_scores(pairs.source[some], pairs.target[some], to=pairs.to and pairs.to[some])
            for source, target, tokens in zip(pairs.source[some], pairs.target[some], found, strict=True):
                stream.write(_line(source, target, tokens, args))
            stream.flush()


def _line(source: str, target: str, tokens: list[tuple[str, float]], args: Arguments) -> str:
    logprob = sum(score for _, score in tokens)
    if args.json:
        row: dict[str, object] = {"source": source, "target": target, "logprob": logprob}
        if args.per_token:
            row |= {"tokens": [token for token, _ in tokens], "token_logprobs": [score for _, score in tokens]}
        return json.dumps(row, ensure_ascii=False) + "\n"
    each = " ".join(f"{token} {score:.4f}" for token, score in tokens)
    return f"{logprob:.4f}" + (f" ||| {each}" if args.per_token else "") + "\n"
