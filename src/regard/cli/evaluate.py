"""`regard evaluate`: how good a model is on data it has not seen.

What is unusual: references are scored as they stand in the file (law 32), and each score comes with its signature.
What it does not know: how scores are computed (`regard.tasks.metrics`).
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import err_console, open_output, print_json, progress, table

if TYPE_CHECKING:
    from regard.api import Loaded
    from regard.data import Pairs


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Score a model: BLEU and chrF (sacrebleu, with signatures) of its translations, and the loss on the references.

    regard evaluate runs/en-de test.en test.de
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    data: Annotated[Positional[tuple[Path, ...]], arg(metavar="SRC REF | FILE")]
    """Two parallel files, or one table of pairs."""
    beam: Annotated[int, arg(metavar="N")] = 4
    """Hypotheses kept at each step of the search."""
    columns: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """The columns of source and reference in a table."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Also write the translations, a line each."""


def run(args: Arguments) -> None:
    """Translate, score, show."""
    device = args.apply()
    from regard.api import load
    from regard.cli.train import pair_of
    from regard.data import read_pairs

    pairs = read_pairs(args.data, columns=pair_of("columns", args.columns))
    model = load(args.model, device=str(device))
    began = time.monotonic()
    outputs, metrics = evaluate(model, pairs, beam=args.beam, quiet=args.quiet)
    if args.out:
        with open_output(args.out) as stream:
            stream.writelines(output + "\n" for output in outputs)
    report = {
        "task": model.task, "model": args.model, "data": list(args.data), "examples": len(pairs), "beam": args.beam,
        "seconds": round(time.monotonic() - began, 2), "metrics": metrics,
    }  # fmt: skip
    if args.json:
        print_json(report)
    else:
        show(metrics)


def evaluate(model: Loaded, pairs: Pairs, *, beam: int, quiet: bool) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The translations of all sources, and the metrics.

    name -> {"score", "signature"} for BLEU and chrF, {"score"} for the loss on the references (nats a target token,
    ends included) and its perplexity. Pairs with a side longer than the model reads have no loss, which is told.
    """
    from regard.api import TOGETHER
    from regard.tasks.metrics import translation_metrics

    outputs: list[str] = []
    with progress("translating", len(pairs), quiet=quiet) as advance, warnings.catch_warnings(action="ignore"):
        for start in range(0, len(pairs), TOGETHER):
            found = model.translate(pairs.source[start : start + TOGETHER], beam=beam)
            outputs += [translation.text for translation in found]
            advance(len(found), "")
    metrics = translation_metrics(outputs, pairs.target, model.languages[1])
    return outputs, metrics | _loss(model, pairs)


def _loss(model: Loaded, pairs: Pairs) -> dict[str, dict[str, Any]]:
    lengths = [list(map(len, model.tokenizer.encode_batch(side))) for side in (pairs.source, pairs.target)]
    rows = [i for i, both in enumerate(zip(*lengths, strict=True)) if max(both) <= model.longest_source]
    if left := len(pairs) - len(rows):
        reads = f"the {model.longest_source:,} tokens that the model reads"
        err_console.print(
            f"{left:,} pairs are longer than {reads}: translated from what fits, and left out of the loss"
        )
    fitting = pairs.take(rows)
    tokens = sum(lengths[1][i] + 1 for i in rows)
    loss = -sum(model.score(fitting.source, fitting.target)) / tokens if rows else math.nan
    return {"loss": {"score": loss}, "perplexity": {"score": math.exp(loss)}}


def show(metrics: dict[str, dict[str, Any]]) -> None:
    """The scores as a table."""
    rows = [(name, f"{metric['score']:.2f}", metric.get("signature", "")) for name, metric in metrics.items()]
    table(["metric", "score", "signature"], rows)
