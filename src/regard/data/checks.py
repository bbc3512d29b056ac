"""Looking at pairs before training: what is odd, how often, and where.

What it is: `check_pairs` gives findings, one a check, each with a count, a sentence and examples; `clean` drops what
cannot be trained on; `split_dev` holds out a part.
What is unusual: the held-out part never shares a source text or a target text with the rest, and has its lengths.
What it does not know: how findings are shown, and where the pairs came from (`Pairs.where` tells).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.data.sources import Pairs
from regard.errors import DataError
from regard.text import Tokenizer

Severity = Literal["ok", "note", "warn", "error"]

FEW_PAIRS = 1_000
LONG_CHARACTERS = 1_000
LENGTH_RATIO = 9  # Moses' clean-corpus-n.perl
RATIO_FROM = 40  # characters; "No." may well be "Auf gar keinen Fall.", so short texts have no meaningful ratio
EXAMPLES = 3
# Everything below a space but the tab, DEL and C1, the mark of a decoding gone wrong, lone surrogates.
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd\ud800-\udfff]")


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        name: of the check, for machines.
        count: how many pairs it met.
        severity: "ok" when it met none; "error" means that training on this cannot be meant.
        sentence: for people.
        examples: `file:line` of the first few.
    """

    name: str
    count: int
    severity: Severity
    sentence: str
    examples: tuple[str, ...] = ()


def _is_empty(source: str, target: str) -> bool:
    return not (source.strip() and target.strip())


def _is_lopsided(source: str, target: str) -> bool:
    short, long = sorted((len(source), len(target)))
    return short > 0 and long > max(RATIO_FROM, LENGTH_RATIO * short)


def _is_long(source: str, target: str) -> bool:
    return max(len(source), len(target)) > LONG_CHARACTERS


def _is_same(source: str, target: str) -> bool:
    return source == target != ""


def _has_control(source: str, target: str) -> bool:
    return bool(CONTROL.search(source) or CONTROL.search(target))


# The checks that look at one pair at a time: name, severity, what is said of the pairs it meets, the test.
CHECKS: tuple[tuple[str, Severity, str, Callable[[str, str], bool]], ...] = (
    ("empty", "warn", "have an empty side and are left out", _is_empty),
    ("ratio", "warn", f"have one side over {LENGTH_RATIO} times as long as the other", _is_lopsided),
    ("long", "note", f"have a side of over {LONG_CHARACTERS:,} characters", _is_long),
    ("same", "note", "have source equal to target", _is_same),
    ("control", "warn", "hold control characters, U+FFFD or lone surrogates", _has_control),
)


def check_pairs(train: Pairs, dev: Pairs | None = None, *, tokenizer: Tokenizer | None = None) -> list[Finding]:
    """Every check on the training pairs, and on their overlap with `dev`; with a tokenizer, what it cannot write.

    Time and memory are linear in the pairs: 29,000 take well under a second.
    """
    findings = [_size(train), _skipped(train), _duplicates(train)]
    for name, severity, predicate, test in CHECKS:
        hits = [i for i, pair in enumerate(zip(train.source, train.target, strict=True)) if test(*pair)]
        findings.append(_finding(name, train, hits, severity, predicate))
    if dev is not None:
        findings.append(_overlap(train, dev))
    if tokenizer is not None:
        findings.append(_unwritable(train, tokenizer))
    return findings


def _finding(name: str, pairs: Pairs, hits: Sequence[int], severity: Severity, predicate: str) -> Finding:
    examples = tuple(pairs.where(i) for i in hits[:EXAMPLES])
    share = f" ({len(hits) / len(pairs):.1%})" if hits else ""
    sentence = f"{len(hits):,} of {len(pairs):,} pairs{share} {predicate}"
    return Finding(name, len(hits), severity if hits else "ok", sentence, examples)


def _size(pairs: Pairs) -> Finding:
    few = len(pairs) < FEW_PAIRS
    sentence = f"{len(pairs):,} pairs" + (f": under {FEW_PAIRS:,} is very little to learn from" if few else "")
    return Finding("pairs", len(pairs), "warn" if few else "ok", sentence)


