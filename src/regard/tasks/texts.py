"""From texts to their translations: cut into sentences, searched under what is required of them, put together again.

What is unusual: nothing raises for odd text. Whatever is typed is plain text (`</s>` too), an empty text has an empty
translation, and all white space between and around sentences is kept. A text is cut only where a sentence or a line
ends, or where the model could not read it whole, or never learned to; a word still too long is read as far as it goes.
That is counted, as are the parts whose translation was cut at its greatest length. What must be copied and did not come
out by itself is put in afterwards (`tasks.copies`). A text in capitals is read in small letters, where the vocabulary
has those in fewer pieces, and its translation written in capitals.
What it does not know: files, how results are shown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from regard.generate import Hypothesis
from regard.model import Model
from regard.tasks.alignment import align_pairs
from regard.tasks.conventions import Conventions
from regard.tasks.copies import Copy, Links, is_bare, place, strip, wide
from regard.tasks.prefix import source_prefix
from regard.tasks.search import search_translations
from regard.tasks.terms import MOST_TERMS, Demand, Terms, demand
from regard.text import Tokenizer
from regard.text.capitals import capitals, in_capitals, small
from regard.text.placeholders import find
from regard.text.segment import split


@dataclass(frozen=True)
class Translation:
    """One output of a translator, best of its search."""

    text: str
    """With the line ends of the source, and no others."""
    score: float
    """What the search compares: logprob / length, the length in tokens with the end of each sentence."""
    logprob: float
    """log p(text | source), natural logarithm, summed over the sentences; 0 for an empty source. Where copies were put
    in afterwards, of the text without them after the source without them."""
    alternatives: tuple[Translation, ...] = ()
    """The next best ones, when more than one was asked for."""
    alignment: Links | None = None
    """(source token, target token) for each target token, when asked for; they number the two fields below."""
    source_tokens: tuple[str, ...] | None = None
    target_tokens: tuple[str, ...] | None = None
    left_out: int = 0
    """Source tokens that the model is too short to read."""
    unfinished: int = 0
    """Parts of the text whose translation was cut at its greatest length, and may lack its end."""
    length: int = 0
    """Generated tokens, the end of each sentence included."""

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities that the model gave its own tokens, in (0, 1]: exp(score).

        It says how sure the model was of its words, and not how probably they are right.
        """
        return math.exp(self.score)

    def __repr__(self) -> str:
        more = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        more += f", {self.left_out:,} source tokens left out" if self.left_out else ""
        more += f", {self.unfinished:,} parts unfinished" if self.unfinished else ""
        return f"Translation({self.text!r}, score={self.score:.3f}{more})"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of a translator beside the texts; `regard.Loaded.translate` says what each field means."""

    beam: int = 4
    n_best: int = 1
    alignments: bool = False
    terms: Terms = field(default_factory=Terms)
    no_repeat_ngram: int = 0


@dataclass(frozen=True)
class _Part:
    """A piece of a text on its way through the model.

    Attributes:
        text: what is read, in small letters where `capital`.
        wanted: the copies that must come out.
        capital: the translation is written in capitals.
        copies: what was taken out of the text, to be put into its translation.
    """

    text: str
    lead: list[int]
    ids: list[int]
    demand: Demand
    left_out: int
    wanted: tuple[str, ...] = ()
    capital: bool = False
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True)
class Translator:
    """A model with what turns text into its ids.

    Attributes:
        tokenizer: of sources, and of outputs too where `target` is None.
        ratio: target tokens to a source token, at most (`tasks.translation.length_ratio`).
        only: the target language of a model of one direction, where it is known.
        target: of outputs.
        stated: what stands around sources and outputs; None: what does in models trained here.
        seen: tokens of the longest sources of its training (`tasks.translation.longest_seen`); None: not known. It may
            read more, but ends early what is many times as long, so such a sentence is cut too.
    """

    model: Model
    tokenizer: Tokenizer
    ratio: float
    only: str | None = None
    target: Tokenizer | None = None
    stated: Conventions | None = None
    seen: int | None = None

    @property
    def writes(self) -> Tokenizer:
        """The vocabulary of outputs."""
        return self.target or self.tokenizer

    @cached_property
    def conventions(self) -> Conventions:
        """What stands around sources and outputs."""
        return self.stated or Conventions.read({}, self.tokenizer, self.target)

    @property
    def most_read(self) -> int:
        """How many tokens of a source the model reads, a target language's token among them."""
        return self.conventions.most_read(self.model.config.max_len)

    def translate(
        self, texts: Sequence[str], to: Sequence[str | None], prefixes: Sequence[str], request: Request
    ) -> list[Translation]:
        """The translation of each text, into the language beside it, beginning with the prefix beside it.

        A text with a prefix is not cut into sentences: nobody knows how many of them the prefix translates.
        """
        leads = {code: source_prefix(self.tokenizer, code, only=self.only) for code in set(to)}
        cut = [
            self._cut(text, len(leads[code]), request.terms, whole=bool(prefix))
            for text, code, prefix in zip(texts, to, prefixes, strict=True)
        ]
        parts = [
            self._part(piece, leads[code], prefix, request)
            for pieces, code, prefix in zip(cut, to, prefixes, strict=True)
            for piece, _ in pieces
            if piece
        ]
        done = iter(self._with_copies(parts, request))
        return [
            _joined([(next(done) if piece else [], white) for piece, white in pieces], request) for pieces in cut
        ]  # fmt: skip

    def _cut(self, text: str, lead: int, terms: Terms, *, whole: bool) -> list[tuple[str, str]]:
        """Pieces with the white space after each; none of a blank text."""
        if not text.strip():
            return []
        most = max(1, min(self.most_read, self.seen or self.most_read) - lead)

        def cost(texts: Sequence[str]) -> list[float]:
            lengths = map(len, self.tokenizer.encode_batch(texts))
            return [
                max(length / most, len(terms.required(text)) / MOST_TERMS)
                for length, text in zip(lengths, texts, strict=True)
            ]

        if not whole:
            return split(text, cost, terms.spans)
        bare = text.strip()
        start = text.index(bare)
        return [("", text[:start]), (bare, text[start + len(bare) :])]

    def _part(self, text: str, lead: list[int], prefix: str, request: Request) -> _Part:
        terms = request.terms
        spans = terms.copied(text)
        required, wanted = terms.required(text), tuple(text[start:end] for start, end in spans)
        if not (required or prefix) and in_capitals(text, spans):
            lowered = small(text, self._pieces, spans)
            loud, soft = self._pieces([text, lowered])
            if soft < loud:  # the vocabulary knows small letters better
                return self._fitted(lowered, lead, prefix, request, wanted, capital=True)
        return self._fitted(text, lead, prefix, request, wanted, capital=False)

    def _pieces(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each of them has after another word, and that word."""
        return [len(ids) for ids in self.tokenizer.encode_batch([f"a {text}" for text in texts])]

    def _fitted(
        self, text: str, lead: list[int], prefix: str, request: Request, wanted: tuple[str, ...], *, capital: bool
    ) -> _Part:
        """The part with as many tokens as the model reads."""
        ids = self.tokenizer.encode(text)
        read = ids[: self.most_read - len(lead)]
        left_out = len(ids) - len(read)
        required = request.terms.required(self.tokenizer.decode(read) if left_out else text)
        asked = demand(self.writes, required, prefix=prefix, no_repeat_ngram=request.no_repeat_ngram)
        return _Part(text, lead, read, asked, left_out, wanted, capital)

    def _with_copies(self, parts: Sequence[_Part], request: Request) -> list[list[Translation]]:
        """The n best of each part, with what must be copied: as they come, or else without and then with it."""
        found = self._search(parts, request)
        lacking = [i for i, (part, best) in enumerate(zip(parts, found, strict=True))
                   if any(request.terms.lacks(one.text, part.wanted) for one in best)]  # fmt: skip
        again = [self._stripped(parts[i], request) for i in lacking]
        spoken = [part for part in again if part.ids]
        done = iter(self._search(spoken, replace(request, alignments=True)))
        for i, part in zip(lacking, again, strict=True):
            best = next(done) if part.ids else [self._silent(parts[i])]
            found[i] = best if request.alignments else [_unaligned(one) for one in best]
        return found

    def _stripped(self, part: _Part, request: Request) -> _Part:
        """The part without what is copied, but for what a given beginning of its translation holds already."""
        bare, copies = strip(part.text, request.terms.copied(part.text))
        prefix = part.demand.prefix
        held = Counter(prefix[start:end] for start, end in request.terms.copied(prefix))
        missing = list[Copy]()
        for copy in copies:
            held[copy.text] -= 1
            missing += [copy] if held[copy.text] < 0 else []
        if is_bare(bare) and not prefix:
            return replace(part, ids=[])
        bare_part = self._fitted(bare, part.lead, prefix, request, part.wanted, capital=part.capital)
        return replace(bare_part, copies=tuple(missing), left_out=part.left_out)

    def _silent(self, part: _Part) -> Translation:
        """Of a part that has nothing to translate: itself."""
        tokens = tuple(self.tokenizer.tokens(part.ids))
        links = tuple((i, i) for i in range(len(tokens)))
        return Translation(part.text, 0.0, 0.0, (), links, tokens, tokens)

    def _search(self, parts: Sequence[_Part], request: Request) -> list[list[Translation]]:
        """The n best of each part."""
        constraints = [part.demand.constraint for part in parts]
        free = not request.no_repeat_ngram and not any(constraint.least for constraint in constraints)
        found = search_translations(
            self.model, self.writes, [part.lead + part.ids for part in parts], ratio=self.ratio, beam=request.beam,
            n_best=request.n_best, constraints=[] if free else constraints, conventions=self.conventions,
        )  # fmt: skip
        flat = [(part, one) for part, best in zip(parts, found, strict=True) for one in best]
        links: Sequence[Links | None] = [None] * len(flat)
        if request.alignments:
            pairs = [(part.lead + part.ids, one.ids) for part, one in flat]
            leads = [len(part.lead) for part, _ in flat]
            links = align_pairs(self.model, self.writes, pairs, leads, conventions=self.conventions)
        read = iter([self._read(part, one, link) for (part, one), link in zip(flat, links, strict=True)])
        return [[next(read) for _ in best] for best in found]

    def _read(self, part: _Part, found: Hypothesis, links: Links | None) -> Translation:
        text = part.demand.written(self.writes, found)
        translation = Translation(text, found.score, found.logprob, left_out=part.left_out,
                                  unfinished=int(not found.finished), length=found.length)  # fmt: skip
        if links is None:
            return _raised(translation, part)
        if part.copies:
            placed = place(part.copies, part.text, text, links, self.tokenizer, part.ids, self.writes, found.ids,
                           given=len(part.demand.prefix))  # fmt: skip
            whole = replace(translation, text=placed.text, alignment=placed.links, source_tokens=placed.source,
                            target_tokens=placed.target)  # fmt: skip
            return _raised(whole, part)
        source, target = tuple(self.tokenizer.tokens(part.ids)), tuple(self.writes.tokens(found.ids))
        return _raised(replace(translation, alignment=links, source_tokens=source, target_tokens=target), part)


def _raised(one: Translation, part: _Part) -> Translation:
    return replace(one, text=capitals(one.text, find(one.text))) if part.capital else one


def _unaligned(one: Translation) -> Translation:
    return replace(one, alignment=None, source_tokens=None, target_tokens=None)


def _joined(pieces: Sequence[tuple[list[Translation], str]], request: Request) -> Translation:
    """One translation of the translations of its pieces; its k-th best is made of the k-th best of each."""
    nothing = Translation("", 0.0, 0.0, *(((), (), (), ()) if request.alignments else ()))
    if not pieces:
        return nothing
    most = max(len(best) for best, _ in pieces)
    whole = [
        _join([(best[min(k, len(best) - 1)] if best else nothing, white) for best, white in pieces])
        for k in range(most)
    ]
    first, *others = whole
    return replace(first, alternatives=tuple(sorted(others, key=lambda one: -one.score)))


def _join(pieces: Sequence[tuple[Translation, str]]) -> Translation:
    if len(pieces) == 1 and not pieces[0][1]:
        return pieces[0][0]
    text, logprob, length, left_out, unfinished = "", 0.0, 0, 0, 0
    links, source, target = list[tuple[int, int]](), list[str](), list[str]()
    for one, white in pieces:
        seam = " " if text and not text[-1].isspace() and not wide(text[-1]) and not wide(one.text[:1]) else ""
        text += seam + one.text + white
        logprob += one.logprob
        length += one.length
        left_out += one.left_out
        unfinished += one.unfinished
        links += [(s + len(source), t + len(target)) for s, t in one.alignment or ()]
        source += one.source_tokens or ()
        target += one.target_tokens or ()
    score = logprob / length if length else 0.0
    whole = Translation(text, score, logprob, left_out=left_out, unfinished=unfinished, length=length)
    if pieces[-1][0].alignment is None:
        return whole
    return replace(whole, alignment=tuple(links), source_tokens=tuple(source), target_tokens=tuple(target))
