"""How well each decoder layer's cross-attention finds what a target token was made from, where that is known.

What is unusual: the true alignment comes with the data (dates written field by field, `data.localiser`), so a layer has
an error: the share of its attention that falls outside the field which the target token belongs to. A row of weights is
the one that predicted the token, from the tokens before it (chapter 18).
What it does not know: pictures (`inspect.picture`), and how the texts were made.

Shapes: L decoder layers, H heads, T target tokens and S source tokens, both with their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data import collate
from regard.model import Model, watch
from regard.text import Tokenizer

Span = tuple[int, int]


@dataclass(frozen=True)
class PairAttention:
    """One pair of texts, and what the decoder looked at while it was made to write the second.

    Attributes:
        source, target: the tokens, as `Tokenizer.tokens` shows them, with the language's token and the ends.
        fields: of each field in both texts: its source tokens and its target tokens, as numbers from 0.
        weights: (L, T, S), the mean over heads; rows sum to 1.
    """

    source: Sequence[str]
    target: Sequence[str]
    fields: Mapping[str, tuple[Sequence[int], Sequence[int]]]
    weights: Tensor

    @property
    def errors(self) -> Tensor:
        """The share of attention outside the right field, of each target token in a field; (L, tokens)."""
        outside = [1 - self.weights[:, here][:, :, there].sum(-1) for there, here in self.fields.values()]
        return torch.cat(outside, dim=1)


@torch.no_grad()
def pair_attention(
    model: Model,
    tokenizer: Tokenizer,
    source: str,
    target: str,
    fields: Mapping[str, tuple[Span, Span]],
    *,
    prefix: Sequence[int] = (),
) -> PairAttention:
    """One pass of a pair under teacher forcing.

    Args:
        fields: that both texts are known to have, each as the characters [start, end) in source and in target.
        prefix: ids before the source's own, as a target language's (`tasks.prefix`).
    """
    ids = [*prefix, *tokenizer.encode(source)], tokenizer.encode(target)
    special = {"pad_id": tokenizer.pad_id, "bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id}
    batch = collate([ids[0]], [ids[1]], **special).to(model.device)
    with watch(model, "decoder.layers.*.cross_attn.weights") as seen:
        memory = model.transformer.encode(batch.src, real=batch.src_real)
        model.transformer.decode(batch.tgt_in, model.transformer.start(memory, batch.src_real))
    weights = torch.stack([layer[0].mean(0) for layer in seen.values()]).cpu()  # (L, H, T, S) -> (L, T, S)
    tokens = {
        name: (_tokens(tokenizer, source, there, len(prefix)), _tokens(tokenizer, target, here, 0))
        for name, (there, here) in fields.items()
    }
    shown = [tokenizer.tokens([*side, tokenizer.eos_id]) for side in ids]
    return PairAttention(shown[0], shown[1], tokens, weights)


def layer_errors(pairs: Iterable[PairAttention]) -> list[float]:
    """For each decoder layer the mean of `PairAttention.errors` over all pairs."""
    return torch.cat([pair.errors for pair in pairs], dim=1).mean(1).tolist()


def _tokens(tokenizer: Tokenizer, text: str, span: Span, first: int) -> list[int]:
    """The tokens that hold a character of the span; the text's first token is number `first`."""
    found = tokenizer.backend.encode(text, add_special_tokens=False)
    pieces = enumerate(zip(found.tokens, found.offsets, strict=True), first)
    # a space of its own is no part of a field; the one that the tokenizer puts first would have the next one's offsets
    return [i for i, (piece, (start, end)) in pieces if piece.strip() and start < span[1] and span[0] < end]
