"""What an output must keep to: begin with these tokens, hold those phrases, say no n-gram twice.

What is unusual: a constraint only takes choices away, so a score remains what the model itself says (laws, 28), and it
cannot fail. An end is not to be had before every phrase is there, and once no more tokens are left than the phrases
need, nothing but them is. That alone would push phrases to the end; so the search keeps the best hypothesis of every
number of phrase tokens said (dynamic beam allocation: Post & Vilar 2018), which tries each phrase at every place.

    needed 2, phrase "a b"          x -> needed 2        a -> needed 1
    needed 1, having said "a"       b -> needed 0        anything else -> needed 2 again

A phrase that is met is never looked at again, and phrases do not overlap. What it does not know: text, models.

Shapes: W hypotheses of one source, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

MOST_BANKS = 32
"""Hypotheses added to the beam for the tokens of phrases; beyond it banks compete."""


@dataclass(frozen=True, eq=False)
class Phrase:
    """Tokens that must come out in a row, in one of several spellings.

    Attributes:
        forms: the spellings, none empty. The first may stand anywhere.
        not_after: tokens after which the other forms would not stand on their own.
        not_before: (n,) int64, tokens that may not follow, or the phrase would go on in them.
    """

    forms: tuple[tuple[int, ...], ...]
    not_after: frozenset[int] = frozenset()
    not_before: Tensor | None = None

    @cached_property
    def borders(self) -> tuple[tuple[int, ...], ...]:
        """Of each form: for its first k tokens, how many of them are also their last (Knuth, Morris & Pratt 1977)."""
        return tuple(_borders(form) for form in self.forms)

    def extend(self, form: int, matched: int, ids: tuple[int, ...]) -> int:
        """How many of a form's first tokens `ids` end with, when without the last one it was `matched`."""
        tokens, last = self.forms[form], len(ids) - 1
        if matched == len(tokens):
            matched = self.borders[form][-1]
        while True:
            start = last - matched
            stands = form == 0 or start == 0 or ids[start - 1] not in self.not_after
            if stands and tokens[matched] == ids[last]:
                return matched + 1
            if not matched:
                return 0
            matched = self.borders[form][matched - 1]


def _borders(form: tuple[int, ...]) -> tuple[int, ...]:
    found, k = [0], 0
    for token in form[1:]:
        while k and form[k] != token:
            k = found[k - 1]
        k += form[k] == token
        found.append(k)
    return tuple(found)


