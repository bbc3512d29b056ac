"""Continuations side by side: what each row says, whom it disturbs (nobody), and how much is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from regard.generate import Prompt, Said, Sampler, TokenStream, context
from regard.model import Learned, Model, Rope, TransformerConfig, Window, make_language_model, watch
from regard.model.cache import CHUNK

pytestmark = pytest.mark.usefixtures("one_thread")
GREEDY = Sampler(temperature=0)
PROMPTS = [[5], [7, 8, 9, 3, 2, 11], [4, 4, 6]]


def make(**axes: object) -> Model:
    torch.manual_seed(3)
    sizes = {"vocab_size": 29, "d_model": 16, "n_heads": 2, "d_ff": 24, "n_decoder_layers": 2, "max_len": 40}
    model = make_language_model(TransformerConfig(**{**sizes, "positions": Rope(), "tie_embeddings": False, **axes}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0 if parameter.ndim == 2 else 1.0)
    return model.eval()


@pytest.fixture(scope="module")
def model() -> Model:
    return make()


def run(model: Model, prompts: Sequence[Prompt], **options) -> list[list[Said]]:
    """What each row said."""
    capacity = max(len(prompt.ids) + prompt.limit for prompt in prompts)
    said: list[list[Said]] = [[] for _ in range(len(prompts) * options.get("n", 1))]
    for step in TokenStream(model, model.transformer.start(capacity=capacity), prompts, **options):
        for one in step:
            said[one.row].append(one)
    assert all(one[-1].finish and not any(before.finish for before in one[:-1]) for one in said)
    return said


def tokens(said: Sequence[Said]) -> list[int]:
    return [one.token for one in said if one.token is not None]


@torch.no_grad()
def log_p(model: Model, ids: Sequence[int]) -> Tensor:
    """(len(ids), V): what the model says after each of these tokens, in one full pass."""
    hidden = model.transformer.decode(torch.tensor([list(ids)]), model.transformer.start())
    return model.logits(hidden)[0].log_softmax(-1)


@pytest.mark.parametrize("sampler", [GREEDY, Sampler(seed=4), Sampler(seed=4, top_k=5, repetition_penalty=1.2)])
def test_a_row_is_the_same_alone_and_in_a_batch_and_in_the_full_pass(model: Model, sampler: Sampler) -> None:
    prompts = [Prompt(ids, limit, sampler) for ids, limit in zip(PROMPTS, (12, 5, 20), strict=True)]
    together = run(model, prompts)
    for prompt, said in zip(prompts, together, strict=True):
        [alone] = run(model, [prompt])
        assert tokens(alone) == tokens(said) and len(said) == prompt.limit and said[-1].finish == "length"
        full = log_p(model, [*prompt.ids, *tokens(said)])[len(prompt.ids) - 1 : -1]
        expected = full.gather(1, torch.tensor(tokens(said))[:, None])[:, 0].tolist()
        assert [one.logprob for one in said] == pytest.approx(expected, abs=1e-4)
        if sampler is GREEDY:
            assert tokens(said) == full.argmax(-1).tolist()


def test_samples_of_a_prompt_share_its_pass_and_are_those_of_the_seeds_after(model: Model) -> None:
    sampler, passes = Sampler(seed=10), list[tuple[int, ...]]()
    decode = model.transformer.decode

    def spy(ids: Tensor, *arguments, **options) -> Tensor:
        passes.append(tuple(ids.shape))
        return decode(ids, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.transformer, "decode", spy)
        samples = run(model, [Prompt(ids, 4, sampler) for ids in PROMPTS[:2]], n=3)
    assert passes == [(2, 6), (6, 1), (6, 1), (6, 1)]
    for i, ids in enumerate(PROMPTS[:2]):
        for k in range(3):
            assert tokens(samples[3 * i + k]) == tokens(run(model, [Prompt(ids, 4, Sampler(seed=10 + k))])[0])
    assert len({tuple(tokens(said)) for said in samples}) > 3


def test_rows_that_end_leave_and_the_reader_may_send_them(model: Model) -> None:
    free = run(model, [Prompt(ids, 9, GREEDY) for ids in PROMPTS])
    end = tokens(free[1])[2]
    stream = TokenStream(
        model, model.transformer.start(capacity=20), [Prompt(ids, 9, GREEDY) for ids in PROMPTS], ends=[end]
    )
    said: list[list[Said]] = [[], [], []]
    for number, step in enumerate(stream):
        assert all(one.row != 2 for one in step) or number < 4, "row 2 was sent away"
        for one in step:
            said[one.row].append(one)
        if number == 3:
            stream.stop(2)
    for row in (0, 1):
        expected = tokens(free[row])[: tokens(free[row]).index(end)] if end in tokens(free[row]) else tokens(free[row])
        assert tokens(said[row]) == expected
    assert said[1][-1].finish == "stop" and said[1][-1].token is None
    assert said[1][-1].logprob == pytest.approx(free[1][len(said[1]) - 1].logprob, abs=1e-4)


def test_banned_tokens_are_not_said_but_logprobs_are_the_models(model: Model) -> None:
    [free] = run(model, [Prompt([5], 6, GREEDY)])
    banned = sorted(set(tokens(free)))
    [said] = run(model, [Prompt([5], 6, GREEDY)], banned=banned)
    assert not set(tokens(said)) & set(banned)
    expected = log_p(model, [5, *tokens(said)])[:-1].gather(1, torch.tensor(tokens(said))[:, None])[:, 0]
    assert [one.logprob for one in said] == pytest.approx(expected.tolist(), abs=1e-4)
    [nothing] = run(model, [Prompt([5], 6, Sampler(seed=1))], banned=range(29))
    assert [(one.token, one.finish) for one in nothing] == [(None, "stop")]


def test_a_limit_of_0_says_nothing_beside_one_that_speaks(model: Model) -> None:
    said = run(model, [Prompt([5], 0, GREEDY), Prompt([6], 2, GREEDY), Prompt([7], 0, GREEDY)])
    assert [tokens(one) for one in said] == [[], tokens(run(model, [Prompt([6], 2, GREEDY)])[0]), []]
    assert run(model, [Prompt([5], 0, GREEDY)]) == [[Said(0, None, 0.0, "length")]]


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_row_whose_logits_are_no_numbers_ends_alone(model: Model, poison: float) -> None:
    """Fault 43."""
    free = run(model, [Prompt(ids, 5, Sampler(seed=2)) for ids in PROMPTS])
    steps = 0

    def spoil(name: str, logits: Tensor) -> Tensor:
        nonlocal steps
        steps += 1
        return logits.index_fill(0, torch.tensor([1]), poison) if steps == 3 else logits

    with watch(model, "logits", edit=spoil):
        said = run(model, [Prompt(ids, 5, Sampler(seed=2)) for ids in PROMPTS])
    assert [one[-1].finish for one in said] == ["length", "nonfinite", "length"]
    assert tokens(said[1]) == tokens(free[1])[:2]
    assert [tokens(said[row]) for row in (0, 2)] == [tokens(free[row]) for row in (0, 2)]


def test_a_window_runs_past_max_len_in_bounded_memory() -> None:
    model = make(window=Window(size=6), max_len=16)
    assert context(model.config) is None and context(make().config) == 40
    assert context(make(window=Window(size=6), positions=Learned()).config) == 40
    state = model.transformer.start(capacity=10**6)
    limit = 2 * (CHUNK + 6) + 20
    stream = TokenStream(model, state, [Prompt(PROMPTS[1], limit, GREEDY)])
    said = [one.token for step in stream for one in step]
    assert len(said) == limit and state.caches[0].k.size(2) == 6 + CHUNK
    assert said == log_p(model, [*PROMPTS[1], *said])[5:-1].argmax(-1).tolist()


def test_learned_positions_are_used_to_the_last(model: Model) -> None:
    model = make(positions=Learned(), max_len=12)
    [said] = run(model, [Prompt(PROMPTS[1], 7, GREEDY)])  # 6 + 7: the last token said needs no position
    assert len(tokens(said)) == 7
