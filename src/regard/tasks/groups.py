"""Which inputs go through a model together: those of like length, so that little is padding.

What it does not know: what the inputs are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch


def tokens_together(device: torch.device) -> int:
    """Tokens that an encoder reads in one pass, padding included.

    On a CPU what passes between two layers is to stay in its caches, and small groups have little padding: MiniLM reads
    1.7 times as many sentences a second by 1,000 tokens as by 8,000 (python bench/inference.py --work encoder
    --engines "regard fp32", with either number here). Other devices want large products.
    """
    return 1_000 if device.type == "cpu" else 8_000


def alike(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """The numbers of all inputs in groups, small ones first.

    A group takes len(group) * its largest size, which is at most `most`, or it is one input.
    """
    group: list[int] = []
    for i in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if group and (len(group) + 1) * sizes[i] > most:
            yield group
            group = []
        group.append(i)
    if group:
        yield group
