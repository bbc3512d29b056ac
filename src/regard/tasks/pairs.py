"""From files of pairs to what a translator is trained and scored on: read, held out, cleaned, checked, counted.

What it does not know: ids, batches, models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data import Finding, Pairs, check_pairs, clean, read_pairs, split_dev


@dataclass(frozen=True)
class Corpus:
    """Pairs to train on and pairs to look at, with all that was found wrong with them."""

    train: Pairs
    dev: Pairs
    languages: tuple[str | None, str | None]
    findings: list[Finding]
    held_out: bool
    """The development pairs were taken from the training files."""

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file read."""
        return {**self.train.sha256, **self.dev.sha256}


def read_corpus(
    train: Sequence[str],
    dev: Sequence[str],
    *,
    columns: tuple[str, str] | None,
    languages: tuple[str, str] | None,
    skip_bad: int,
    seed: int,
) -> Corpus:
    """Read and check the pairs of a run; without `dev`, a seeded tenth (at most 2,000) is held out.

    Raises:
        DataError: a file or a line is bad, or nothing is left to train on.
    """
    pairs = read_pairs([Path(p) for p in train], columns=columns, skip_bad=skip_bad)
    if dev:
        held = read_pairs([Path(p) for p in dev], columns=columns, skip_bad=skip_bad)
        kept = pairs
    else:
        kept, held = split_dev(clean(pairs), seed=seed)
    findings = check_pairs(pairs, held if dev else None)
    return Corpus(clean(kept), clean(held), languages or pairs.languages, findings, held_out=not dev)
