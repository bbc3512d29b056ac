"""From files of pairs to what a translator is trained and scored on: read, held out, cleaned, checked, counted.

What is unusual: pairs of another kind (back-translated ones: written text whose source is a model's) only join the
training, behind a tag, and never share a text with what is held out.

What it does not know: ids, batches, models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.data import Finding, Pairs, check_pairs, clean, read_pairs, split_dev
from regard.errors import ConfigError
from regard.tasks.base import CHARACTERS_A_TOKEN
from regard.tasks.prefix import tag_token


@dataclass(frozen=True)
class Corpus:
    """Pairs to train on and pairs to look at, with all that was found wrong with them."""

    train: Pairs
    dev: Pairs
    findings: list[Finding]
    held_out: bool
    """The development pairs were taken from the training files."""
    extra: Pairs | None = None
    """More pairs to train on."""
    tag: str | None = None
    """What their sources are marked with."""

    @property
    def parts(self) -> tuple[tuple[Pairs, str | None], ...]:
        """All that is trained on, in order, with the tag of the sources."""
        return (self.train, None), *([(self.extra, self.tag)] if self.extra else [])

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """All training sources, and all training targets."""
        parts = [pairs for pairs, _ in self.parts]
        return [text for part in parts for text in part.source], [text for part in parts for text in part.target]

    @property
    def targets(self) -> tuple[str, ...]:
        """The target languages that the training pairs name one by one, sorted; none where there is one direction."""
        return tuple(sorted(set(self.train.to or ())))

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target, where they are known; several targets are none."""
        source, target = self.train.languages
        return source, self.targets[0] if len(self.targets) == 1 else None if self.targets else target

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file read."""
        return {**self.train.sha256, **self.dev.sha256, **(self.extra.sha256 if self.extra else {})}

    def told(self) -> list[str]:
        """What the user should hear of them, a sentence each."""
        said = []
        if self.held_out:
            said.append(f"{len(self.dev):,} pairs are held out for development (no --dev was given)")
        if None in self.languages and not self.targets:
            said.append("the files do not name their languages, so the model will be one of unknown languages: name "
                        "them with --languages en,de, or in the files' names (train.en, train.de)")  # fmt: skip
        if len(self.targets) > 1:
            said.append(f"target languages, chosen by a token before the source: {', '.join(self.targets)}")
        if self.extra:
            marked = f", their sources marked {tag_token(self.tag)}" if self.tag else ""
            said.append(f"{len(self.extra):,} extra pairs{marked}")
        return said

    def amount(self) -> tuple[float, float]:
        """About how many source and how many target tokens one pass has."""
        source, target = (sum(map(len, side)) / CHARACTERS_A_TOKEN for side in self.sides)
        return source, target

    def counts(self) -> dict[str, int]:
        """Pairs for training and for development."""
        return {"train_pairs": len(self.train), "dev_pairs": len(self.dev)}

    def where(self, index: int) -> str:
        """`file:line` of one training pair."""
        for pairs, _ in self.parts:
            if index < len(pairs):
                return pairs.where(index)
            index -= len(pairs)
        raise IndexError(index)


def read_corpus(
    train: Sequence[str],
    dev: Sequence[str],
    *,
    extra: Sequence[str] = (),
    tag: str | None = None,
    columns: tuple[str, str] | None,
    languages: tuple[str, str] | None,
    skip_bad: int,
    seed: int,
) -> Corpus:
    """Read and check the pairs of a run; without `dev`, a seeded tenth (at most 2,000) is held out.

    Raises:
        DataError: a file or a line is bad, or nothing is left to train on.
        ConfigError: a tag, and no extra pairs to mark with it.
    """
    if tag is not None and not extra:
        raise ConfigError("there are no extra pairs to mark", where="data.extra_tag", got=tag,
                          mend="name them: --extra SRC TGT")  # fmt: skip

    def read(files: Sequence[str]) -> Pairs:
        chosen = columns if files is train or len(files) == 1 else None
        pairs = read_pairs([Path(path) for path in files], columns=chosen, languages=languages, skip_bad=skip_bad)
        return replace(pairs, languages=languages) if languages else pairs

    pairs = read(train)
    if dev:
        kept, held = pairs, read(dev)
    else:
        kept, held = split_dev(clean(pairs), seed=seed)
    findings = check_pairs(pairs, held if dev else None)
    more = read(extra) if extra else None
    if more:
        findings += [found for found in check_pairs(more, held) if found.count and found.name != "pairs"]
        more = _apart(clean(more), held)
    return Corpus(clean(kept), clean(held), findings, held_out=not dev, extra=more, tag=tag)


def _apart(pairs: Pairs, held: Pairs) -> Pairs:
    """The pairs that share no text with the held-out ones."""
    known = {*held.source, *held.target}
    return pairs.take([i for i in range(len(pairs)) if known.isdisjoint((pairs.source[i], pairs.target[i]))])
