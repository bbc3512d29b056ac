"""From files of labelled texts to what a classifier is trained and scored on: read, held out, cleaned, checked.

What it does not know: ids, batches, models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data import Finding
from regard.data.label_checks import check_labelled, clean_labelled, refuse_few_classes, refuse_unseen, split_labelled
from regard.data.labelled import LabelKind, Labelled, read_labelled
from regard.tasks.base import CHARACTERS_A_TOKEN

AROUND = 2
"""Control tokens of an example."""


@dataclass(frozen=True)
class Examples:
    """Examples to train on and examples to look at, with all that was found wrong with them."""

    train: Labelled
    dev: Labelled
    findings: list[Finding]
    held_out: bool
    """The development examples were taken from the training files."""
    until: str | None = None
    """What of a class counted ended before this."""

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file read."""
        return {**self.train.sha256, **self.dev.sha256}

    @property
    def texts(self) -> list[str]:
        """All training texts, of pairs both."""
        return [text for row in self.train.texts for text in row]

    def told(self) -> list[str]:
        """What the user should hear of them, a sentence each."""
        what = "pairs of texts" if self.train.paired else "texts"
        kinds = {"one": f"one of {len(self.train.classes):,} classes",
                 "several": f"any of {len(self.train.classes):,} classes", "number": "a number"}  # fmt: skip
        said = [f"{len(self.train):,} {what}, each labelled with {kinds[self.train.kind]}"]
        if self.held_out:
            said.append(f"{len(self.dev):,} examples are held out for development (no --dev was given)")
        return said

    def amount(self) -> tuple[float, float]:
        """About how many tokens one pass has, on the one side that there is."""
        tokens = sum(map(len, self.texts)) / CHARACTERS_A_TOKEN + AROUND * len(self.train)
        return tokens, tokens

    def counts(self) -> dict[str, int]:
        """Examples for training and for development."""
        return {"train_examples": len(self.train), "dev_examples": len(self.dev)}

    def where(self, index: int) -> str:
        """`file:line` of one training example."""
        return self.train.where(index)


def read_examples(
    train: Sequence[str], dev: Sequence[str], *, kind: LabelKind, columns: Sequence[str] | None, until: str | None,
    skip_bad: int, seed: int,
) -> Examples:  # fmt: skip
    """Read and check the examples of a run; without `dev`, a seeded tenth of each class (at most 2,000) is held out.

    Raises:
        DataError: a file or a line is bad, there is nothing to tell apart, or a class stands in `dev` alone.
    """

    def read(files: Sequence[str]) -> Labelled:
        paths = [Path(path) for path in files]
        return read_labelled(paths, kind=kind, columns=columns, until=until, skip_bad=skip_bad)

    examples = read(train)
    kept = clean_labelled(examples)
    refuse_few_classes(kept)  # a class of nothing but empty texts is none
    if dev:
        held = clean_labelled(read(dev))
        refuse_unseen(held, kept.classes)
    else:
        kept, held = split_labelled(kept, seed=seed)
    return Examples(kept, held, check_labelled(examples, held if dev else None), held_out=not dev, until=until)
