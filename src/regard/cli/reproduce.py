"""`regard reproduce`: a shipped recipe, run again, and held against what is recorded of it.

What is unusual: a finished run in --out is only scored, so one training serves a check, a second look and --record.
What it does not know: how the interval is formed and where the record lies (`regard.ledger`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.cli import evaluate, train
from regard.cli.common import Common
from regard.cli.console import err_console, print_json, table
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.api import Loaded
    from regard.ledger import Entry, Outcome, Record
    from regard.training import Recipe


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Run a shipped recipe again, score it, and say whether each score falls where the recorded runs put it.

    regard reproduce multi30k-en-de-quick

    Exit code 1 when one does not.
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """A recipe of the ledger; docs/results.md lists them."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """The run's folder (default runs/NAME-seed-N); an unfinished run in it goes on, a finished one is only scored."""
    record: bool = False
    """Add what came out to the ledger, in a checkout."""


def run(args: Arguments) -> int:
    """Train unless that is done, score, compare, and record when asked to."""
    device = args.apply()
    from regard import ledger
    from regard.api import load

    entry, recipe = ledger.find_entry(args.name), ledger.find_recipe(args.name, device)
    recipe = recipe if args.seed is None else replace(recipe, seed=args.seed)
    hashes, record = ledger.hash_data(args.name), ledger.find_record(args.name)
    if record and not args.record:
        _refuse_other_data(hashes, record.data)
    out = args.out or Path("runs") / f"{args.name}-seed-{recipe.seed}"
    if not (out / "checkpoints" / "final").exists():
        if recipe.loop.dtype != ledger.named_recipe(args.name).loop.dtype:
            err_console.print("trained in float32: this machine computes slower in the recipe's bfloat16")
        train.train_and_tell(train.Arguments(
            what=(args.name,), out=out, resume=(out / "latest").exists(), seed=recipe.seed,
            quiet=args.quiet, device=args.device, threads=args.threads,
        ))  # fmt: skip
    model = load(out, device=str(device))
    named = ledger.named_recipe(args.name).data
    _refuse_another_run(recipe, [hashes[file] for file in (*named.train, *named.dev)], model, out)
    metrics = _score(model, entry, recipe, quiet=args.quiet)
    outcome = _outcome(model, recipe.seed, metrics)
    if args.record:
        err_console.print(f"recorded in {ledger.record_run(args.name, outcome, metrics, hashes)}")
    rows = _verdicts(metrics, record)
    inside = None if record is None else all(row["inside"] is not False for row in rows)
    if args.json:
        facts = {"recipe": args.name, "model": out, "seed": outcome.seed, "minutes": outcome.minutes}
        print_json({**facts, "updates": outcome.updates, "inside": inside, "scores": rows})
    else:
        _show(args.name, rows, record, outcome.minutes)
    return 1 if inside is False else 0


def _refuse_other_data(ours: dict[str, str], recorded: dict[str, str]) -> None:
    for name, digest in recorded.items():
        if ours[name] != digest:
            raise DataError("this file is not the one of the recorded runs", where=name, expected=f"SHA-256 {digest}",
                            got=ours[name], mend="put that file there, or record anew with --record")  # fmt: skip


def _refuse_another_run(recipe: Recipe, data: list[str], model: Loaded, out: Path) -> None:
    """A finished run must be of this recipe, in any precision, and of files with these SHA-256 wherever they lay."""
    from regard.config import to_tree
    from regard.training import read_recipe

    found = read_recipe(out / "recipe.toml")
    optim = replace(found.optim, matrix_dtype=recipe.optim.matrix_dtype)
    loop = replace(found.loop, dtype=recipe.loop.dtype)
    theirs = to_tree(replace(found, data=recipe.data, optim=optim, loop=loop))
    for field, value in to_tree(recipe).items():
        if theirs.get(field) != value:
            raise ConfigError(
                "the run in this folder is of another recipe", where=out, expected=f"{field} = {value}",
                got=theirs.get(field), mend="choose another --out",
            )  # fmt: skip
    files = model.about["training"]["data"]
    if set(files.values()) != set(data):
        raise ConfigError("the run in this folder is of other data", where=out, expected=" ".join(recipe.data.train),
                          got=" ".join(files), mend="choose another --out")  # fmt: skip


def _score(model: Loaded, entry: Entry, recipe: Recipe, *, quiet: bool) -> dict[str, dict[str, dict[str, Any]]]:
    """test set -> metric -> {"score", "signature"}."""
    from regard import ledger
    from regard.data import read_pairs
    from regard.data.places import find_data

    found = {}
    for name, test in entry.tests.items():
        files = [find_data(file) for file in test.data]
        if not files:
            scores = model.about["training"]["scores"]
            measured = {metric: {"score": scores[_of_run(metric, scores)]} for metric in test.metrics}
        elif model.task == "translation":
            pairs = read_pairs(files)
            outputs = evaluate.translations(model, pairs, beam=entry.beam, quiet=quiet)
            measured = ledger.score(test, outputs, pairs.target, pairs.to[0] if pairs.to else model.languages[1])
        else:
            counted = any(metric.startswith(ledger.BASELINES) for metric in test.metrics)
            measured = evaluate.measure(model, evaluate.Arguments(
                model=model.path, data=tuple(files), field=test.field, quiet=quiet,
                baseline=Path(recipe.data.train[0]) if counted else None,
            ))[1]  # fmt: skip
        found[name] = {metric: {"signature": "", **measured[metric]} for metric in test.metrics}
    return found


def _of_run(metric: str, scores: dict[str, float]) -> str:
    """The name that a run has for it: `dev_loss`, or `ngram_bits_per_byte` as it is."""
    return f"dev_{metric}" if f"dev_{metric}" in scores else metric


def _outcome(model: Loaded, seed: int, metrics: dict[str, dict[str, dict[str, Any]]]) -> Outcome:
    from regard.ledger import PLACES, Outcome

    training = model.about["training"]
    seconds = training["seconds"] + training.get("init", {}).get("adapted", {}).get("seconds", 0.0)
    return Outcome(
        seed=seed, minutes=round(seconds / 60, 1), updates=training["steps"], date=training["date"],
        parameters=model.model.config.n_parameters, machine=training["machine"], versions=training["versions"],
        scores={
            test: {name: round(one["score"], PLACES) for name, one in found.items()} for test, found in metrics.items()
        },
    )  # fmt: skip


def _verdicts(metrics: dict[str, dict[str, dict[str, Any]]], record: Record | None) -> list[dict[str, Any]]:
    """A row for each figure; of one that is not recorded low, high and inside are None."""
    rows = []
    for test, found in metrics.items():
        for metric, one in found.items():
            figure = record.figures.get(test, {}).get(metric) if record else None
            low, high = (figure.low, figure.high) if figure else (None, None)
            inside = figure.low <= one["score"] <= figure.high if figure else None
            rows.append({"test": test, "metric": metric, **one, "low": low, "high": high, "inside": inside})
    return rows


def _show(name: str, rows: list[dict[str, Any]], record: Record | None, minutes: float) -> None:
    said = {True: "as recorded", False: "NOT as recorded", None: "nothing recorded"}
    cells = [
        (row["test"], row["metric"], f"{row['score']:.4g}",
         "" if row["inside"] is None else f"{row['low']:.4g} to {row['high']:.4g}", said[row["inside"]])
        for row in rows
    ]  # fmt: skip
    table(["test set", "metric", "score", "a rerun should give", ""], cells)
    runs = f"{len(record.runs)} recorded runs" if record else "no recorded run of this recipe"
    print(f"\n{name}: {minutes:.1f} minutes of training; {runs}")
