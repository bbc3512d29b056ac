"""Engines timed side by side: each in a process of its own, as its users run it, alternately for some rounds.

A script of this folder is also its own worker: `python SCRIPT --worker ENGINE --size SIZE --seconds N` prints, as the
last line, what it found as JSON: {"tokens_per_second": .., "warm_seconds": ..}. Nothing else should run beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that every such script has, beside its sizes."""
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=25, help="the most that one timing may take")
    parser.add_argument("--patience", type=float, default=400, help="seconds after which an engine is given up")
    parser.add_argument("--engines", nargs="+", default=None)
    parser.add_argument("--worker", default=None, help=argparse.SUPPRESS)


def alternately(
    script: str, engines: Sequence[str], size: str, arguments: argparse.Namespace
) -> dict[str, list[float]]:
    """Tokens a second of each engine in each round; an engine that fails or takes too long has fewer."""
    found: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(arguments.rounds):
        for engine in engines:
            if (outcome := run_worker(script, engine, size, arguments)) is None:
                continue
            found[engine].append(outcome["tokens_per_second"])
            print(f"  {size:5} {engine:30} {found[engine][-1]:8.0f} tokens/s, warm after "
                  f"{outcome['warm_seconds']:.0f} s", file=sys.stderr)  # fmt: skip
    return found


def run_worker(script: str, engine: str, size: str, arguments: argparse.Namespace) -> dict | None:
    """What one engine found, in a process of its own; None for one that failed or took too long, which is told."""
    command = [sys.executable, script, "--worker", engine, "--size", size, "--seconds", str(arguments.seconds)]
    # As the command `regard` does on a quiet machine; the peers run with the library's own default.
    spin = {"GOMP_SPINCOUNT": "100000"} if engine.startswith("regard") else {}
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=arguments.patience, env={**spin, **os.environ}
        )
    except subprocess.TimeoutExpired:
        print(f"  {size:5} {engine:30} gave no step in {arguments.patience:.0f} s", file=sys.stderr)
        return None
    if run.returncode:
        print(f"{engine}: failed\n{run.stderr[-2000:]}", file=sys.stderr)
        return None
    return json.loads(run.stdout.splitlines()[-1])


def medians(found: dict[str, list[float]]) -> dict[str, float]:
    """The median of each engine's rounds, quickest first; those that gave none are left out."""
    middle = {engine: statistics.median(rates) for engine, rates in found.items() if rates}
    return dict(sorted(middle.items(), key=lambda item: -item[1]))
