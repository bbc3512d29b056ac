"""Law 30: the settings of sampling at their ends, where what they must do is known.

What is unusual: it is tried on whole continuations of prompts of different lengths, so that a setting that reaches the
wrong row, or the wrong step, shows too. What it does not know: tokenizers, and which token ends a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from regard.generate import Prompt, Sampler, TokenStream
from regard.laws.cache import MARGIN, greedy
from regard.laws.law import law
from regard.laws.trial import Broken, NotApplicable, Trial, Undecided
from regard.model import LMHead

STEPS = 6


def sampled(
    trial: Trial,
    prompts: Sequence[Tensor],
    sources: Sequence[Tensor],
    samplers: Sequence[Sampler],
    banned: Sequence[int] = (),
) -> list[list[int]]:
    """What is said after each prompt: STEPS tokens, or fewer where nothing may be said."""
    state = trial.start(
        *trial.padded(sources) if sources else (None,), capacity=max(len(ids) for ids in prompts) + STEPS
    )
    asked = [Prompt(ids.tolist(), STEPS, sampler) for ids, sampler in zip(prompts, samplers, strict=True)]
    said: list[list[int]] = [[] for _ in prompts]
    for step in TokenStream(trial.model, state, asked, banned=banned):
        for one in step:
            said[one.row] += [] if one.token is None else [one.token]
    return said


def inputs(trial: Trial) -> tuple[list[Tensor], list[Tensor]]:
    """Prompts of 1, 5 and 3 tokens, and their sources, if any."""
    trial.needs_decoder()
    if not isinstance(trial.model.head, LMHead):
        raise NotApplicable("the head does not say tokens")
    sources = [source[0] for n in (4, 2, 6) if (source := trial.source(1, n)) is not None]
    return [trial.ids(1, n)[0] for n in (1, 5, 3)], sources


@law(30, "temperature 0 is greedy, and so is a top-p of 0; a top-k above the vocabulary is none", exact=True)
def ends_of_the_scales(trial: Trial) -> Iterator[float]:
    """And where every token is ruled out, a row ends, and nothing breaks (vllm #1623)."""
    prompts, sources = inputs(trial)
    likeliest, leads = greedy(trial, prompts, sources, STEPS)
    if not leads.min() >= MARGIN:
        raise Undecided("two tokens are almost equally likely at some step")

    def wrong(samplers: Sequence[Sampler], expected: list[list[int]]) -> int:
        return sum(ours != theirs for ours, theirs in zip(run(samplers), expected, strict=True))

    def run(samplers: Sequence[Sampler], banned: Sequence[int] = ()) -> list[list[int]]:
        return sampled(trial, prompts, sources, samplers, banned)

    vocabulary, expected = trial.config.target_vocab_size, likeliest.tolist()
    yield wrong([Sampler(temperature=0, top_k=5, top_p=0.5, seed=seed) for seed in range(3)], expected)
    for narrow in ({"top_p": 0.0}, {"top_p": 1e-9}, {"top_k": 1}, {"min_p": 1.0}, {"temperature": 1e-9}):
        yield wrong([Sampler(seed=seed, **narrow) for seed in range(3)], expected)
    free = [Sampler(seed=seed) for seed in range(3)]
    yield wrong([Sampler(top_k=vocabulary + 1000, seed=seed) for seed in range(3)], run(free))
    # Each row its own: one that draws must not make its neighbours draw.
    mixed = [free[0], Sampler(temperature=0), free[2]]
    yield wrong(mixed, [run(free)[0], expected[1], run(free)[2]])
    if run(free, banned=range(vocabulary)) != [[], [], []]:
        raise Broken("something is said although every token is ruled out")
