"""Why a model says so: what each word and each token adds to a score.

    leave one out       score(text) - score(text without the word): what really happens when the word is missing
    gradient x input    sum_d e_d ds/de_d, of each token's embedding e: how a little more of the token would move s

What is unusual: attention weights are not asked. They say where a layer looked, which need not be what decided (Jain
and Wallace 2019). The two ways differ and neither is the truth: the first sees one word at a time, so that of two words
that say the same neither seems to matter; the second is the slope at this one point (Denil et al. 2014).
What it does not know: tasks; a score is any number that is made of hidden states, or of texts.

Shapes: T tokens, D d_model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.model import Model, watch

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")
"""What stands between white space; in scripts without any, a character."""


@dataclass(frozen=True)
class Effect:
    """What a word adds.

    Attributes:
        part: which of the texts it is in, from 0.
        start, stop: its characters there, [start, stop).
        text: the word.
        effect: how much larger the score is with it.
    """

    part: int
    start: int
    stop: int
    text: str
    effect: float


def leave_one_out(texts: Sequence[str], score: Callable[[list[tuple[str, ...]]], np.ndarray]) -> list[Effect]:
    """The effect of each word, by leaving it out.

    Args:
        texts: of one example: its text, or both its texts.
        score: of N examples, (N,); asked once, for the whole and for all that lack a word.
    """
    words = [(part, found.start(), found.end()) for part, text in enumerate(texts) for found in WORD.finditer(text)]
    examples = [tuple(texts)]
    for part, start, stop in words:
        shorter = texts[part][:start] + texts[part][stop:]
        examples.append((*texts[:part], shorter, *texts[part + 1 :]))
    scores = score(examples)
    return [
        Effect(part, start, stop, texts[part][start:stop], float(scores[0] - scores[i]))
        for i, (part, start, stop) in enumerate(words, 1)
    ]


def gradient_x_input(
    model: Model, ids: Sequence[int], types: Sequence[int], score: Callable[[Tensor], Tensor]
) -> np.ndarray:
    """The effect of each of T tokens by the gradient, (T,) float32; the weights and their gradients are not touched.

    Args:
        ids, types: one text as the encoder reads it.
        score: hidden states (1, T, D) -> a number.
    """
    embedded: list[Tensor] = []

    def take(name: str, x: Tensor) -> Tensor:
        embedded.append(x.detach().requires_grad_())
        return embedded[-1]

    row = torch.tensor([list(ids)], device=model.device)
    kinds = torch.tensor([list(types)], device=model.device) if model.config.n_token_types else None
    with torch.enable_grad(), watch(model, "encoder.embed", edit=take):
        value = score(model.transformer.encode(row, types=kinds))
        (gradient,) = torch.autograd.grad(value, embedded)
    return (gradient * embedded[0]).sum(-1)[0].detach().float().cpu().numpy()
