"""What the process is told once about the machine it runs on.

What is unusual: the largest cost of training a small model on a CPU is not arithmetic but the operating system handing
out, zeroing and taking back the memory of tensors that live for a millisecond. glibc gives every block above 128 KiB
back to the kernel as soon as it is freed; told to keep it, the same step of a 4+4 layer, width 128 translator takes
much less CPU time (bench/training.py --ablate shows how much here).
What it does not know: models beyond what `use_kernels` takes.
"""

from __future__ import annotations

import ctypes
import sys

import torch

from regard.machine import LENGTHS, Speeds, attention_kernel
from regard.model import use_kernels

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_GROW = 64 * 2**20


def keep_freed_memory() -> bool:
    """Let the C library keep freed blocks for reuse, up to what the process has used at most.

    Returns:
        Whether it did: on Linux with glibc, unless the process was started with settings of its own.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_M_MMAP_THRESHOLD, 2**30), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, _GROW))
    return all(mallopt(name, value) == 1 for name, value in settings)


def longest_open(table: Speeds, device: torch.device, dtype: torch.dtype) -> int:
    """The greatest measured length up to which open attention is the quicker path on this machine; 0: none is."""
    longest = 0
    for length in LENGTHS:
        if attention_kernel(table, device, dtype, length) == "fused":
            break
        longest = length
    return longest


def open_attention_until(keys: int) -> None:
    """Let attention over at most so many keys take its open path in this process, and longer ones the fused kernel.

    A number, not the table itself: it stands in a run's recipe, so that a run repeated or resumed takes the same paths
    to the same bits, whatever is measured next time.
    """
    use_kernels(lambda kind, dtype, length: "open" if length <= keys else "fused")