@dataclass(frozen=True)
class Progress:
    """How far one hypothesis has come."""

    ids: tuple[int, ...]
    matched: tuple[tuple[int, ...], ...]
    """Of each phrase, how many tokens of each form are its last ones; () once it is met."""
    met: tuple[tuple[int, int, int], ...]
    """(phrase, first token, token after its last), in their order."""
    needed: int
    """The fewest tokens with which every phrase can still be said."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """What every output of one source must keep to.

    Attributes:
        prefix: its first tokens.
        phrases: each must come after those, two equal ones twice.
        no_repeat_ngram: no so many tokens in a row come twice, unless what must be said cannot be said without; 0: any
            may.
    """

    prefix: tuple[int, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    no_repeat_ngram: int = 0

    @cached_property
    def tokens(self) -> int:
        """Tokens in all phrases, in their first forms."""
        return sum(len(phrase.forms[0]) for phrase in self.phrases)

    @property
    def least(self) -> int:
        """An output with fewer tokens cannot be."""
        return len(self.prefix) + self.tokens

    def width(self, beam: int) -> int:
        """Hypotheses to keep: with phrases, `beam` before all and after all of them, one at each token between."""
        return 2 * beam - 1 + min(self.tokens, MOST_BANKS) if self.phrases else beam

    def start(self) -> Progress:
        """Nothing has been said."""
        return Progress((), tuple((0,) * len(phrase.forms) for phrase in self.phrases), (), self.tokens)

    def advance(self, before: Progress, token: int) -> Progress:
        """One more token has been said."""
        ids = (*before.ids, token)
        if not before.needed or len(ids) <= len(self.prefix):
            return Progress(ids, before.matched, before.met, before.needed)
        matched = tuple(
            tuple(phrase.extend(form, k, ids) for form, k in enumerate(counts))
            for phrase, counts in zip(self.phrases, before.matched, strict=True)
        )
        gain = max(self._gain(p, form, k) for p, counts in enumerate(matched) for form, k in enumerate(counts))
        fresh = self._fresh(before)
        ends = [
            (len(phrase.forms[0]), k, p)
            for p, phrase in enumerate(self.phrases)
            for form, k in enumerate(matched[p])
            if k == len(phrase.forms[form]) and len(phrase.forms[0]) >= gain
        ]
        if not ends:  # a whole one inside a longer phrase that is on its way does not count
            return Progress(ids, matched, before.met, fresh - max(0, gain))
        saved, length, done = max(ends)
        anew = tuple((0,) * len(counts) if p != done else () for p, counts in enumerate(matched))
        return Progress(ids, anew, (*before.met, (done, len(ids) - length, len(ids))), fresh - saved)

    def _gain(self, phrase: int, form: int, matched: int) -> int:
        """How many tokens fewer are needed when this form goes on than when the phrase begins anew."""
        forms = self.phrases[phrase].forms
        return len(forms[0]) - (len(forms[form]) - matched) if matched else 0

    def _fresh(self, progress: Progress) -> int:
        """Tokens needed when no phrase is on its way."""
        return sum(
            len(phrase.forms[0]) for phrase, counts in zip(self.phrases, progress.matched, strict=True) if counts
        )

    def wanted(self, progress: Progress) -> list[int]:
        """The tokens with which a phrase goes on or begins."""
        last = progress.ids[-1] if progress.ids else None
        found = {
            phrase.forms[form][k]
            for phrase, counts in zip(self.phrases, progress.matched, strict=True)
            for form, matched in enumerate(counts)
            for k in {0, matched % len(phrase.forms[form])}
            if k or form == 0 or last not in phrase.not_after
        }
        return sorted(found)

    def restrict(self, progress: Progress, log_p: Tensor, *, left: int, eos_id: int) -> None:
        """Set log_p (V,) to -inf where a token would break the constraint; so many tokens are left, this one too."""
        said = len(progress.ids)
        if said < len(self.prefix):
            _only(log_p, [self.prefix[said]])
            return
        if self._fresh(progress) >= left:
            _only(log_p, [token for token in self.wanted(progress) if self.advance(progress, token).needed < left])
            return
        if self.no_repeat_ngram:
            log_p[_repeating(progress.ids, self.no_repeat_ngram)] = -torch.inf
        if progress.met and progress.met[-1][2] == said:
            after = self.phrases[progress.met[-1][0]].not_before
            if after is not None:
                log_p[after.to(log_p.device)] = -torch.inf
        if progress.needed:
            log_p[eos_id] = -torch.inf

    def choose(self, living: Sequence[Progress], totals: Tensor, beam: int) -> list[tuple[float, int, Progress]]:
        """The hypotheses to go on with, (total, parent, progress), best first, of totals (W, V).

        The best of every bank (hypotheses with equally many phrase tokens to say), the next best of the last bank until
        it has `beam`, and the next best of all.
        """
        width, vocabulary = self.width(beam), totals.size(1)
        flat = totals.flatten()
        places = set(flat.topk(min(width, len(flat))).indices.tolist())
        for w, best in enumerate(totals.argmax(1).tolist()):
            places |= {w * vocabulary + token for token in (best, *self.wanted(living[w]))}
        order = sorted(places)
        scored = sorted(zip(flat[order].tolist(), order, strict=True), key=lambda one: (-one[0], one[1]))
        banks: dict[int, int] = {}
        ranked = []
        for rank, (total, place) in enumerate(scored):
            if total > -torch.inf:
                parent, token = divmod(place, vocabulary)
                after = self.advance(living[parent], token)
                nth = banks[after.needed] = banks.get(after.needed, 0) + 1
                ranked.append((nth > (1 if after.needed else beam), rank, (total, parent, after)))
        return sorted((one for _, _, one in sorted(ranked)[:width]), key=lambda one: -one[0])


def _only(log_p: Tensor, tokens: list[int]) -> None:
    kept = log_p[tokens]
    log_p.fill_(-torch.inf)
    log_p[tokens] = kept


def _repeating(ids: tuple[int, ...], n: int) -> list[int]:
    """The tokens that would end an n-gram for the second time."""
    if len(ids) < n:
        return []
    last = ids[len(ids) - n + 1 :]
    return [ids[i + n - 1] for i in range(len(ids) - n + 1) if ids[i : i + n - 1] == last]


class Tracks:
    """The progress of every hypothesis of a search, (N, W), beside the constraint of each source."""

    def __init__(self, constraints: Sequence[Constraint], width: int) -> None:
        self.constraints = list(constraints)
        self.progress = [[constraint.start()] * width for constraint in constraints]

    def restrict(self, log_p: Tensor, total: Tensor, left: Sequence[int], eos_id: int) -> None:
        """`Constraint.restrict` for log_p (N, W, V); total (N, W) says which hypotheses live."""
        for row, w in (total > -torch.inf).nonzero().tolist():
            self.constraints[row].restrict(self.progress[row][w], log_p[row, w], left=left[row], eos_id=eos_id)

    def unmet(self, like: Tensor) -> Tensor:
        """(N, W) bool: phrases are still to be said."""
        return torch.tensor([[one.needed > 0 for one in row] for row in self.progress], device=like.device)

    def advance(self, totals: Tensor, kept: Tensor, places: Tensor, beam: int) -> tuple[Tensor, Tensor]:
        """The totals and places (N, W) of the next hypotheses: as they are where there are no phrases, else `choose`.

        A source keeps as many as it needs itself, whatever the others need.
        """
        kept, places = kept.clone(), places.clone()
        width, vocabulary = kept.size(1), totals.size(2)
        for row, constraint in enumerate(self.constraints):
            before = self.progress[row]
            if constraint.phrases:
                chosen = constraint.choose(before, totals[row], beam)
                missing = width - len(chosen)
                kept[row] = kept.new_tensor([total for total, _, _ in chosen] + [-torch.inf] * missing)
                taken = [parent * vocabulary + after.ids[-1] for _, parent, after in chosen]
                places[row] = places.new_tensor(taken + [0] * missing)
                self.progress[row] = [after for _, _, after in chosen] + before[:1] * missing
            else:
                kept[row, beam:] = -torch.inf
                self.progress[row] = [
                    constraint.advance(before[place // vocabulary], place % vocabulary)
                    for place in places[row].tolist()
                ]
        return kept, places

    def keep(self, rows: Sequence[int]) -> None:
        """Only these sources go on."""
        self.constraints = [self.constraints[row] for row in rows]
        self.progress = [self.progress[row] for row in rows]
