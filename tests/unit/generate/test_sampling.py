"""Sampling against an oracle of sorted lists, and against transformers; draws counted on a grid of random numbers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.errors import ConfigError
from regard.generate import Sampler, sampling
from regard.generate.sampling import NOTHING, History, allowed, choose, draw

SAMPLERS = st.builds(
    Sampler,
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 2, 5, 1000]),
    top_p=st.sampled_from([0.0, 1e-9, 0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)


def random_logits(seed: int, rows: int, vocabulary: int) -> Tensor:
    logits = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 3
    return logits.masked_fill(torch.rand(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) < 0.1, -1e9)


def plainly(logits: list[float], sampler: Sampler) -> dict[int, float]:
    """The probability of each token that stays, by the words of the module."""
    z = {token: logit / sampler.temperature for token, logit in enumerate(logits)}
    ranked = sorted(z, key=lambda token: -z[token])
    if sampler.top_k:
        ranked = ranked[: sampler.top_k]
    p = {token: math.exp(z[token] - z[ranked[0]]) for token in ranked}
    if sampler.top_p < 1:
        kept, held = [], 0.0
        for token in ranked:
            if not kept or held < sampler.top_p * sum(p.values()):
                kept.append(token)
                held += p[token]
        ranked = kept
    ranked = [token for token in ranked if p[token] >= sampler.min_p * p[ranked[0]]]
    return {token: p[token] / sum(p[token] for token in ranked) for token in ranked}


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6), samplers=st.lists(SAMPLERS, min_size=1, max_size=4), vocabulary=st.integers(2, 300),
    looked_at=st.sampled_from([1, 3, 128]),
)  # fmt: skip
def test_what_stays_and_how_probably_is_what_the_words_say(seed, samplers, vocabulary, looked_at) -> None:
    """Each row by its own settings, however few logits are sorted at first."""
    logits = random_logits(seed, len(samplers), vocabulary).double()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "LOOKED_AT", looked_at)
        found = allowed(logits, samplers).softmax(-1)
    for row, sampler in enumerate(samplers):
        expected = torch.zeros(vocabulary, dtype=torch.float64)
        for token, p in plainly(logits[row].tolist(), sampler).items():
            expected[token] = p
        assert torch.allclose(found[row], expected, atol=1e-9), sampler


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_of_transformers(seed: int) -> None:
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    logits, prompt = random_logits(seed, 3, 50), torch.tensor([[1, 2, 3], [4, 4, 4], [9, 8, 7]])
    sampler = Sampler(temperature=1.7, top_k=30, top_p=0.8, min_p=0.1, repetition_penalty=1.3)
    theirs = LogitsProcessorList(
        [RepetitionPenaltyLogitsProcessor(1.3), TemperatureLogitsWarper(1.7), TopKLogitsWarper(30),
         TopPLogitsWarper(0.8), MinPLogitsWarper(0.1)]
    )(prompt, logits)  # fmt: skip
    history = History.of(prompt.tolist(), 50, logits.device)
    ours = allowed(sampling.penalised(logits, [sampler] * 3, history), [sampler] * 3)
    assert torch.allclose(ours.softmax(-1), theirs.double().softmax(-1), atol=1e-6)
    assert 1 < int((ours > -torch.inf).sum()) < 150


def test_a_draw_is_by_probability_and_never_of_what_has_none() -> None:
    """On a grid of N random numbers a token comes out p N times, to within one at either border."""
    n, p = 10_000, torch.tensor([0.0, 0.5, 0.0, 0.2, 0.0001, 0.2999, 0.0, 0.0])
    x = p.log().double().expand(n, -1)
    found = draw(x, [(i + 0.5) / n for i in range(n)])
    counts = found.bincount(minlength=8)
    assert ((counts - p * n).abs() <= 1).all() and not counts[p == 0].any()
    edges = draw(x[:2], [0.0, 1 - 2**-53])
    assert edges.tolist() == [1, 5]


def test_greedy_and_drawing_rows_do_not_meet() -> None:
    logits = random_logits(3, 4, 40)
    samplers = [Sampler(temperature=0), Sampler(), Sampler(temperature=0, top_k=3), Sampler(top_p=0.5)]
    draws = [0.9, 0.9, 0.1, 0.3]
    together = choose(logits, samplers, draws).tolist()
    alone = [choose(logits[i : i + 1], [samplers[i]], [draws[i]]).item() for i in range(4)]
    assert together == alone
    assert together[0] == logits[0].argmax() and together[2] == logits[2].argmax() and together[1] != logits[1].argmax()


@pytest.mark.parametrize("temperature", [1e-300, 1e-9, 1e-3, 0.0])
def test_a_temperature_near_0_is_greedy_and_overflows_nowhere(temperature: float) -> None:
    logits = random_logits(4, 2, 60) * 1e4
    sampler = Sampler(temperature=temperature, top_p=0.9, min_p=0.1)
    assert choose(logits, [sampler] * 2, [0.999, 0.0]).tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize("sampler", [Sampler(temperature=0), Sampler(), Sampler(top_k=3, top_p=0.2, min_p=0.3)])
def test_where_every_token_is_ruled_out_there_is_none(sampler: Sampler) -> None:
    """Fault 43, law 30; a neighbour is not disturbed."""
    logits = random_logits(5, 2, 30)
    expected = choose(logits[:1], [sampler], [0.4]).item()
    logits[1] = -torch.inf
    assert choose(logits, [sampler] * 2, [0.4, 0.4]).tolist() == [expected, NOTHING]


def test_penalties_touch_what_was_given_or_said_and_nothing_else() -> None:
    logits = torch.tensor([[1.0, -1.0, 2.0, -2.0, 0.5]] * 2)
    history = History.of([[0, 1], [3]], 5, logits.device)
    history.add(torch.tensor([2, 2]))
    samplers = [Sampler(repetition_penalty=2.0), Sampler(presence_penalty=1.5)]
    assert sampling.penalised(logits, samplers, history).tolist() == [
        [0.5, -2.0, 1.0, -2.0, 0.5],
        [1, -1, 0.5, -2, 0.5],
    ]
    history.keep(torch.tensor([1]))
    assert sampling.penalised(logits[:1], samplers[1:], history).tolist() == [[1, -1, 0.5, -2, 0.5]]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("temperature", -0.1), ("temperature", math.nan), ("temperature", math.inf), ("top_k", -1), ("top_k", 1.5),
     ("top_p", 1.1), ("top_p", -1e-9), ("min_p", 2), ("repetition_penalty", 0), ("presence_penalty", math.inf),
     ("seed", -1), ("seed", 2**63), ("seed", 0.5)],
)  # fmt: skip
def test_numbers_that_cannot_be(name: str, wrong: float) -> None:
    with pytest.raises(ConfigError, match=name):
        Sampler(**{name: wrong})


def test_a_seed_is_a_sequence_of_numbers_and_a_copy_has_the_next_seed() -> None:
    def first(sampler: Sampler, copy: int = 0) -> float:
        return torch.rand((), generator=sampler.generator(copy)).item()

    assert first(Sampler(seed=3), 1) == first(Sampler(seed=4)) != first(Sampler(seed=3))
    assert first(Sampler()) != first(Sampler())
    torch.manual_seed(1)
    one = first(Sampler())
    torch.manual_seed(1)
    assert first(Sampler()) == one
    assert 0 <= first(Sampler(seed=2**63 - 1), 5) < 1
