"""Labelled texts parted for recipes: one of a set's own folds kept for the test, or the first so many labels of a set.

What is unusual: which labels are the first is decided by a hash of their texts, class by class, so that the hundred are
among the thousand, and each class has its share in both.
What it does not know: tokens, models.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.data.files import read_lines
from regard.data.labelled import LabelValue, read_labelled
from regard.data.places import find_data
from regard.errors import DataError
from regard.hub.atomic import write_text_atomic


@dataclass(frozen=True, kw_only=True)
class FoldApart:
    """A table with a header whose rows say in which fold they are.

    Attributes:
        table: its name, for `find_data`; plain or gzip.
        column: the name of the one that says it.
        held: the fold that is the test.
    """

    kind: ClassVar[str] = "fold-apart"
    table: str
    column: str
    held: str

    def write(self, folder: Path) -> None:
        """Put train.tsv and test.tsv into `folder`, which is made; raises DataError without table, column or fold."""
        header, *lines = [line for line in read_lines(find_data(self.table)) if line.strip()]
        names = header.split("\t")
        if self.column not in names:
            raise DataError("the table has no such column", where=self.table, expected=", ".join(names),
                            got=self.column)  # fmt: skip
        place = names.index(self.column)
        parts: dict[bool, list[str]] = {True: [], False: []}
        for line in lines:
            parts[line.split("\t")[place] == self.held].append(line)
        if not parts[True] or not parts[False]:
            raise DataError("the table has no such fold, or no other", where=self.table, got=self.held)
        folder.mkdir(parents=True, exist_ok=True)
        for held, name in ((False, "train"), (True, "test")):
            write_text_atomic(folder / f"{name}.tsv", "\n".join([header, *parts[held], ""]))


@dataclass(frozen=True, kw_only=True)
class FewLabels:
    """So many of the examples of a set of texts with one class each; `table` is its name, for `find_data`."""

    kind: ClassVar[str] = "few-labels"
    table: str
    count: int

    def write(self, folder: Path) -> None:
        """Put train.jsonl into `folder`, which is made; raises DataError where the set is absent, bad or smaller."""
        examples = read_labelled([find_data(self.table)])
        if len(examples) < self.count:
            raise DataError("the set is smaller", where=self.table, expected=f"{self.count:,} examples or more",
                            got=f"{len(examples):,}")  # fmt: skip
        classes: dict[LabelValue, list[int]] = {}
        for i, label in enumerate(examples.labels):
            classes.setdefault(label, []).append(i)
        ranked = list[tuple[float, int]]()
        for members in classes.values():
            members.sort(key=lambda i: hashlib.sha256("\t".join(examples.texts[i]).encode("utf-8")).digest())
            ranked += [((place + 0.5) / len(members), i) for place, i in enumerate(members)]
        names = ("sentence1", "sentence2") if examples.paired else ("text",)
        rows = [
            json.dumps({**dict(zip(names, examples.texts[i], strict=True)), "label": examples.labels[i]},
                       ensure_ascii=False)
            for _, i in sorted(ranked)[: self.count]
        ]  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomic(folder / "train.jsonl", "\n".join([*rows, ""]))
