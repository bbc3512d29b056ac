"""The loss over a vocabulary: ours beside torch's, forward and backward together, milliseconds and memory.

    python bench/losses.py [--rounds 5] [--sizes 2000x128x10000 4096x384x16000]

    regard      regard.tasks.losses.linear_cross_entropy, in parts
    torch       F.linear_cross_entropy as it comes: the whole logits
    chunked     the same with LinearCrossEntropyOptions(), in parts
    logits      F.linear, then F.cross_entropy: the whole logits

A size is tokens x width x vocabulary. The engines take turns; a time is the median of the rounds, memory the most that
was resident above what it was before (one engine in a process of its own, where Linux tells). Gradients are compared
before anything is timed. Nothing else should run beside this.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.runtime import keep_freed_memory
from regard.tasks.losses import linear_cross_entropy

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def engines() -> dict[str, Loss]:
    """Sums over all tokens, by name; torch's own from the version that has them."""
    found: dict[str, Loss] = {
        "regard": linear_cross_entropy,
        "logits": lambda h, w, t: F.cross_entropy(F.linear(h, w).float(), t, reduction="sum"),
    }
    if hasattr(F, "linear_cross_entropy"):
        options = torch.nn.LinearCrossEntropyOptions
        found["torch"] = lambda h, w, t: F.linear_cross_entropy(h, w, t, reduction="sum")
        found["chunked"] = lambda h, w, t: F.linear_cross_entropy(h, w, t, reduction="sum", options=options())
    return found


def inputs(size: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """hidden (N, D), weight (V, D), targets (N,)."""
    tokens, width, vocabulary = map(int, size.split("x"))
    torch.manual_seed(0)
    hidden = torch.randn(tokens, width, dtype=dtype, requires_grad=True)
    weight = (torch.randn(vocabulary, width) * 0.02).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(vocabulary, (tokens,))


def once(loss: Loss, given: tuple[Tensor, Tensor, Tensor]) -> float:
    """Seconds for forward and backward."""
    given[0].grad = given[1].grad = None
    before = time.perf_counter()
    loss(*given).backward()
    return time.perf_counter() - before


def resident(name: str) -> int:
    """VmRSS or VmHWM in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1024


def memory(size: str, dtype: torch.dtype, engine: str, tell: multiprocessing.Queue) -> None:
    """Put the MiB that one pass takes at most."""
    given, before = inputs(size, dtype), resident("VmRSS")
    once(engines()[engine], given)
    tell.put(resident("VmHWM") - before)


def main() -> None:
    """A table for each size and kind of number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", default=["2000x128x10000", "4096x384x16000"])
    arguments, losses = parser.parse_args(), engines()
    keep_freed_memory()
    spawn = multiprocessing.get_context("spawn")
    for size in arguments.sizes:
        for dtype in (torch.float32, torch.bfloat16):
            given, gradients = inputs(size, dtype), dict[str, Tensor]()
            for name, loss in losses.items():
                once(loss, given)
                assert given[0].grad is not None
                gradients[name] = given[0].grad.float()
            spans: dict[str, list[float]] = {name: [] for name in losses}
            for _ in range(arguments.rounds):
                for name, loss in losses.items():
                    spans[name].append(once(loss, given))
            print(f"\n{size}, {str(dtype).removeprefix('torch.')}\n| loss | ms | memory, MiB | ours is | gradient |")
            print("|---|---|---|---|---|")
            ours = statistics.median(spans["regard"])
            for name in losses:
                (worker := spawn.Process(target=memory, args=(size, dtype, name, told := spawn.Queue()))).start()
                taken, median = told.get(), statistics.median(spans[name])
                worker.join()
                off = (gradients[name] - gradients["logits"]).norm() / gradients["logits"].norm()
                print(f"| {name} | {1e3 * median:.1f} | {taken:,} | {median / ours:.2f} x | {off:.1e} off |")


if __name__ == "__main__":
    main()
