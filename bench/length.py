"""Memory and time of one pass against the length of its one row, for each way in which a decoder can know order.

    python bench/length.py [--schemes rope window ..] [--lengths 1024 2048 .. 16384] [--passes training inference]

A decoder of one layer, width 64, 4 heads, reads T tokens; training is a forward and a backward pass, inference a
forward pass alone. Each point is measured in a process of its own: the peak of its resident memory above what it held
before the pass (a short pass came first, which pays for setting up), and the quickest of a few passes. The exponent is
the slope of a straight line through the logarithms: memory ~ T^a; 1 is linear. Architecture.md, decision 11, promises
linear memory for all of these; a window promises linear time as well, the others take T^2 at last.

    window       rotary positions, and each token sees the 256 up to it
    documents    rotary positions, and the row holds documents of 256 tokens, each blind to the others
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMES = ("none", "sinusoidal", "learned", "rope", "alibi", "window", "documents")
PASSES = ("training", "inference")
WINDOW, WIDTH, HEADS, VOCABULARY, SHORT = 256, 64, 4, 64, 64


def make_pass(scheme: str, kind: str, longest: int) -> Callable[[int], None]:
    """`run(T)` makes one pass over T random tokens."""
    import torch

    from regard.model import (
        Alibi,
        Learned,
        NoPositions,
        Rope,
        Sinusoidal,
        TransformerConfig,
        Window,
        make_language_model,
    )

    window = Window(size=WINDOW) if scheme == "window" else None
    axes = {"none": NoPositions(), "sinusoidal": Sinusoidal(), "learned": Learned(), "alibi": Alibi()}
    config = TransformerConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, n_heads=HEADS, d_ff=4 * WIDTH, n_decoder_layers=1, max_len=longest,
        norm_order="pre", positions=axes.get(scheme, Rope()), window=window,
    )  # fmt: skip
    transformer = make_language_model(config).transformer

    def run(length: int) -> None:
        ids = torch.randint(VOCABULARY, (1, length))
        told = {"documents": torch.arange(length)[None] // WINDOW, "pos": torch.arange(length)[None] % WINDOW}
        with torch.set_grad_enabled(kind == "training"):
            hidden = transformer.decode(ids, transformer.start(), **(told if scheme == "documents" else {}))
            if kind == "training":
                hidden.square().mean().backward()

    return run


def memory(name: str) -> int:
    """VmRSS, resident now, or VmHWM, the most that has been; in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def growth(run: Callable[[int], None], length: int) -> int:
    """Bytes of the peak of resident memory in one pass above what is held before it."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on (proc(5))
    before = memory("VmRSS")
    run(length)
    return max(1, memory("VmHWM") - before)


def work(scheme: str, kind: str, length: int) -> None:
    """Measure one point and print it as JSON."""
    run = make_pass(scheme, kind, length)
    run(SHORT)
    grown = growth(run, length)
    times, end = list[float](), time.perf_counter() + 2
    while not times or (len(times) < 3 and time.perf_counter() < end):
        began = time.perf_counter()
        run(length)
        times.append(time.perf_counter() - began)
    print(json.dumps({"bytes": grown, "seconds": min(times)}))


def measured(scheme: str, kind: str, length: int) -> tuple[float, float]:
    """Bytes and seconds of one point, from a fresh process."""
    command = [sys.executable, __file__, "--worker", scheme, kind, str(length)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{scheme}, {kind}, {length}: failed\n{run.stderr[-2000:]}")
    outcome = json.loads(run.stdout.splitlines()[-1])
    return outcome["bytes"], outcome["seconds"]


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The slope of log value over log length, by least squares."""
    x, y = [math.log(length) for length in lengths], [math.log(value) for value in values]
    centre, level = sum(x) / len(x), sum(y) / len(y)
    return sum((a - centre) * (b - level) for a, b in zip(x, y, strict=True)) / sum((a - centre) ** 2 for a in x)


def main() -> None:
    """Measure every point and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--lengths", nargs="+", type=int, default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES))
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        scheme, kind, length = arguments.worker
        work(scheme, kind, int(length))
        return
    if len(arguments.lengths) < 2:
        parser.error("two lengths at least, for an exponent")
    for kind in arguments.passes:
        found = {scheme: [measured(scheme, kind, length) for length in arguments.lengths]
                 for scheme in arguments.schemes}  # fmt: skip
        for column, unit, factor in ((0, "MB", 1e-6), (1, "s", 1)):
            heads = " | ".join(f"{length:,}" for length in arguments.lengths)
            print(f"\n{kind}, {unit}\n| scheme | {heads} | exponent |\n|---{'|---' * len(arguments.lengths)}|---|")
            for scheme, points in found.items():
                values = [point[column] for point in points]
                cells = " | ".join(f"{factor * value:,.3g}" for value in values)
                print(f"| {scheme} | {cells} | {exponent(arguments.lengths, values):.2f} |")


if __name__ == "__main__":
    main()
