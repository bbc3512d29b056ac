"""From files of tagged sentences to what a tagger is trained and scored on: read, held out, checked.

What is unusual: a sentence is learned as the text of its words with spaces between, so that its spans are characters of
a text, as they are of any text that a tagger is given later.
What it does not know: ids, batches, models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data import Finding
from regard.data.checks import EXAMPLES
from regard.data.conll import Tagged, parted, read_tagged
from regard.errors import DataError
from regard.tasks.base import CHARACTERS_A_TOKEN
from regard.tasks.examples import AROUND

FEW_SENTENCES = 200
SHOWN = 8


@dataclass(frozen=True)
class Sentences:
    """Sentences to train on and sentences to look at, with all that was found wrong with them."""

    train: Tagged
    dev: Tagged
    findings: list[Finding]
    held_out: bool
    """The development sentences were taken from the training files."""

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file read."""
        return {**self.train.sha256, **self.dev.sha256}

    @property
    def texts(self) -> list[str]:
        """All training sentences as texts."""
        return [" ".join(words) for words in self.train.words]

    def told(self) -> list[str]:
        """What the user should hear of them, a sentence each."""
        names = self.train.names
        said = [f"{len(self.train):,} sentences with spans of {len(names):,} kinds: {', '.join(names[:SHOWN])}"]
        if self.held_out:
            said.append(f"{len(self.dev):,} sentences are held out for development (no --dev was given)")
        return said

    def amount(self) -> tuple[float, float]:
        """About how many tokens one pass has, on the one side that there is."""
        tokens = sum(map(len, self.texts)) / CHARACTERS_A_TOKEN + AROUND * len(self.train)
        return tokens, tokens

    def counts(self) -> dict[str, int]:
        """Sentences for training and for development."""
        return {"train_sentences": len(self.train), "dev_sentences": len(self.dev)}

    def where(self, index: int) -> str:
        """`file:line` of one training sentence."""
        return self.train.where(index)


def read_sentences(train: Sequence[str], dev: Sequence[str], *, skip_bad: int, seed: int) -> Sentences:
    """Read and check the sentences of a run; without `dev`, a seeded tenth (at most 2,000) is held out.

    Raises:
        DataError: a file or a line is bad, there are no spans, or a kind of span stands in `dev` alone.
    """
    sentences = read_tagged([Path(path) for path in train], skip_bad=skip_bad)
    if not sentences.names:
        raise DataError("there is nothing to find: every word is outside", where=" and ".join(train),
                        expected="tags like B-NAME in the last column")  # fmt: skip
    if dev:
        kept, held = sentences, read_tagged([Path(path) for path in dev], skip_bad=skip_bad)
        refuse_unseen_names(held, kept.names)
    else:
        kept, held = split_tagged(sentences, seed=seed)
    return Sentences(kept, held, check_tagged(sentences, held if dev else None), held_out=not dev)


def refuse_unseen_names(sentences: Tagged, names: Sequence[str]) -> None:
    """Raise DataError for the first sentence with a kind of span that is not among those that a model knows."""
    for i, tags in enumerate(sentences.tags):
        for place, (_, name) in enumerate(map(parted, tags)):
            if name and name not in names:
                raise DataError("a kind of span that training does not have", where=sentences.where(i),
                                expected=", ".join(names), got=f"{name} at the word {sentences.words[i][place]!r}",
                                mend="correct the tag, or train on sentences that have it")  # fmt: skip


def check_tagged(train: Tagged, dev: Tagged | None = None) -> list[Finding]:
    """How many sentences and spans there are, what repeats, what training and development share."""
    few = len(train) < FEW_SENTENCES
    more = f": under {FEW_SENTENCES:,} is very little to learn from" if few else ""
    counts = Counter(name for tags in train.tags for prefix, name in map(parted, tags) if prefix == "B")
    told = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(SHOWN))
    first: dict[tuple[str, ...], int] = {}
    repeated = [i for i, words in enumerate(train.words) if first.setdefault(tuple(words), i) != i]
    findings = [
        Finding("sentences", len(train), "warn" if few else "ok", f"{len(train):,} sentences{more}"),
        Finding("spans", counts.total(), "ok", f"{counts.total():,} spans: {told}"),
        Finding("skipped", len(train.skipped), "warn" if train.skipped else "ok",
                f"{len(train.skipped):,} bad lines were left out with their sentences",
                tuple(str(error.where) for error in train.skipped[:EXAMPLES])),
        _finding("duplicate", train, repeated, "repeat an earlier sentence"),
    ]  # fmt: skip
    if dev is not None:
        shared = [i for i, words in enumerate(dev.words) if tuple(words) in first]
        findings.append(_finding("overlap", dev, shared, "held out are in the training too"))
    return findings


def _finding(name: str, sentences: Tagged, hits: Sequence[int], predicate: str) -> Finding:
    share = f" ({len(hits) / len(sentences):.1%})" if hits else ""
    said = f"{len(hits):,} of {len(sentences):,} sentences{share} {predicate}"
    severe = "warn" if name == "overlap" else "note"
    where = tuple(sentences.where(i) for i in hits[:EXAMPLES])
    return Finding(name, len(hits), severe if hits else "ok", said, where)  # type: ignore[arg-type]


def split_tagged(sentences: Tagged, *, seed: int, fraction: float = 0.1, at_most: int = 2_000) -> tuple[Tagged, Tagged]:
    """(train, dev): a share held out at random; equal sentences stay together, and no kind of span leaves the training.

    Raises:
        DataError: nothing can be held out.
    """
    numbers: dict[tuple[str, ...], int] = {}
    group = np.array([numbers.setdefault(tuple(words), len(numbers)) for words in sentences.words])
    members: dict[int, list[int]] = {}
    for i, number in enumerate(group.tolist()):
        members.setdefault(number, []).append(i)
    kinds = {number: Counter(name for i in own for _, name in map(parted, sentences.tags[i]) if name)
             for number, own in members.items()}  # fmt: skip
    left = sum(kinds.values(), Counter[str]())
    wanted, held, taken = min(at_most, max(1, round(fraction * len(sentences)))), set[int](), 0
    for number in np.random.default_rng(seed).permutation(len(members)).tolist():
        own = len(members[number])
        if taken + own > min(wanted, len(sentences) - 1) or any(left[k] <= n for k, n in kinds[number].items()):
            continue
        held.add(number)
        taken += own
        left -= kinds[number]
    if not held:
        raise DataError("no part can be held out", where=" and ".join(map(str, sentences.files)),
                        got=f"{len(sentences):,} sentences", mend="give a development set with --dev")  # fmt: skip
    is_dev = np.isin(group, list(held))
    return sentences.take(np.flatnonzero(~is_dev).tolist()), sentences.take(np.flatnonzero(is_dev).tolist())
