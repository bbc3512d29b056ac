"""Real text as an exported model and ours are to read it, for `parity`: what to compute on, and what to go on from.

What is unusual: sentences of our own in several scripts are here for whoever has no data at hand. They show whether two
engines agree, which needs no good translation; how good the models are is seen on real data with references alone.
What it does not know: models at work, and the engines.

Shapes: N texts, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.hub.export import Ids
from regard.model import TransformerConfig
from regard.text import Tokenizer

SENTENCES = (
    "A man in a red jacket rides his bicycle past the old station.",
    "Two children are playing chess on a bench, and nobody has moved for ten minutes!",
    "It cost 1,250.50 euros on 3 May 2024; was that too much?",
    "Der Zug nach Köln fährt heute nicht, weil auf den Gleisen Schnee liegt.",
    "Où est passé le chat qui dormait sous l'escalier ?",
    "Вчера мы целый день гуляли вдоль реки.",
    "孩子们在图书馆门口等雨停。",
    "駅前の小さな店で温かいお茶を買いました。",
    "زرنا المتحف القديم يوم الجمعة.",
    "café, nai\u0308ve 🚲 — ok?",
    "yes",
)
CONTINUED = 32
"""Tokens that a decoder is asked to go on for, after a prompt of at most half as many."""
PROMPTS = 50
"""Texts that a decoder is asked to go on from, since engines are asked one prompt at a time."""


@dataclass(frozen=True)
class Case:
    """Ids that both models read: `source` by an encoder, with the segments in `types`; `target` by a decoder."""

    source: tuple[int, ...] = ()
    types: tuple[int, ...] = ()
    target: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """The longer side's."""
        return max(len(self.source), len(self.target))


@dataclass(frozen=True)
class Question:
    """What a model is to go on from, greedily, for at most `limit` tokens."""

    case: Case
    limit: int


def ask(
    config: TransformerConfig,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    ids: Ids,
    *,
    ratio: float = 1.0,
    leads: Sequence[Sequence[int]] = (),
) -> tuple[list[Case], list[Question]]:
    """The texts, each cut to what the model reads: to compute on, and to go on from.

    A translator gets questions alone; what it is compared on are its own answers. An encoder gets none.

    Args:
        tokenizer: whose template says what stands around a text.
        ratio: target tokens to a source token, at most.
        leads: what stands before each source besides, for a translator of several languages.
    """
    encoder, decoder = config.n_encoder_layers > 0, config.n_decoder_layers > 0
    cases, questions = list[Case](), list[Question]()
    for i, text in enumerate(texts):
        lead = leads[i] if leads else ()
        read, types = _wrapped(tokenizer, text, config.max_len - len(lead))
        source = (*lead, *read)
        if encoder and decoder:
            assert ids.start is not None
            begun = (ids.start, *ids.forced)
            limit = min(config.max_len - len(ids.forced), math.ceil(ratio * len(source)) + 10)
            questions.append(Question(Case(source=source, target=begun), limit))
        elif encoder:
            cases.append(Case(source=source, types=types))
        elif source:
            cases.append(Case(target=source))
            prompt = source[: max(1, min(CONTINUED, len(source)) // 2)]
            limit = min(CONTINUED, config.max_len - len(prompt))
            if limit > 0 and len(questions) < PROMPTS:
                questions.append(Question(Case(target=prompt), limit))
    return cases, questions


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Ids (N, T) padded on the right, and which are real (N, T)."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    return ids, torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]


def _wrapped(tokenizer: Tokenizer, text: str, room: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A text's ids and segments within the vocabulary's template, in all at most `room`."""
    around = len(tokenizer.wrap([])[0])
    ids, types = tokenizer.wrap(tokenizer.encode(text)[: max(0, room - around)])
    return tuple(ids), tuple(types)
