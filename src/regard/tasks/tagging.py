"""Tagging (chapter 4.2): a class for each word, and from the classes spans of characters.

    words    How  far  is  Denver   from  Aspen        tags  O O O B-LOC O B-LOC
    tokens   How  far  is  Den ver  from  Asp en       the first token of a word is what is classified

What is unusual: a word is characters of the text, found by one rule in training and in use, and every token knows which
characters it stands for (`tasks.windows`), so a span is always a piece of the text itself. A text longer than the model
is read in pieces, each beginning with a word; nothing of it is left out.
What it does not know: files.

Shapes: N texts, T tokens, W words, C classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.conll import OUTSIDE, Tagged, spans_of
from regard.model import Model
from regard.tasks.base import evaluating
from regard.tasks.conventions import around
from regard.tasks.reading import Batch, Read, TextData, encode, hidden_states
from regard.tasks.windows import Passage
from regard.text import Tokenizer

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+(?:[-'.’]\w+)*|[^\w\s]")
"""What a text in use is cut into; a character where words have no spaces between."""
IGNORED = -100
Place = tuple[int, int]
"""The characters [start, stop) of a word."""


@dataclass(frozen=True)
class Piece:
    """What a model reads at once of a text.

    Attributes:
        read: its tokens.
        words: the numbers, in the text, of its words.
        places: of each of these the number of its first token in `read`.
    """

    read: Read
    words: list[int]
    places: list[int]


def words_of(text: str) -> list[Place]:
    """Where the words of a text stand."""
    return [found.span() for found in WORD.finditer(text)]


def joined(words: Sequence[str]) -> tuple[str, list[Place]]:
    """Words with spaces between as a text, and where they stand in it."""
    places, start = list[Place](), 0
    for word in words:
        places.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), places


def pieces_of(tokenizer: Tokenizer, text: str, words: Sequence[Place], most: int) -> list[Piece]:
    """A text in pieces of at most so many tokens, cut before words where it can be; one, if it is short enough.

    A word that no token stands for is in no piece. One longer than a piece alone goes on in the next, unlooked at.
    """
    passage = Passage.read(tokenizer, text)
    found = [(number, passage.tokens(*place)) for number, place in enumerate(words)]
    firsts = [(number, tokens[0]) for number, tokens in found if tokens]
    lead, end = around(tokenizer)
    before, room = len(lead), max(1, most - len(lead) - len(end))
    pieces, start = list[Piece](), 0
    while start < len(passage) or not pieces:
        stop = min(len(passage), start + room)
        if stop < len(passage):
            stop = max((first for _, first in firsts if start < first <= stop), default=stop)
        own = [(number, first - start + before) for number, first in firsts if start <= first < stop]
        read = Read(*tokenizer.wrap(passage.ids[start:stop].tolist()))
        pieces.append(Piece(read, [number for number, _ in own], [place for _, place in own]))
        start = stop
    return pieces


@dataclass(frozen=True)
class TaggingTask:
    """Cross entropy of the tag of each word, on its first token."""

    smoothing: float = 0.0

    def hidden(self, model: Model, batch: Batch) -> Tensor:
        """What the encoder makes of the texts, (B, T, D)."""
        return encode(model, batch.ids, batch.real, batch.types)

    def loss(self, model: Model, hidden: Tensor, batch: Batch) -> Tensor:
        """Sum over the batch's words."""
        chosen = batch.targets != IGNORED
        return self.of(model.head(hidden[chosen]), batch.targets[chosen])

    def of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The sum of the losses of logits (W, C) against (W,) ids."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.cross_entropy(logits, targets, label_smoothing=self.smoothing, reduction="sum")


def tag_words(
    model: Model, pieces: Sequence[Sequence[Piece]], counts: Sequence[int], n_labels: int
) -> list[np.ndarray]:
    """The logits of the words of N texts, (W, C) each; of a word in no piece all are 0.

    Args:
        pieces: of each text.
        counts: how many words each has.
        n_labels: C.
    """
    flat = [(number, piece) for number, own in enumerate(pieces) for piece in own]
    wide = torch.promote_types(model.transformer.tokens.weight.dtype, torch.float32)
    found = [torch.zeros(count, n_labels, dtype=wide).numpy() for count in counts]
    with evaluating(model):
        for rows, hidden, _ in hidden_states(model, [piece.read for _, piece in flat]):
            for row, states in zip(rows, hidden, strict=True):
                number, piece = flat[row]
                found[number][piece.words] = model.head(states[piece.places]).to(wide).cpu().numpy()
    return found


