"""`regard embed`: a vector for each line of text, as one NumPy file.

What is unusual: nothing of the file is there before all of it is. What it does not know: how a text becomes a vector
(`regard.loaded`).
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from tyro.conf import Positional, arg

from regard.cli.common import InUse
from regard.cli.console import err_console, print_json, progress
from regard.cli.translate import arriving, slices
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Write a vector for each line of text, an empty one too: an array (lines, width) of float32, for numpy.load.

    regard embed models/minilm sentences.txt --out sentences.npy
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model with an encoder alone."""
    file: Annotated[Positional[Path], arg(metavar="[FILE]", help_behavior_hint="")] = Path("-")
    """The text, a line a text, plain or compressed; - is standard input (the default)."""
    out: Annotated[Path, arg(metavar="FILE.npy")]
    """Write here; the file appears when it is whole."""
    pooling: Literal["mean", "cls"] = "mean"
    """A text's vector: the mean of its tokens', or its first token's."""
    raw: bool = False
    """Leave vectors as long as they are; else each has length 1."""


def run(args: Arguments) -> None:
    """Embed some hundred lines at a time, and write."""
    args.apply()
    from regard.api import TOGETHER, load
    from regard.hub.atomic import replace_file

    if args.out.suffix != ".npy":
        raise ConfigError("the file is an array of NumPy's", where="--out", expected="a name that ends in .npy",
                          got=args.out, mend=f"--out {args.out.with_suffix('.npy')}")  # fmt: skip
    model = load(args.model, device=args.named_device, dtype=args.dtype)
    if args.file == Path("-") and sys.stdin.isatty() and not args.quiet:
        err_console.print("lines of text, then Ctrl-D")
    began, parts = time.monotonic(), [model.embed([], pooling=args.pooling)]
    with progress("embedding", quiet=args.quiet) as advance:
        count = 0
        for lines in arriving(TOGETHER) if args.file == Path("-") else slices(args.file, TOGETHER):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                parts.append(model.embed(lines, pooling=args.pooling, normalize=not args.raw))
            for warning in said:
                place = f"lines {count + 1:,} to {count + len(lines):,}"
                err_console.print(f"{place}: {warning.message}", markup=False)
            count += len(lines)
            advance(len(lines), "texts")
    vectors = np.concatenate(parts)
    replace_file(args.out, lambda draft: _save(draft, vectors))
    if args.json:
        seconds = round(time.monotonic() - began, 2)
        print_json({"texts": count, "width": vectors.shape[1], "seconds": seconds, "out": args.out})


def _save(path: Path, vectors: np.ndarray) -> None:
    with path.open("wb") as stream:  # given a name, np.save would add .npy to it
        np.save(stream, vectors)
