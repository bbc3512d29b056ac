"""Laws 26 to 29: beam search finds the best, says what it scored, and minds nobody but its own source.

What is unusual: any model will do. A token that it finds likely stands for the end, so that some hypotheses end by
themselves and others are cut; its logits are set to 0 for a law about lengths; and all but four tokens are banned where
every possible output must be tried. 28 and 29 are tried freely, and again under a constraint that leaves the shortest
output no choice. What it does not know: tokenizers, and which token ends a text.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.generate import Constraint, Hypothesis, Phrase, Sampler, beam_search
from regard.laws.cache import MARGIN, greedy
from regard.laws.law import law
from regard.laws.sampling import sampled
from regard.laws.trial import Broken, NotApplicable, Trial, Undecided
from regard.model import LMHead, watch

BEAM = 4
LIMITS = (3, 9, 6)
"""The most tokens of each of three outputs: they leave the search one by one, and not in order."""
STEPS = 4
"""The length up to which every output is tried: 3 letters and an end, 121 outputs."""
TIE = 1e-4
"""Scores closer than this may change places by rounding."""


@dataclass(frozen=True)
class Inputs:
    """Three outputs to search for: how each begins, its source (of 4, 2 and 6 tokens, if any), and what ends it.

    `kept` is what they must keep to where they are constrained: a first token, two others in a row, and no two twice.
    """

    first: Tensor
    sources: list[Tensor]
    end: int
    kept: Constraint


def draw(trial: Trial) -> Inputs:
    """Random beginnings and sources; the end is what the model finds second likeliest after the first of them."""
    trial.needs_decoder()
    if not isinstance(trial.model.head, LMHead):
        raise NotApplicable("the head does not say tokens")
    if trial.vocabulary <= BEAM:
        raise NotApplicable(f"the vocabulary has no more than {BEAM} tokens")
    first = trial.ids(3, 1)[:, 0]
    sources = [source[0] for n in (4, 2, 6) if (source := trial.source(1, n)) is not None]
    said = trial.decoded(first[:1, None], trial.start(sources[0][None] if sources else None))  # (1, 1, V)
    end = int(said[0, 0].topk(2).indices[1])
    letters = [token for token in range(trial.config.target_vocab_size) if token != end]
    one, two, three = (letters[i] for i in torch.randperm(len(letters), generator=trial.random)[:3])
    return Inputs(first, sources, end, Constraint((one,), (Phrase(((two, three),)),), no_repeat_ngram=2))


def search(
    trial: Trial,
    given: Inputs,
    rows: Sequence[int] = (0, 1, 2),
    *,
    beam: int = BEAM,
    alpha: float = 0.6,
    constrained: bool = False,
) -> list[list[Hypothesis]]:
    """All hypotheses found for these of the inputs, searched in one batch and in this order."""
    state = trial.start(*_sources(trial, given, rows), capacity=max(LIMITS))
    limits = torch.tensor(LIMITS, device=trial.model.device)[list(rows)]
    return beam_search(
        trial.model,
        state,
        given.first[list(rows)][:, None],
        ends=[given.end],
        limits=limits,
        beam=beam,
        n_best=beam,
        alpha=alpha,
        constraints=[given.kept] * len(rows) if constrained else (),
    )


def _sources(trial: Trial, given: Inputs, rows: Sequence[int]) -> tuple[Tensor | None, Tensor | None]:
    return trial.padded([given.sources[i] for i in rows]) if given.sources else (None, None)


def forced(trial: Trial, given: Inputs, row: int, ids: Sequence[int]) -> float:
    """log p of these tokens, in one full pass that is told them."""
    tokens = torch.tensor([[int(given.first[row]), *ids]], device=trial.model.device)
    log_p = trial.decoded(tokens[:, :-1], trial.start(_sources(trial, given, [row])[0])).log_softmax(-1)
    return float(log_p[0].gather(1, tokens[0, 1:, None]).double().sum())


def off(ours: float, theirs: float) -> float:
    """How far apart two scores are, relative to their size."""
    return abs(ours - theirs) / max(1.0, abs(theirs))


@law(26, "a score is log p / length ** alpha, the end counted and nothing else")
def one_length(trial: Trial) -> Iterator[float]:
    """Every token equally likely: with alpha 1 all score the same, however long (transformers #26624, vllm #2606)."""
    given, one_token = draw(trial), -math.log(trial.config.target_vocab_size)
    with watch(trial.model, "logits", edit=lambda _, logits: torch.zeros_like(logits)):
        lengths = set[int]()
        for alpha in (0.0, 0.6, 1.0):
            for one in (one for best in search(trial, given, alpha=alpha) for one in best):
                length = len(one.ids) + 1 if one.finished else len(one.ids)
                lengths.add(length)
                yield off(one.score, one_token * length ** (1 - alpha))
        if len(lengths) < 2:
            raise Undecided("all hypotheses have the same length")


@law(27, "a beam that holds every hypothesis finds the best of all outputs")
def brute_force(trial: Trial) -> Iterator[float]:
    """Every output of at most 4 tokens over three likely letters and an end (joeynmt #148, OpenNMT-py #999)."""
    given, vocabulary = draw(trial), trial.config.target_vocab_size
    for row in range(3):
        first, source = given.first[row : row + 1], _sources(trial, given, [row])[0]
        likely = trial.decoded(first[:, None], trial.start(source))[0, 0].topk(4).indices.tolist()
        letters = [token for token in likely if token != given.end][:3]
        banned = tuple(set(range(vocabulary)) - {*letters, given.end})
        said, ended = every_output(trial, first, source, letters, given.end)
        for alpha in (0.0, 0.6, 1.0):
            lengths = torch.arange(1, STEPS + 1, dtype=torch.float64, device=said.device) ** alpha
            best = max(float((ended / lengths).max()), float((said[:, -1] / STEPS**alpha).max()))
            found = beam_search(
                trial.model, trial.start(source, capacity=STEPS), first[:, None], ends=[given.end],
                limits=torch.tensor([STEPS], device=said.device), beam=3**STEPS + 3 ** (STEPS - 1), alpha=alpha,
                banned=banned,
            )  # fmt: skip
            yield off(found[0][0].score, best)


def every_output(
    trial: Trial, first: Tensor, source: Tensor | None, letters: list[int], end: int
) -> tuple[Tensor, Tensor]:
    """log p of the first 1..STEPS letters of every word, and of an end in place of the last; (81, STEPS) each."""
    words = torch.tensor(list(itertools.product(letters, repeat=STEPS)), device=first.device)  # (81, STEPS)
    told = torch.cat([first.expand(len(words), 1), words[:, :-1]], 1)
    log_p = trial.decoded(told, trial.start(source)).log_softmax(-1)  # (81, STEPS, V)
    said = log_p.gather(2, words[..., None])[..., 0].cumsum(1)
    return said, log_p[..., end] + F.pad(said[:, :-1], (1, 0))


def keeps(kept: Constraint, one: Hypothesis) -> bool:
    """Whether it begins with the prefix, holds the phrases, and repeats no n-gram outside of these."""
    n, given = kept.no_repeat_ngram, {*range(len(kept.prefix)), *(i for _, *span in one.met for i in range(*span))}
    grams = [one.ids[i : i + n] for i in range(len(one.ids) - n + 1)]
    again = any(gram in grams[:i] for i, gram in enumerate(grams) if i + n - 1 not in given)
    holds = all(one.ids[start:end] in kept.phrases[phrase].forms for phrase, start, end in one.met)
    return len(one.met) == len(kept.phrases) and holds and one.ids[: len(kept.prefix)] == kept.prefix and not again


@law(28, "the n best are distinct, end once, and score what the model says of them when told")
def truthful(trial: Trial) -> Iterator[float]:
    """Best first, and each recomputed by teacher forcing (sockeye #233)."""
    given, alpha = draw(trial), 0.6
    for constrained, row in itertools.product((False, True), range(3)):
        best = search(trial, given, [row], alpha=alpha, constrained=constrained)[0]
        if len({one.ids for one in best}) < len(best) or not best:
            raise Broken("two hypotheses are the same")
        if any(given.end in one.ids for one in best):
            raise Broken("a hypothesis goes on after its end")
        if any(not one.finished and len(one.ids) != LIMITS[row] for one in best):
            raise Broken("a hypothesis was cut before its limit")
        if constrained and not all(keeps(given.kept, one) for one in best):
            raise Broken("a hypothesis does not keep to its constraint")
        if best != sorted(best, key=lambda one: -one.score):
            raise Broken("the hypotheses do not come best first")
        for one in best:
            ids = [*one.ids, given.end] if one.finished else one.ids
            logprob = forced(trial, given, row, ids)
            yield off(one.logprob, logprob)
            yield off(one.score, logprob / len(ids) ** alpha)


@law(29, "neither the others of a batch nor their order change an output or a sample; a beam of 1 is greedy")
def alone(trial: Trial) -> Iterator[float]:
    """In another order, in pairs, one by one, and with a beam of 1 token by token (OpenNMT-py #137)."""
    given = draw(trial)
    for constrained in (False, True):
        together = search(trial, given, constrained=constrained)
        for rows in ([2, 0, 1], [1, 2], [0], [1], [2]):
            for row, best in zip(rows, search(trial, given, rows, constrained=constrained), strict=True):
                yield from _same(together[row], best)
    said, leads = greedy(trial, list(given.first[:, None]), given.sources, max(LIMITS))
    if not leads.min() >= MARGIN:
        raise Undecided("two tokens are almost equally likely at some step")
    end = int(said[0, 1])  # and an alpha that would prefer whatever went on after it
    for row, (one,) in enumerate(search(trial, replace(given, end=end), beam=1, alpha=2.0)):
        tokens = said[row, : LIMITS[row]].tolist()
        if one.ids != tuple(itertools.takewhile(lambda token: token != end, tokens)):
            raise Broken("a beam of 1 is not greedy")
    # Now and then a random number falls so close between two tokens that rounding decides; never in three texts twice.
    if not (_sampled_alone(trial, given, 0) or _sampled_alone(trial, given, 10)):
        raise Broken("a seed's sample depends on the others of its batch")


def _sampled_alone(trial: Trial, given: Inputs, seed: int) -> bool:
    """Whether each input's sample, by a seed of its own, is the same alone as in a batch of all three."""
    prompts, samplers = list(given.first[:, None]), [Sampler(seed=seed + row) for row in range(3)]
    together = sampled(trial, prompts, given.sources, samplers)
    return together == [
        sampled(trial, prompts[i : i + 1], given.sources[i : i + 1], samplers[i : i + 1])[0] for i in range(3)
    ]


def _same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> Iterator[float]:
    for mine, its in zip(ours, theirs, strict=True):
        if mine.ids != its.ids:
            if off(mine.score, its.score) < TIE:
                raise Undecided("two hypotheses score almost the same")
            raise Broken("a source's output depends on the others of its batch")
        yield off(mine.score, its.score)
