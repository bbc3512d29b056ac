"""What a model writes when it is looked at: by the usual search and sampling, or under edits by whole passes.

What is unusual: an edit speaks of rows and columns of tokens, and a cached step has but one row. So a changed model
writes by a pass over the whole sequence for each token, which is slow and exact; without changes it writes as it does
everywhere else, and both ways give the same text where nothing is changed.
What it does not know: what is shown.

Shapes: T tokens so far, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from regard.errors import NonFiniteError
from regard.generate import Prompt, Sampler, TokenStream, beam_search, context
from regard.generate.sampling import NOTHING, choose
from regard.inspect.edits import edited
from regard.inspect.passes import memory_of
from regard.inspect.scripts import LIMIT, Request, Script, continued, script_of
from regard.inspect.sides import of_ids
from regard.loaded import Loaded

BEAM_IS_GREEDY = "a changed model writes greedily: beam search needs a cache, in which edits cannot be made"
"""A note for whoever asked for a beam and edits."""


def completed(loaded: Loaded, request: Request) -> tuple[Script, bool]:
    """The script of a request, with what the model writes where it was not told what; and whether it ended that itself.

    Raises:
        ConfigError, NonFiniteError: as `script_of` and `write`.
    """
    script = script_of(loaded, request)
    if script.target is None or request.target is not None:
        return script, False
    ids, ended = write(loaded, script, request)
    part = len(script.target.texts) - 1  # 0 of a translation, 1 of what follows a prompt
    text, tokens = of_ids(loaded.target_tokenizer, ids, script.target.ids[: script.opening] if part else (), part)
    return continued(script, tokens, text, None), ended


def write(loaded: Loaded, script: Script, request: Request) -> tuple[list[int], bool]:
    """What a model writes after a script's opening, beginning with the request's prefix.

    Returns:
        Ids without the end; and whether the model ended them, or else they were cut at their greatest length.

    Raises:
        NonFiniteError: the model says NaN.
        ConfigError: the vocabulary has no end to search for.
    """
    assert script.target is not None
    ends = loaded.conventions.ends
    prefix = list(request.prefix)
    if prefix and prefix[-1] in ends:
        return prefix[:-1], True
    first = [*script.target.ids[: script.opening], *prefix]
    limit = _limit(loaded, script, request, len(first))
    if limit < 1:
        return prefix, False
    if request.edits:
        said, ended = _by_passes(loaded, script, request, first, limit)
    elif request.mode == "beam":
        said, ended = _by_search(loaded, script, request, first, limit)
    else:
        said, ended = _by_steps(loaded, script, request, first, limit)
    return [*prefix, *said], ended


def _limit(loaded: Loaded, script: Script, request: Request, before: int) -> int:
    """How many more tokens there may be, the end included; the last one, too, has a row to be looked at."""
    config, around = loaded.model.config, loaded.conventions
    if script.source is None:
        room = context(config)
        return min(request.max_tokens, LIMIT - before, LIMIT if room is None else room - before)
    own = len(script.source) - len(around.lead) - len(around.tail)
    ratio = float(loaded.about.get("length_ratio", 3.0))
    most = min(around.most_said(config.max_len), math.ceil(ratio * (own + 1)) + 10)  # as `tasks.search` has it
    return min(most - len(request.prefix), min(config.max_len, LIMIT) - before)


def _banned(loaded: Loaded) -> list[int]:
    beyond = range(loaded.target_tokenizer.vocab_size, loaded.model.config.target_vocab_size)
    return [*loaded.conventions.silent, *beyond]


def _sampler(request: Request) -> Sampler:
    return Sampler(temperature=request.temperature if request.mode == "sample" else 0.0, seed=request.seed)


@torch.no_grad()
def _by_steps(
    loaded: Loaded, script: Script, request: Request, first: Sequence[int], limit: int
) -> tuple[list[int], bool]:
    model, said = loaded.model, list[int]()
    state = model.transformer.start(memory_of(model, script), capacity=len(first) + limit)
    stream = TokenStream(
        model, state, [Prompt(first, limit, _sampler(request))], ends=loaded.conventions.ends, banned=_banned(loaded)
    )  # fmt: skip
    for (step,) in stream:
        if step.finish == "nonfinite":
            raise _nan(loaded)
        if step.token is not None:
            said.append(step.token)
        if step.finish == "stop":
            return said, step.logprob > -math.inf  # else no token was left that may be said
    return said, False


@torch.no_grad()
def _by_search(
    loaded: Loaded, script: Script, request: Request, first: Sequence[int], limit: int
) -> tuple[list[int], bool]:
    model, ends = loaded.model, [loaded.conventions.end, *loaded.conventions.ends[1:]]
    state = model.transformer.start(memory_of(model, script), capacity=len(first) + limit)
    (found,) = beam_search(
        model, state, torch.tensor([list(first)], device=model.device), ends=ends, beam=request.beam,
        limits=torch.tensor([limit], device=model.device), banned=tuple(_banned(loaded)),
    )  # fmt: skip
    if not found:
        raise _nan(loaded)
    return list(found[0].ids), found[0].finished


@torch.no_grad()
def _by_passes(
    loaded: Loaded, script: Script, request: Request, first: Sequence[int], limit: int
) -> tuple[list[int], bool]:
    model, sampler, row = loaded.model, _sampler(request), list(first)
    draws, banned = sampler.generator(0), torch.tensor(_banned(loaded), dtype=torch.long, device=model.device)
    with edited(model, request.edits):
        memory = memory_of(model, script)
        for _ in range(limit):
            ids = torch.tensor([row], device=model.device)
            hidden = model.transformer.decode(ids, model.transformer.start(memory))[:, -1]  # (1, D)
            logits = model.logits(hidden)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # (1, V)
            if not bool((logits.amax(-1) < torch.inf).all()):
                raise _nan(loaded)
            draw = float(torch.rand((), generator=draws, dtype=torch.float64)) if sampler.temperature else 0.0
            token = int(choose(logits.index_fill(1, banned, -torch.inf), [sampler], [draw]))
            if token == NOTHING or token in loaded.conventions.ends:
                return row[len(first) :], token != NOTHING
            row.append(token)
    return row[len(first) :], False


def _nan(loaded: Loaded) -> NonFiniteError:
    return NonFiniteError("the model says NaN", where=loaded.path,
                          mend="its weights are damaged: see regard doctor MODEL")  # fmt: skip
