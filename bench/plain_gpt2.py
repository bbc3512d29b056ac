"""GPT-2's shape by hand, on any device: what `scripts/gpu_check` holds regard's training and decoding against.

Fused attention by F.scaled_dot_product_attention, weights tied, cross entropy over all logits at once, keys and values
kept in slices of a tensor. Nothing of regard is imported.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Cache = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, (B, H, slots, d)."""


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, kept: tuple[Tensor, Tensor] | None, start: int) -> Tensor:
        length = x.size(1)
        q, k, v = (
            part.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).split(x.size(-1), -1)
        )
        if kept is not None:
            kept[0][:, :, start : start + length], kept[1][:, :, start : start + length] = k, v
            k, v = (all_of[:, :, : start + length] for all_of in kept)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(z.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, *, vocabulary: int, layers: int, heads: int, width: int, context: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor, cache: Cache | None = None, start: int = 0) -> Tensor:
        """ids (B, T), the first of them at position `start` -> logits (B, T, V)."""
        x = self.tokens(ids) + self.places(torch.arange(start, start + ids.size(1), device=ids.device))
        for i, block in enumerate(self.blocks):
            x = block(x, None if cache is None else cache[i], start)
        return self.norm(x) @ self.tokens.weight.T

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self(ids).flatten(0, 1).float(), targets.flatten())

    def cache(self, rows: int, slots: int) -> Cache:
        width, heads = self.tokens.weight.size(1), self.blocks[0].heads
        shape = rows, heads, slots, width // heads
        return [(self.tokens.weight.new_zeros(shape), self.tokens.weight.new_zeros(shape)) for _ in self.blocks]

    @torch.no_grad()
    def first(self, prompts: Tensor, slots: int) -> tuple[Cache, Tensor]:
        """Read the prompts (B, T); what is kept of them, and the likeliest next tokens (B, 1)."""
        cache = self.cache(len(prompts), slots)
        return cache, self(prompts, cache)[:, -1:].argmax(-1)

    @torch.no_grad()
    def go_on(self, cache: Cache, token: Tensor, start: int, count: int) -> Tensor:
        """The likeliest tokens after `token` (B, 1), which stands at `start`: (B, count)."""
        said = []
        for place in range(start, start + count):
            token = self(token, cache, place).argmax(-1)
            said.append(token)
        return torch.cat(said, 1)
