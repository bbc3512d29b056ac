"""From files of text to what a language model is trained and scored on: read, held out, counted.

What is unusual: what is held out never stands in the training too. Of many documents a seeded share goes, by the hash
of their texts, so that copies stay on one side; a single text gives its last tenth. A folder that `regard prepare`
wrote is read from the disk as it trains.
What it does not know: batches, models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import Finding
from regard.data.corpus import Corpus as Ids
from regard.data.documents import Document
from regard.data.documents import Documents as Reading
from regard.data.encoding import encode_documents
from regard.data.parts import describe, find_sources, share
from regard.data.shards import is_prepared, open_shards
from regard.errors import DataError
from regard.text import Tokenizer

SHARE, MOST = 0.1, 2_000
"""How much is held out: a tenth of the documents, and no more than so many."""
BYTES_A_TOKEN = 3.9
"""Of byte-level BPE with some thousand pieces on European text; on Chinese about 3."""
MOST_BYTES = 2**30
"""Text that is read into memory; more is prepared first."""


@dataclass(frozen=True)
class Documents:
    """Documents to train on and documents to look at.

    Attributes:
        train, dev: texts; empty where `prepared` holds them.
        prepared: the folders of prepared ids, of training and of development (None: held out of the first).
        letters: a token is a character.
        read: how the files were read, and what of them is no document, in sentences.
    """

    train: list[Document]
    dev: list[Document]
    findings: list[Finding]
    hashes: dict[str, str]
    held_out: bool
    prepared: tuple[Path, Path | None] | None = None
    letters: bool = False
    read: tuple[str, ...] = ()

    def told(self) -> list[str]:
        """What the user should hear of them."""
        if not self.held_out:
            return [*self.read]
        some = f"the last tenth of {self.dev[0].path.name} is" if self._one_text else f"{len(self.dev):,} documents are"
        if self.prepared:
            some = f"{_held(len(open_shards(self.prepared[0]))):,} documents are"
        return [*self.read, f"{some} held out for development (no --dev was given)"]

    @property
    def _one_text(self) -> bool:
        """Whether both sides are of the same document."""
        return len(self.train) == len(self.dev) == 1 and self.train[0].path == self.dev[0].path

    def where(self, index: int) -> str:
        """`file:line` of one training document."""
        if not self.train:
            return f"document {index:,}"
        return f"{self.train[index].path}:{self.train[index].line}"

    def amount(self) -> tuple[float, float]:
        """No source tokens, and about how many tokens one pass has."""
        if self.prepared:
            return 0.0, float(open_shards(self.prepared[0]).tokens)
        if self.letters:
            return 0.0, float(sum(len(document.text) for document in self.train))
        return 0.0, sum(map(_size, self.train)) / BYTES_A_TOKEN

    def counts(self) -> dict[str, int]:
        """Documents for training and for development."""
        if self.prepared:
            return {}
        return {"train_documents": len(self.train), "dev_documents": len(self.dev)}

    def tokenizer(self, recipe: Any) -> Tokenizer:
        """A vocabulary of the training texts, as the recipe's [tokenizer] says; a prepared folder's own."""
        if self.prepared:
            return Tokenizer.load(self.prepared[0])
        texts = (document.text for document in self.train)
        return Tokenizer.train(texts, kind=recipe.kind, vocab_size=recipe.vocab_size)

    def ids(self, tokenizer: Tokenizer, *, seed: int) -> tuple[Ids, Ids]:
        """Training and development documents as ids."""
        if self.prepared is None:
            return encode_documents(self.train, tokenizer), encode_documents(self.dev, tokenizer)
        train, dev = self.prepared
        whole = open_shards(train, tokenizer)
        if dev is not None:
            return whole, open_shards(dev, tokenizer)
        if len(whole) < 2:
            raise DataError("one document cannot be parted", where=train, expected="two documents, or --dev DIR")
        held = np.random.default_rng(seed).permutation(len(whole))[: _held(len(whole))]
        return whole.take(np.setdiff1d(np.arange(len(whole)), held)), whole.take(held)


def read_texts(
    train: Sequence[str], dev: Sequence[str], *, unit: str, field: str, skip_bad: int, seed: int, letters: bool
) -> Documents:
    """Read and check the documents of a run; without `dev` a seeded share is held out.

    Args:
        train, dev: files and folders of text, or one folder that `regard prepare` wrote.
        unit, field, skip_bad: see `data.documents.Documents`.
        letters: a token will be a character.

    Raises:
        DataError: a file or a line is bad, there is no text, or more than fits into memory.
    """
    if len(train) == 1 and is_prepared(Path(train[0])):
        return _prepared(Path(train[0]), [Path(folder) for folder in dev])
    texts, hashes, read = _read(train, unit, field, skip_bad)
    if dev:
        held, more, _ = _read(dev, unit, field, skip_bad)
        findings = [_size_of(texts), copies(texts), overlap(texts, held)]
        return Documents(texts, held, findings, hashes | more, held_out=False, letters=letters, read=read)
    kept, held = parted(texts, seed)
    return Documents(kept, held, [_size_of(texts), copies(texts)], hashes, held_out=True, letters=letters, read=read)


def _prepared(train: Path, dev: Sequence[Path]) -> Documents:
    """The documents in folders that `regard prepare` wrote."""
    if len(dev) > 1 or (dev and not is_prepared(dev[0])):
        raise DataError("a prepared corpus is looked at on a prepared one", where="--dev", expected="one such folder",
                        got=" ".join(map(str, dev)),
                        mend=f"regard prepare {dev[0]} --out DIR --tokenizer {train}")  # fmt: skip
    whole, folders = open_shards(train), (train, dev[0] if dev else None)
    hashes = {**whole.sha256, **(open_shards(dev[0]).sha256 if dev else {})}
    read = f"{len(whole):,} prepared documents, {whole.tokens:,} tokens"
    return Documents([], [], [], hashes, held_out=not dev, prepared=folders, read=(read,))


def _read(
    files: Sequence[str], unit: str, field: str, skip_bad: int
) -> tuple[list[Document], dict[str, str], tuple[str, ...]]:
    """The documents, the files' hashes, and what there is to say of them."""
    sources = find_sources([Path(file) for file in files])
    documents = Reading(share(sources, 0, 1), unit=unit, field=field, skip_bad=skip_bad)
    found, size = list[Document](), 0
    for document in documents:
        found.append(document)
        size += _size(document)
        if size > MOST_BYTES:
            raise DataError("the text is too much to be read at once", where=" ".join(files),
                            expected=f"at most {MOST_BYTES / 2**30:.0f} GiB",
                            mend=f"regard prepare {' '.join(files)} --out DIR, then train on DIR")  # fmt: skip
    if not found:
        raise DataError("there is no text", where=" ".join(files), expected="at least one document",
                        mend="name files with text in them; of tables --field says which column it is in")  # fmt: skip
    left = ((documents.empty, "empty documents"), (len(documents.skipped), "bad lines"))
    said = [f"{what} left out: {count:,}" for count, what in left if count]
    return found, documents.sha256, (*describe(sources, unit, field), *said)


