"""What an output must keep to it keeps to, whatever the model would say; and of all that do, the best is found."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.generate import Constraint, Hypothesis, Phrase, beam_search
from regard.model import Model, TransformerConfig, make_language_model

EOS, VOCABULARY = 0, 7
Ids = tuple[int, ...]
pytestmark = pytest.mark.usefixtures("one_thread")
TOKENS = st.integers(1, VOCABULARY - 1)
SOME = st.lists(TOKENS, min_size=1, max_size=3).map(tuple)


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(21)
    config = TransformerConfig(
        vocab_size=VOCABULARY, d_model=12, n_heads=2, d_ff=16, n_decoder_layers=1, max_len=40, tie_embeddings=False
    )
    model = make_language_model(config).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.ndim == 2 else 1.0)
    return model


def search(model: Model, limits: list[int], constraints: list[Constraint], **options) -> list[list[Hypothesis]]:
    state = model.transformer.start(None, capacity=max(limits))
    first = torch.ones(len(limits), 1, dtype=torch.long)
    return beam_search(
        model, state, first, ends=[EOS], limits=torch.tensor(limits), constraints=constraints, **options
    )  # fmt: skip


def log_p(model: Model, ids: Ids) -> Tensor:
    """(len(ids), V): what the model says of each token given those before it."""
    told = torch.tensor([[1, *ids[:-1]]])
    with torch.no_grad():
        return model.logits(model.transformer.decode(told, model.transformer.start(None)))[0].log_softmax(-1)


def logprob(model: Model, ids: Ids) -> float:
    return float(log_p(model, ids).gather(1, torch.tensor(ids)[:, None]).sum())


def holds(ids: Ids, phrases: list[tuple[Ids, ...]]) -> bool:
    """Whether the phrases stand in `ids`, each in one of its forms, side by side: every order and place is tried."""
    if not phrases:
        return True
    return any(
        ids[start : start + len(form)] == form and holds((*ids[:start], -1, *ids[start + len(form) :]), phrases[1:])
        for form in phrases[0]
        for start in range(len(ids) - len(form) + 1)
    )


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    phrases = tuple(Phrase(tuple(draw(st.lists(SOME, min_size=1, max_size=2)))) for _ in range(draw(st.integers(0, 3))))
    return Constraint(draw(st.one_of(st.just(()), SOME)), phrases)


@settings(max_examples=60, deadline=None)
@given(
    wanted=st.lists(constraints(), min_size=1, max_size=3),
    spare=st.integers(0, 4),
    beam=st.integers(1, 3),
    alpha=st.sampled_from([0.0, 1.0]),
)
def test_every_output_keeps_to_its_constraint_and_scores_as_told(model, wanted, spare, beam, alpha) -> None:
    """Also with no token to spare, with phrases inside one another, and side by side with other sources (28, 29)."""
    limits = [max(1, constraint.least + spare) for constraint in wanted]
    found = search(model, limits, wanted, beam=beam, n_best=beam, alpha=alpha)
    for constraint, limit, best in zip(wanted, limits, found, strict=True):
        assert best and len({one.ids for one in best}) == len(best)
        for one in best:
            assert one.ids[: len(constraint.prefix)] == constraint.prefix
            assert holds(one.ids[len(constraint.prefix) :], [phrase.forms for phrase in constraint.phrases])
            assert sorted(phrase for phrase, _, _ in one.met) == list(range(len(constraint.phrases)))
            assert all(one.ids[start:end] in constraint.phrases[phrase].forms for phrase, start, end in one.met)
            ids = (*one.ids, EOS) if one.finished else one.ids
            assert one.finished or len(ids) == limit
            assert one.logprob == pytest.approx(logprob(model, ids), abs=1e-9)
        alone = search(model, [limit], [constraint], beam=beam, n_best=beam, alpha=alpha)[0]
        assert [one.ids for one in alone] == [one.ids for one in best]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("phrases", [[(3, 4)], [(3,), (5,)], [(2, 2, 3)]])
def test_a_wide_beam_finds_the_best_of_all_that_keep_to_it(model: Model, phrases: list[Ids], alpha: float) -> None:
    best = -math.inf
    for length in range(1, 5):
        for ids in itertools.product(range(VOCABULARY), repeat=length):
            whole = EOS not in ids[:-1] and (ids[-1] == EOS or length == 4)
            if whole and holds(ids, [(phrase,) for phrase in phrases]):
                best = max(best, logprob(model, ids) / length**alpha)
    constraint = Constraint(phrases=tuple(Phrase((phrase,)) for phrase in phrases))
    ((found,),) = search(model, [4], [constraint], beam=7**3, alpha=alpha)
    assert found.score == pytest.approx(best, abs=1e-9)


def test_a_phrase_finds_its_place_and_not_the_end(model: Model) -> None:
    """What the model would say anyway costs nothing, at whatever place it says it."""
    (free,) = search(model, [12], [Constraint()], beam=4, alpha=1.0)
    for start in range(len(free[0].ids) - 2):
        constraint = Constraint(phrases=(Phrase((free[0].ids[start : start + 3],)),))
        assert search(model, [12], [constraint], beam=4, alpha=1.0)[0][0].score >= free[0].score - 1e-9


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 3), beam=st.integers(1, 3), prefix=st.one_of(st.just(()), SOME))
def test_no_ngram_comes_twice(model, n: int, beam: int, prefix: Ids) -> None:
    constraint = Constraint(prefix, no_repeat_ngram=n)
    free = search(model, [14], [Constraint()], beam=1)[0][0].ids
    assert len(set(itertools.pairwise(free))) < len(free) - 1, "such a model could not show a repetition"
    for one in search(model, [14], [constraint], beam=beam, n_best=beam)[0]:
        grams = [one.ids[i : i + n] for i in range(len(one.ids) - n + 1)]
        assert all(grams.index(gram) == i for i, gram in enumerate(grams) if i + n > len(prefix))
        ids = (*one.ids, EOS) if one.finished else one.ids
        assert one.logprob == pytest.approx(logprob(model, ids), abs=1e-9)


def test_a_phrase_that_must_come_twice_comes_twice_even_where_nothing_may(model: Model) -> None:
    twice = Constraint(phrases=(Phrase(((2, 3),)),) * 2, no_repeat_ngram=2)
    for one in search(model, [9], [twice], beam=3, n_best=3)[0]:
        assert holds(one.ids, [((2, 3),)] * 2)


def test_a_phrase_stands_on_its_own(model: Model) -> None:
    """Its second form comes after none of some tokens, and some tokens do not follow it."""
    phrase = Phrase(((6, 2), (2,)), not_after=frozenset({3, 4, 5}), not_before=torch.tensor([1, 4, 5]))
    for limit in range(2, 12):
        for one in search(model, [limit], [Constraint((3,), (phrase,))], beam=3, n_best=3)[0]:
            ((_, start, end),) = one.met
            assert end - start == 2 or start == 0 or one.ids[start - 1] not in phrase.not_after
            assert end == len(one.ids) or one.ids[end] not in (1, 4, 5)


def test_without_a_constraint_nothing_changes(model: Model) -> None:
    limits = [5, 9, 3]
    free = search(model, limits, [], beam=3, n_best=3)
    assert search(model, limits, [Constraint()] * 3, beam=3, n_best=3) == free
    mixed = search(
        model, limits, [Constraint(), Constraint(phrases=(Phrase(((2, 3),)),)), Constraint()], beam=3, n_best=3
    )
    assert [[one.ids for one in mixed[i]] for i in (0, 2)] == [[one.ids for one in free[i]] for i in (0, 2)]
    assert [replace(one, score=0.0, logprob=0.0) for one in mixed[0]] == [
        replace(one, score=0.0, logprob=0.0) for one in free[0]
    ]