def _skipped(pairs: Pairs) -> Finding:
    count = len(pairs.skipped)
    examples = tuple(str(error.where) for error in pairs.skipped[:EXAMPLES])
    return Finding("skipped", count, "warn" if count else "ok", f"{count:,} bad lines were left out", examples)


def _duplicates(pairs: Pairs) -> Finding:
    first: dict[tuple[str, ...], int] = {}
    columns = (pairs.source, pairs.target) if pairs.to is None else (pairs.source, pairs.target, pairs.to)
    hits = [i for i, pair in enumerate(zip(*columns, strict=True)) if first.setdefault(pair, i) != i]
    return _finding("duplicate", pairs, hits, "note", "repeat an earlier pair")


def _overlap(train: Pairs, dev: Pairs) -> Finding:
    known = set(train.source)
    hits = [i for i, source in enumerate(dev.source) if source in known]
    return _finding("overlap", dev, hits, "warn", "held out have a source text that is in the training pairs too")


def _unwritable(pairs: Pairs, tokenizer: Tokenizer) -> Finding:
    unknown = tokenizer.unwritable("".join(set().union(*pairs.source, *pairs.target)))
    if not unknown:
        return Finding("unwritable", 0, "ok", "the vocabulary can write every character")
    shown = " ".join(repr(char) for char in sorted(unknown)[:10])
    hits = [i for i in range(len(pairs)) if not unknown.isdisjoint(pairs.source[i] + pairs.target[i])]
    return _finding("unwritable", pairs, hits, "warn", f"hold characters that the vocabulary cannot write: {shown}")


def clean(pairs: Pairs) -> Pairs:
    """The pairs without those that have an empty side; `check_pairs` on the argument reports them.

    Raises:
        DataError: nothing is left.
    """
    kept = [i for i, pair in enumerate(zip(pairs.source, pairs.target, strict=True)) if not _is_empty(*pair)]
    if not kept:
        where = " and ".join(map(str, pairs.files))
        raise DataError("every pair has an empty side", where=where, got=f"{len(pairs):,} pairs",
                        mend="of a table, name the two columns: --columns A,B")  # fmt: skip
    return pairs.take(kept)


def split_dev(pairs: Pairs, *, seed: int, fraction: float = 0.1, at_most: int = 2_000) -> tuple[Pairs, Pairs]:
    """(train, dev): `fraction` of the pairs held out, but at most `at_most`; both keep the order of the files.

    Pairs that share a source text or a target text, directly or through others, form a group and stay together. Groups
    are laid out by length and one is drawn from each of as many equal stretches as pairs are wanted, so that dev has
    the lengths of the whole. Where texts repeat, dev may come out smaller.

    Raises:
        DataError: there are not two groups to part.
    """
    group = _groups(pairs)
    size = np.bincount(group)
    wanted = min(at_most, max(1, round(fraction * len(pairs))))
    length = np.bincount(group, weights=[len(text) for text in pairs.source]) / np.maximum(size, 1)
    rng = np.random.default_rng(seed)
    members = np.flatnonzero(size)
    members = members[np.lexsort((rng.random(len(members)), length[members]))]
    stretch = (np.cumsum(size[members]) - 1) * wanted // len(pairs)
    held, room = list[int](), min(wanted, len(pairs) - 1)
    draw = rng.permutation(len(members))
    _, firsts = np.unique(stretch[draw], return_index=True)
    for chosen in members[draw[np.sort(firsts)]]:
        if size[chosen] <= room:
            held.append(chosen)
            room -= size[chosen]
    if not held:
        raise DataError(
            "no part can be held out: the pairs share their texts",
            where=" and ".join(map(str, pairs.files)),
            got=f"{len(pairs):,} pairs in {len(members):,} groups",
            mend="give a development set with --dev",
        )
    is_dev = np.isin(group, held)
    return pairs.take(np.flatnonzero(~is_dev).tolist()), pairs.take(np.flatnonzero(is_dev).tolist())


def _groups(pairs: Pairs) -> np.ndarray:
    """A number for each pair, equal for pairs connected by shared texts (union-find; a group is named by a member)."""
    parent = list(range(len(pairs)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    for texts in (pairs.source, pairs.target):
        first: dict[str, int] = {}
        for i, text in enumerate(texts):
            parent[root(i)] = root(first.setdefault(text, i))
    return np.array([root(i) for i in range(len(pairs))])