class TaggingData(TextData):
    """Tagged sentences of a run as ids. Words of a training sentence beyond the first piece are not learned from.

    Args:
        labels: the tags, in the order of their ids.
        most: the most tokens that are read at once.
        more: the arguments of `TextData`.
    """

    def __init__(
        self, tokenizer: Tokenizer, labels: Sequence[str], train: Tagged, dev: Tagged, *, most: int, **more: Any
    ) -> None:
        self.labels, self.dev = tuple(labels), dev
        ids = {tag: number for number, tag in enumerate(labels)}
        self.dev_pieces = [pieces_of(tokenizer, *joined(words), most) for words in dev.words]
        self.dev_targets = [np.array([ids[tag] for tag in tags]) for tags in dev.tags]
        pieces = [pieces_of(tokenizer, *joined(words), most) for words in train.words]
        own = [[ids[train.tags[i][word]] for word in first.words] for i, (first, *_) in enumerate(pieces)]

        def targets(rows: Sequence[int], width: int) -> tuple[Tensor, Tensor]:
            table = torch.full((len(rows), width), IGNORED)
            for place, row in enumerate(rows):
                table[place, pieces[row][0].places] = torch.tensor(own[row], dtype=torch.long)
            return table, torch.tensor([len(own[row]) for row in rows])

        cut = sum(len(every) > 1 for every in pieces)
        reads = [first.read for first, *_ in pieces]
        super().__init__(tokenizer, reads, targets, dropout=None, cut=cut, max_len=most, **more)

    def evaluate(self, model: Model) -> dict[str, float]:
        """dev_loss and dev_accuracy of words, and dev_span_f1, which says which model is best."""
        logits = tag_words(model, self.dev_pieces, [len(words) for words in self.dev.words], len(self.labels))
        flat, wanted = np.concatenate(logits), np.concatenate(self.dev_targets)
        loss = TaggingTask().of(torch.from_numpy(flat), torch.from_numpy(wanted))
        said = [[self.labels[i] for i in rows.argmax(1)] for rows in logits]
        f1 = span_scores(self.dev.tags, said).f1
        return {"dev_loss": float(loss) / max(1, len(wanted)), "dev_accuracy": float((flat.argmax(1) == wanted).mean()),
                "dev_span_f1": f1, "dev_merit": f1}  # fmt: skip


@dataclass(frozen=True)
class SpanScores:
    """How many spans there are, were given, and are right: the same words and the same kind.

    Attributes:
        by_kind: of each kind the three counts.
    """

    by_kind: Mapping[str, tuple[int, int, int]]

    @property
    def counts(self) -> tuple[int, int, int]:
        """The three counts of all kinds together."""
        there, given, right = (sum(row[i] for row in self.by_kind.values()) for i in range(3))
        return there, given, right

    @property
    def precision(self) -> float:
        """The share of those given that are right; 0 where none is given."""
        return self.counts[2] / max(1, self.counts[1])

    @property
    def recall(self) -> float:
        """The share of those there that are found; 0 where there is none."""
        return self.counts[2] / max(1, self.counts[0])

    @property
    def f1(self) -> float:
        """The harmonic mean of the two, as conlleval and seqeval count it."""
        return 2 * self.counts[2] / max(1, self.counts[0] + self.counts[1])


def span_scores(actual: Sequence[Sequence[str]], said: Sequence[Sequence[str]]) -> SpanScores:
    """The tags of sentences against those that were given them."""
    found: dict[str, list[int]] = {}
    for true, own in zip(actual, said, strict=True):
        there, given = set(spans_of(true)), set(spans_of(own))
        for place, spans in enumerate((there, given, there & given)):
            for _, _, name in spans:
                found.setdefault(name, [0, 0, 0])[place] += 1
    return SpanScores({name: (row[0], row[1], row[2]) for name, row in sorted(found.items())})


@dataclass(frozen=True)
class TaggedSpan:
    """A piece of a text.

    Attributes:
        start, stop: its characters, [start, stop).
        text: the same as a text.
        label: what it is.
        probability: of the word in it that the model is least sure of.
    """

    start: int
    stop: int
    text: str
    label: str
    probability: float


@dataclass(frozen=True)
class Tagger:
    """A model with a head over tags, its vocabulary, and what config.json says of the tags."""

    model: Model
    tokenizer: Tokenizer
    about: Mapping[str, Any]

    def tag(self, texts: Sequence[str]) -> list[list[TaggedSpan]]:
        """The spans of each text, in their order; the same whatever is tagged together (to rounding)."""
        labels, words = list(self.about["labels"]), [words_of(text) for text in texts]
        most = self.model.config.max_len
        pieces = [pieces_of(self.tokenizer, text, own, most) for text, own in zip(texts, words, strict=True)]
        logits = tag_words(self.model, pieces, [len(own) for own in words], len(labels))
        return [_spans(*row, labels) for row in zip(texts, words, logits, strict=True)]


def _spans(text: str, words: Sequence[Place], logits: np.ndarray, labels: Sequence[str]) -> list[TaggedSpan]:
    shares = torch.from_numpy(logits).double().softmax(-1).numpy().max(-1)
    tags = [labels[i] if row.any() else OUTSIDE for i, row in zip(logits.argmax(1), logits, strict=True)]
    return [
        TaggedSpan(words[first][0], words[stop - 1][1], text[words[first][0] : words[stop - 1][1]], name,
                   float(shares[first:stop].min()))
        for first, stop, name in spans_of(tags)
    ]  # fmt: skip
