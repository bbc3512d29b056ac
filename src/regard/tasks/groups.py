"""Which inputs go through a model together: those of like length, so that little is padding.

What it does not know: what the inputs are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


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
