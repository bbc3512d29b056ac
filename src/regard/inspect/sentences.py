"""Sentences as the heads of a model see them: short ones, the weights over them, and what each role would look at.

What is unusual: for induction, which hides in ordinary text behind words that are likely anyway, there are random
tokens said twice, where nothing but the first time foretells the second (Olsson et al. 2022).
What it does not know: which role a head has (`inspect.roles`).

Shapes: L layers, H heads, N = L H, T queries, S keys.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from regard.inspect import aims
from regard.inspect.aims import Array
from regard.inspect.edits import edited
from regard.inspect.parts import Part
from regard.inspect.passes import hidden_of
from regard.inspect.scripts import Request, Script, TooLong, script_of
from regard.inspect.sides import Side, Token, plain
from regard.inspect.writing import completed
from regard.loaded import Loaded
from regard.model import HIDDEN_BELOW, watch

LONGEST = 128
"""Tokens a side: longer sentences are passed over, longer texts of language models cut."""
OFFSETS = range(2, 9)
PERIOD, SEQUENCES = 20, 8
"""Random tokens that are said twice, and how many such sequences there are."""
Role = tuple[str, int | None]
"""Its name, and the offset of those that look at a fixed one."""


def short(loaded: Loaded, request: Request) -> Script | None:
    """The script of a sentence, written to its end where it has no target; None where it is too long."""
    if loaded.task == "language-model":
        around, text = loaded.conventions, request.texts[0] + (request.target or "")
        stands = sum(map(len, around.turn)) if around.turn else max(1, len(around.lead))
        room = min(LONGEST, loaded.model.config.max_len) - stands
        while (count := len(loaded.tokenizer.encode(text))) > room:
            text = text[: len(text) * room // count]
        request = replace(request, texts=(text,), target=None, prefix=(), max_tokens=0)
    try:
        script = script_of(loaded, request)
    except TooLong:
        return None
    if any(side is not None and len(side) > LONGEST for side in (script.source, script.target)):
        return None
    return completed(loaded, request)[0]


def weights_of(
    loaded: Loaded, script: Script, request: Request, parts: Sequence[Part]
) -> Iterator[tuple[Array, Array]]:  # fmt: skip
    """The weights (N, T, S) of each part in one pass, and what a query may see, (T, S); under the request's edits."""
    sites = [[part.at(layer) for layer in range(part.layers)] for part in parts]
    places = [f"{site}.{leaf}" for own in sites for site in own for leaf in ("scores", "weights")]
    with edited(loaded.model, request.edits), watch(loaded.model, *places) as seen:
        hidden_of(loaded.model, script)
    for own in sites:
        scores, weights = ([seen[f"{site}.{leaf}"][0].float().cpu().numpy() for site in own]
                           for leaf in ("scores", "weights"))  # fmt: skip
        yield np.concatenate(weights), np.asarray((np.concatenate(scores) > HIDDEN_BELOW).any(0))


def aims_of(part: Part, script: Script, visible: Array, counts: Counter[int]) -> dict[Role, Array]:
    """What each role of a part would look at in a sentence; `counts` are those of all source tokens."""
    T = len(visible)
    if part.name == "decoder.cross":
        assert script.source is not None and script.target is not None
        return _across(script.source.tokens, script.target.tokens, counts)
    side = script.source if part.queries == "source" else script.target
    assert side is not None
    sinks = [_is_sink(token) or (part.causal and place == 0) for place, token in enumerate(side.tokens)]
    found: dict[Role, Array] = {("previous", None): aims.at_offset(T, -1), ("self", None): aims.at_offset(T, 0)}
    if not part.causal:
        found["next", None] = aims.at_offset(T, 1)
    found |= {("offset", -offset): aims.at_offset(T, -offset) for offset in OFFSETS}
    if not part.causal:
        found |= {("offset", offset): aims.at_offset(T, offset) for offset in OFFSETS}
    return found | {
        ("local", None): aims.local(T),
        ("sink", None): aims.among(T, sinks),
        ("duplicate", None): aims.duplicates(side.ids),
        ("long-range", None): aims.far(T, visible),
    }


def _across(source: Sequence[Token], target: Sequence[Token], counts: Counter[int]) -> dict[Role, Array]:
    T, S = len(target), len(source)
    last = max((i for i, token in enumerate(source) if token.kind == "special"), default=None)
    fewest = min((counts[token.id] for token in source if token.kind == "text"), default=0)
    rare = [token.kind == "text" and counts[token.id] == fewest for token in source]
    said = [_bare(token) for token in (*target[1:], None)]
    return {
        ("band", None): aims.band(T, S),
        ("source-end", None): aims.among(T, [i == last for i in range(S)]),
        ("rare", None): aims.among(T, rare),
        ("copy", None): aims.equal(said, [_bare(token) for token in source]),
    }


def _bare(token: Token | None) -> str | None:
    """A token's text without the space before it; None of what is no text."""
    text = "" if token is None or token.kind != "text" else token.text.strip("▁")
    return text or None


def _is_sink(token: Token) -> bool:
    """A control token, or a text of punctuation alone."""
    text = token.text.strip("▁")
    return token.kind != "text" or (bool(text) and all(unicodedata.category(char)[0] in "PS" for char in text))


def repeated(loaded: Loaded, script: Script) -> Iterator[tuple[Script, int, int]]:
    """Scripts whose decoder reads random tokens twice, where these begin, and how many they are.

    Args:
        script: whose source a decoder with an encoder looks at meanwhile.
    """
    tokenizer, config = loaded.target_tokenizer, loaded.model.config
    specials = {tokenizer.token_id(token) for token in tokenizer.specials}
    texts = [index for index in range(min(tokenizer.vocab_size, config.target_vocab_size)) if index not in specials]
    around = loaded.conventions
    first = around.first if script.source is not None else list(around.lead)
    if not first and around.opening is not None:
        first = [around.opening]
    period, random = min(PERIOD, (config.max_len - len(first)) // 2), np.random.default_rng(0)
    for _ in range(SEQUENCES if period > 1 else 0):
        drawn = random.choice(texts, period, replace=len(texts) < period).tolist()
        tokens = (*plain(tokenizer, first, "special"), *plain(tokenizer, [*drawn, *drawn], "text"))
        side = Side("target", ("",), tokens)
        yield Script(script.source, script.types, side, len(first), (*side.ids[1:], None)), len(first), period
