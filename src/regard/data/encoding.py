"""From documents to token ids, in bounded memory and on all threads.

What it is: `runs`, which encodes a stream of documents some megabytes at a time; `encode_documents`, a whole corpus;
`sample`, the texts that a vocabulary is learned from.
What is unusual: a long text is encoded in pieces, because the library keeps a hundred bytes a token while it works, and
one thread for one text. Together the pieces have the ids of the whole: each but the first is encoded with characters
before it, whose ids are then dropped, and begins only where those ids are seen to end.
What it does not know: where the documents come from and where the ids go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from regard.data.corpus import Corpus, Stretch
from regard.data.documents import Document, Documents
from regard.errors import DataError
from regard.text import Tokenizer

PIECE = 2**16
"""Characters of a long text that are encoded as one."""
TOGETHER = 2**21
"""Characters encoded by one call of the library."""
AROUND = 128
"""Characters before a piece that are encoded with it; and after its beginning, when that is tried."""
CUTS = (re.compile(r"\w(?=\n)"), re.compile(r"\w(?= \w)"), re.compile(r"[^\w\s](?=\w)"))
"""After which a piece may end: the last letter of a line, or of a word, or a mark before a letter."""
TRIES = 4
"""Of each, before the next is tried."""
SAMPLE = 2**25
"""Characters that a vocabulary is learned from, at most."""
VOCABULARIES = ((10 * 10**6, 8_000), (100 * 10**6, 16_000))
"""(bytes of a corpus, tokens of its vocabulary); a larger one has `LARGE_VOCABULARY`."""
LARGE_VOCABULARY = 32_000


def id_type(vocab_size: int) -> np.dtype:
    """The smallest type of the ids below `vocab_size`, little-endian."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def encode_documents(documents: Iterable[Document], tokenizer: Tokenizer) -> Corpus:
    """All of them in memory, 2 or 4 bytes a token; what `data.shards` keeps in files.

    Raises:
        DataError: there is not one. While reading, as `Documents`.
    """
    found = [(np.zeros(0, id_type(tokenizer.vocab_size)), 0), *runs(documents, tokenizer)]
    if len(found) == 1:
        files = " and ".join(documents.sha256) if isinstance(documents, Documents) else None
        raise DataError("there are no documents in it", where=files, expected="at least one text that is not empty")
    index = np.cumsum([(len(ids), size) for ids, size in found], axis=0, dtype=np.uint64)
    stretch = Stretch(np.concatenate([ids for ids, _ in found]), index[:-1], index[1:])
    return Corpus([stretch], dict(documents.sha256) if isinstance(documents, Documents) else {})


def runs(documents: Iterable[Document], tokenizer: Tokenizer) -> Iterator[tuple[np.ndarray, int]]:
    """(ids, bytes of the text in UTF-8) of each document that has ids; 2 or 4 bytes an id."""
    waiting, dtype, ids = _pieces(documents, tokenizer), id_type(tokenizer.vocab_size), list[np.ndarray]()
    while some := list(_first(waiting, TOGETHER)):
        for piece, found in zip(some, tokenizer.encode_batch([piece.text for piece in some]), strict=True):
            ids.append(np.array(found[piece.drop :], dtype=dtype))
            if piece.size is not None:
                run = ids[0] if len(ids) == 1 else np.concatenate(ids)
                if len(run):
                    yield run, piece.size
                ids = []


@dataclass(frozen=True)
class _Piece:
    """Some of a document.

    Attributes:
        text: with the characters before it.
        drop: how many ids those have.
        size: the bytes of the whole document, if this is the last of it.
    """

    text: str
    drop: int
    size: int | None


def _first(pieces: Iterator[_Piece], characters: int) -> Iterator[_Piece]:
    """So many pieces that they have as many characters, or one more; at least one if there is any."""
    while characters > 0 and (piece := next(pieces, None)):
        characters -= len(piece.text)
        yield piece


def _pieces(documents: Iterable[Document], tokenizer: Tokenizer) -> Iterator[_Piece]:
    for document in documents:
        text, size = document.text, len(document.text.encode("utf-8", "surrogatepass"))
        start, before, drop = 0, 0, 0
        while len(text) - start > PIECE:
            stop, known = _cut(text, start, tokenizer)
            yield _Piece(text[start - before : stop], drop, None)
            start, before, drop = stop, AROUND * (known is not None), known or 0
        yield _Piece(text[start - before :], drop, size)


def _cut(text: str, start: int, tokenizer: Tokenizer) -> tuple[int, int | None]:
    """Where the piece that begins at `start` ends, and how many ids the `AROUND` characters before that have.

    None in place of the latter: no token ends at any place that was tried, and so the next piece begins as a text does.
    """
    half, end = start + PIECE // 2, start + PIECE
    for cut in CUTS:
        places = [found.end() for found in cut.finditer(text, half, end - 1)]
        for place in islice(reversed(places), TRIES):
            ids = tokenizer.encode(text[place - AROUND : place + AROUND])
            before = tokenizer.encode(text[place - AROUND : place])
            if ids[: len(before)] == before:
                return place, len(before)
    return end, None


def sample(documents: Iterable[Document], characters: int = SAMPLE) -> list[str]:
    """Texts spread evenly over the documents, together at most so many characters, or one text.

    One pass in bounded memory: when there are too many, every second one goes, and from then on comes half as often.
    """
    kept, every, size = list[str](), 1, 0
    for number, document in enumerate(documents):
        if number % every == 0:
            kept.append(document.text)
            size += len(document.text)
            while len(kept) > 1 and size > characters:
                kept, every = kept[::2], 2 * every
                size = sum(map(len, kept))
    return kept


def vocabulary_size(corpus_bytes: int) -> int:
    """How many tokens suit a corpus of this size, where nobody says."""
    return next((size for most, size in VOCABULARIES if corpus_bytes <= most), LARGE_VOCABULARY)