def parted(texts: list[Document], seed: int) -> tuple[list[Document], list[Document]]:
    """What is trained on, and what is held out; copies are on one side, and a single text is cut.

    Raises:
        DataError: there is too little of it, or all texts are alike.
    """
    if len(texts) == 1:
        one = texts[0]
        cut = int((1 - SHARE) * len(one.text))
        if not one.text[:cut].strip() or not one.text[cut:].strip():
            raise DataError("the text is too short to hold some of it out", where=one.path, mend="give --dev FILE")
        line = one.line + one.text.count("\n", 0, cut)
        return [replace(one, text=one.text[:cut])], [replace(one, text=one.text[cut:], line=line)]
    order = sorted(range(len(texts)), key=lambda i: _rank(texts[i], seed))
    last = _rank(texts[order[_held(len(texts)) - 1]], seed)
    held = {i for i in order if _rank(texts[i], seed) <= last}
    if len(held) == len(texts):
        raise DataError("all documents are alike, so none can be held out", got=f"{len(texts):,} copies",
                        mend="give --dev FILES")  # fmt: skip
    return [text for i, text in enumerate(texts) if i not in held], [texts[i] for i in sorted(held)]


def _held(count: int) -> int:
    return min(MOST, max(1, int(SHARE * count)))


def _rank(document: Document, seed: int) -> bytes:
    """The same for copies, and otherwise by chance."""
    return hashlib.sha256(f"{seed} {document.text.strip()}".encode("utf-8", "surrogatepass")).digest()


def _size(document: Document) -> int:
    return len(document.text.encode("utf-8", "surrogatepass"))


def _size_of(texts: Sequence[Document]) -> Finding:
    size = sum(map(_size, texts))
    few = size < 100_000
    sentence = f"{len(texts):,} documents, {size / 1e6:,.2f} MB of text"
    return Finding("documents", len(texts) if few else 0, "note" if few else "ok",
                   f"{sentence}: little to learn a language from" if few else sentence)  # fmt: skip


def copies(texts: Sequence[Document]) -> Finding:
    """How many documents stand there again: they are learned as often, and are held out together or not at all."""
    seen, again = set[bytes](), list[str]()
    for document in texts:
        if (rank := _rank(document, 0)) in seen:
            again.append(f"{document.path}:{document.line}")
        seen.add(rank)
    sentence = f"{len(again):,} of {len(texts):,} documents are copies of an earlier one"
    return Finding("copies", len(again), "note" if again else "ok", sentence, tuple(again[:3]))


def overlap(train: Sequence[Document], dev: Sequence[Document]) -> Finding:
    """How many development documents are in the training too, which is none that should be."""
    known = {_rank(document, 0) for document in train}
    shared = [f"{document.path}:{document.line}" for document in dev if _rank(document, 0) in known]
    sentence = f"{len(shared):,} of {len(dev):,} development documents are in the training too"
    return Finding("overlap", len(shared), "warn" if shared else "ok", sentence, tuple(shared[:3]))
