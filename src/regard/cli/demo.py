"""`regard demo`: a translator from nothing in three minutes, scored, with some of its translations.

What is unusual: it is `train`, `evaluate` and `translate` in a row and nothing more; run again, it goes on with (or
only scores) what is there.
What it does not know: where the data may be had from; it says where it looked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from regard.cli import evaluate, train
from regard.cli.common import Common
from regard.cli.console import print_json, table
from regard.errors import DataError

SHOWN = 10
"""Translations."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Train a small English-German translator on Multi30k (29,000 captions), score it, and show what it says."""

    minutes: Annotated[float, arg(metavar="M")] = 3.0
    """Wall clock for the training."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/demo-en-de")
    """The run's folder."""
    beam: Annotated[int, arg(metavar="N")] = 4
    """Hypotheses kept at each step of the search."""


def run(args: Arguments) -> None:
    """Train, score, show, and say what to type next."""
    data = find_data("multi30k")
    device = args.apply()
    from regard.api import load
    from regard.data import read_pairs

    if not (args.out / "checkpoints" / "final").exists():
        words = ("translation", f"{data}/train.en.gz", f"{data}/train.de.gz")
        dev = (f"{data}/val.en.gz", f"{data}/val.de.gz")
        train.train_and_tell(
            train.Arguments(
                what=words, dev=dev, out=args.out, minutes=args.minutes, resume=(args.out / "latest").exists(),
                quiet=args.quiet, device=args.device, threads=args.threads, seed=args.seed,
            )
        )  # fmt: skip
    model = load(args.out, device=str(device))
    pairs = read_pairs([data / "test_2016_flickr.en.gz", data / "test_2016_flickr.de.gz"])
    outputs, metrics = evaluate.evaluate(model, pairs, beam=args.beam, quiet=args.quiet)
    if args.json:
        print_json({"model": args.out, "data": pairs.files, "examples": len(pairs), "metrics": metrics})
        return
    print(f"\nOn {len(pairs):,} sentences it has not seen (test_2016_flickr):\n")
    evaluate.show(metrics)
    chosen = range(0, len(pairs), len(pairs) // SHOWN)
    print()
    table(["English", "German by the model"], [(pairs.source[i], outputs[i]) for i in list(chosen)[:SHOWN]])
    print(f"\nnow: echo 'A man rides a bicycle.' | regard translate {args.out}\n     regard info {args.out}")
    print("your own: regard train translation SRC TGT --dev SRC TGT --out DIR --minutes 10")


def find_data(name: str) -> Path:
    """The folder of shared data: in $REGARD_DATA, else in shared/data beside the checkout or above where we are.

    Raises:
        DataError: it is in none of these places; says where to get it.
    """
    if "REGARD_DATA" in os.environ:
        places = [Path(os.environ["REGARD_DATA"])]
    else:
        starts = (Path.cwd(), Path(__file__).resolve().parent)
        places = [folder / "shared" / "data" for start in starts for folder in (start, *start.parents)]
    for place in places:
        if (place / name).is_dir():
            return place / name
    raise DataError(
        f"the data {name} is not on this machine", where=places[0] / name,
        expected="train, val and test_2016_flickr, each .en.gz and .de.gz",
        mend="put data/task1/raw of github.com/multi30k/dataset into FOLDER/multi30k, and set REGARD_DATA=FOLDER",
    )  # fmt: skip
