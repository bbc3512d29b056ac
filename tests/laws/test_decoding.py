"""Laws 26 to 30 hold for every decoder, and can fail: each is shown a search or a state with just its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.generate import Constraint, Hypothesis, Sampler, TokenStream, constraints, sampling
from regard.generate.beam import _Search
from regard.laws import LAWS, decoding
from regard.laws.trial import Trial
from regard.model import Model, make_classifier, make_language_model
from regard.model.cache import DecodeState
from regard.model.masks import Mask

from .faults import collected

Patch = pytest.MonkeyPatch
NUMBERS = (26, 27, 28, 29, 30)
FAULTS, breaks = collected()


@breaks(26)
@breaks(28)
def the_end_is_not_counted(patch: Patch) -> None:
    add = _Search._add

    def short(self: _Search, row: int, w: int, logprob: float, ids: list[int], *, finished: bool) -> None:
        add(self, row, w, logprob, ids, finished=finished)
        mine = self.done[self.source[row]]
        mine[:] = [replace(one, score=one.logprob / max(1, len(one.ids)) ** self.alpha) for one in mine]

    patch.setattr(_Search, "_add", short)


@breaks(26)
@breaks(27)
def scores_are_not_divided_by_length(patch: Patch) -> None:
    whole = _Search.__init__

    def plain(self: _Search, limits: Tensor, *, alpha: float, **options) -> None:
        whole(self, limits, alpha=0.0, **options)

    patch.setattr(_Search, "__init__", plain)


@breaks(27)
def the_search_stops_at_the_first_end(patch: Patch) -> None:
    leave = _Search.leave

    def hasty(self: _Search) -> Tensor:
        ended = torch.tensor([bool(self.done[source]) for source in self.source])
        self.limits = torch.where(ended, self.t, self.limits)
        return leave(self)

    patch.setattr(_Search, "leave", hasty)


@breaks(28)
@breaks(29)
def the_cache_does_not_follow_its_hypothesis(patch: Patch) -> None:
    branch = DecodeState.branch

    def keep_places(self: DecodeState, rows: Tensor, sources: Tensor | None = None) -> None:
        rows = rows if sources is not None else torch.arange(len(rows))
        branch(self, rows, sources)

    patch.setattr(DecodeState, "branch", keep_places)


@breaks(28)
@breaks(29)
def hypotheses_write_over_one_another(patch: Patch) -> None:
    branch = DecodeState.branch

    def to_the_parent(self: DecodeState, rows: Tensor, sources: Tensor | None = None) -> None:
        branch(self, rows, sources)
        self.homes = rows - rows % 2

    patch.setattr(DecodeState, "branch", to_the_parent)


@breaks(28)
def every_hypothesis_of_a_source_begins_alive(patch: Patch) -> None:
    whole = _Search.__init__

    def doubled(self: _Search, *args, **options) -> None:
        whole(self, *args, **options)
        self.total.zero_()

    patch.setattr(_Search, "__init__", doubled)


@breaks(28)
def an_end_goes_on(patch: Patch) -> None:
    add = _Search._add

    def twice(self: _Search, row: int, w: int, logprob: float, ids: list[int], *, finished: bool) -> None:
        add(self, row, w, logprob, [*ids, self.eos_id] if finished else ids, finished=finished)

    patch.setattr(_Search, "_add", twice)


@breaks(29)
def padding_of_a_source_is_looked_at(patch: Patch) -> None:
    draw = Mask.draw
    patch.setattr(Mask, "draw", lambda self, rows, columns: draw(replace(self, real=None), rows, columns))


@breaks(29)
def who_leaves_takes_the_wrong_source_along(patch: Patch) -> None:
    reorder, branch = DecodeState.reorder, DecodeState.branch

    def first_ones(self: DecodeState, rows: Tensor, sources: Tensor | None = None) -> None:
        reorder(self, rows, None if sources is None else torch.arange(len(sources)))

    def first_beams(self: DecodeState, rows: Tensor, sources: Tensor | None = None) -> None:
        branch(self, rows, None if sources is None else torch.arange(len(sources)))

    patch.setattr(DecodeState, "reorder", first_ones)
    patch.setattr(DecodeState, "branch", first_beams)


@breaks(28)
def a_phrase_may_be_left_out(patch: Patch) -> None:
    patch.setattr(Constraint, "restrict", lambda self, progress, log_p, *, left, eos_id: None)


@breaks(28)
def an_ngram_may_come_twice(patch: Patch) -> None:
    patch.setattr(constraints, "_repeating", lambda ids, n: [])


@breaks(29)
def a_beam_of_one_looks_for_more_after_its_end(patch: Patch) -> None:
    whole, results = _Search.__init__, _Search.results

    def insatiable(self: _Search, limits: Tensor, *, keep: int, **options) -> None:
        whole(self, limits, keep=10**6, **options)
        self.asked = keep

    patch.setattr(_Search, "__init__", insatiable)
    patch.setattr(_Search, "results", lambda self: [best[: self.asked] for best in results(self)])


@breaks(29)
def all_rows_draw_from_one_generator(patch: Patch) -> None:
    one = torch.Generator().manual_seed(0)
    patch.setattr(Sampler, "generator", lambda self, copy: one)


@breaks(30)
def temperature_0_draws(patch: Patch) -> None:
    whole = TokenStream.__init__

    def warm(self: TokenStream, *arguments, **options) -> None:
        whole(self, *arguments, **options)
        self.samplers = [replace(sampler, temperature=sampler.temperature or 1.0) for sampler in self.samplers]

    patch.setattr(TokenStream, "__init__", warm)


@breaks(30)
def the_first_row_speaks_for_all(patch: Patch) -> None:
    choose = sampling.choose
    patch.setattr(
        "regard.generate.stream.choose",
        lambda logits, samplers, *rest: choose(logits, [samplers[0]] * len(samplers), *rest),
    )


@breaks(30)
def what_crosses_the_share_is_left_out(patch: Patch) -> None:
    """Top-p as if the token that reaches the share were one too many: of a share of 0 nothing is left."""
    cut = sampling._cut

    def less(x: Tensor, samplers: list[Sampler]) -> Tensor:
        kept = cut(x, samplers)
        narrow = torch.tensor([sampler.top_p < 1 for sampler in samplers])[:, None]
        return kept.masked_fill(narrow & (kept == kept.amax(-1, keepdim=True)), -torch.inf)

    patch.setattr(sampling, "_cut", less)


@pytest.mark.parametrize("number", NUMBERS)
def test_law_holds(number: int, model: Model) -> None:
    verdict = LAWS[number](model)
    if verdict.outcome == "undecided":  # two of these tokens were almost equally likely
        verdict = LAWS[number](model, seed=3)
    assert verdict.outcome == ("pass" if model.transformer.decoder else "not applicable"), verdict
    assert verdict.measured is None or verdict.measured <= 1e-5, verdict


@pytest.mark.parametrize(("number", "fault"), FAULTS, ids=[f"{n}-{fault.__name__}" for n, fault in FAULTS])
def test_law_fails(number: int, fault: Callable[[Patch], None], model_: Model, monkeypatch: Patch) -> None:
    assert LAWS[number](model_).outcome == "pass"
    fault(monkeypatch)
    verdict = LAWS[number](model_)
    assert verdict.outcome == "fail", verdict


@pytest.mark.parametrize("number", NUMBERS)
def test_law_does_not_apply_to_a_classifier_or_to_four_words(number: int, build) -> None:
    config = build("decoder", "rope").config
    assert LAWS[number](make_classifier(config, 3)).outcome == "not applicable"
    if number != 30:
        assert LAWS[number](make_language_model(replace(config, vocab_size=4))).outcome == "not applicable"


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("case", [("decoder", "alibi", "bert"), ("both", "relative", "chapter")])
def test_law_holds_to_the_last_digits(number: int, case: tuple[str, ...], build) -> None:
    verdict = LAWS[number](build(*case).double())
    assert verdict.outcome == "pass" and verdict.measured <= 1e-9, verdict


def test_the_trials_see_ends_and_cuts_of_many_lengths(build) -> None:
    """Else the laws would hold of nothing."""
    found: list[Hypothesis] = []
    for scheme in ("none", "learned", "rope"):
        trial = Trial(build("both", scheme, "bert"), 0)
        found += [one for best in decoding.search(trial, decoding.draw(trial)) for one in best]
    assert len({one.length for one in found if one.finished}) >= 3
    assert any(not one.finished for one in found)


@pytest.fixture(scope="module")
def model_(build) -> Model:
    """Both stacks: sources of different lengths to be disturbed by, and hypotheses to be confused."""
    return build("both", "rope", "llama")
