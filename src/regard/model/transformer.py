"""The Transformer: an encoder, a decoder, or both (chapter 3.1, 3.2), from token ids to hidden states.

    memory = model.encode(src, real=src_real)                 # every source token sees every other
    state  = model.start(memory, src_real, capacity=100)      # cross-attention's keys, projected once
    hidden = model.decode(ids, state)                         # the prefix
    hidden = model.decode(next_id, state)                     # one more token; earlier ones are in the state

Training is the same call with a state that keeps nothing. Four functions to read and you know the machine:
`Transformer.decode` -> `Stack.forward` -> `Block.forward` -> `Attention.forward`.
What is unusual: encoder and decoder are one class with one flag; the state is an argument; the result is hidden states.
What it does not know: heads and losses (heads.py, tasks), text, sampling.

Shapes: B batch, T queries, S source tokens, D d_model. `real` is True where a token is not padding.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.model.attention import narrow
from regard.model.cache import CHUNK, DecodeState, KVCache, Step
from regard.model.config import TransformerConfig
from regard.model.init import initialise
from regard.model.layers import Block, Dropout, Where, make_norm
from regard.model.masks import Mask
from regard.model.positions import make_positions
from regard.model.watch import see


class Stack(nn.Module):
    """Blocks under one position scheme: an encoder (causal=False) or a decoder (causal=True)."""

    def __init__(self, config: TransformerConfig, n_layers: int, *, causal: bool, cross: bool) -> None:
        super().__init__()
        self.positions = make_positions(config, causal=causal)
        self.types = nn.Embedding(config.n_token_types, config.d_model) if config.n_token_types and not causal else None
        self.embed_norm = make_norm(config) if config.embed_norm else None
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Block(config, cross=cross) for _ in range(n_layers))
        self.norm = make_norm(config) if config.norm_order != "post" else None

    def project_memory(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Each layer's cross-attention keys and values of the source, (B, S, D) -> 2 x (B, K, S, d) a layer."""
        memory = narrow(memory)
        return [cast(Block, layer).project_memory(memory) for layer in self.layers]

    def forward(
        self, x: Tensor, step: Step, *, types: Tensor | None = None, state: DecodeState | None = None
    ) -> Tensor:
        """Token embeddings x (B, T, D), standing where `step` says -> hidden states (B, T, D)."""
        if self.types is not None:
            x = x + self.types(torch.zeros_like(x[..., 0], dtype=torch.long) if types is None else types)
        x = see(self, "positions", self.positions.embed(see(self, "embed", x), step.pos))
        x = self.dropout(x if self.embed_norm is None else self.embed_norm(x))
        mask = step.mask
        bias = self.positions.bias(step.pos if mask.aligned else mask.q_pos, step.pos if mask.aligned else mask.k_pos)
        where = Where(step, self.positions.rotation(step.pos, x), bias)
        memory_mask = None if state is None else state.memory_mask()
        for i, layer in enumerate(self.layers):
            cache = state.caches[i] if state is not None and state.caches else None
            memory = state.memory[i] if state is not None and state.memory is not None else None
            x = layer(x, where, cache, memory, memory_mask)
        return see(self, "norm", x if self.norm is None else self.norm(x))


class Transformer(nn.Module):
    """Token ids to hidden states. Built, and initialised by `init.py`, from a TransformerConfig alone."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        both = config.n_encoder_layers > 0 and config.n_decoder_layers > 0
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        own = config.decoder_vocab_size
        self.decoder_tokens = nn.Embedding(own, config.d_model) if own is not None else None
        self.encoder = (
            Stack(config, config.n_encoder_layers, causal=False, cross=False) if config.n_encoder_layers else None
        )
        self.decoder = (
            Stack(config, config.n_decoder_layers, causal=True, cross=both) if config.n_decoder_layers else None
        )
        initialise(self, config)

    @property
    def output_embedding(self) -> Tensor:
        """The embeddings of what the model says, (V, D); a tied head projects with them."""
        return self._said.weight

    @property
    def _said(self) -> nn.Embedding:
        return self.tokens if self.decoder_tokens is None else self.decoder_tokens

    def embed(self, ids: Tensor, embedding: nn.Embedding) -> Tensor:
        """e_t: ids (B, T) -> (B, T, D)."""
        x = embedding(ids)
        return x if self.config.embed_scale == 1 else x * self.config.embed_scale

    def encode(self, ids: Tensor, *, real: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Every token sees every real token: ids (B, S) -> memory (B, S, D).

        Args:
            real: (B, S) False where padding; None: nothing is.
            types: (B, S) segment ids, for models that tell segments apart.
        """
        if self.encoder is None:
            raise ConfigError("this model has no encoder", where="n_encoder_layers", got=0)
        pos = torch.arange(ids.size(1), device=ids.device)[None]
        mask = Mask(q_pos=pos, k_pos=pos, real=real, aligned=True)
        return self.encoder(self.embed(ids, self.tokens), Step(pos=pos, mask=mask), types=types)

    def start(self, memory: Tensor | None = None, real: Tensor | None = None, *, capacity: int = 0) -> DecodeState:
        """A fresh state to decode with.

        Args:
            memory: (B, S, D) what `encode` gave, for a model with an encoder.
            real: (B, S) False where the source is padding.
            capacity: how many tokens a row may come to have (with a window: any number, in bounded memory); 0: keep
                nothing, for one single pass over whole sequences.
        """
        if self.decoder is None:
            raise ConfigError("this model has no decoder", where="n_decoder_layers", got=0)
        if (memory is None) != (self.encoder is None):
            raise ConfigError("a model with an encoder decodes from its memory, one without it from none")
        window = self.config.window.size if self.config.window else None
        slots = window + CHUNK if window else capacity
        kept = self.decoder.project_memory(memory) if memory is not None else None
        return DecodeState(
            caches=[KVCache(slots) for _ in self.decoder.layers] if capacity else [],
            memory=kept,
            memory_real=real,
            window=window,
        )

    def decode(
        self,
        ids: Tensor,
        state: DecodeState,
        *,
        real: Tensor | None = None,
        pos: Tensor | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """Each token sees the tokens before it, and the source: ids (B, T) -> hidden states (B, T, D).

        Args:
            state: from `start`; it is advanced. B may be a multiple of its sources: n rows in a row share one.
            real: (B, T) False where padding, on the right; a pad is never kept, its hidden state means nothing.
            pos: (B, T) the caller's own positions; only with a state that keeps nothing.
            documents: (B, T) numbers of packed documents, each blind to the others; likewise.

        Raises:
            ConfigError: learned positions, and a token at or beyond max_len.
            ValueError: more tokens than the state's capacity.
        """
        assert self.decoder is not None
        if state.window is not None and state.longest and state.caches and ids.size(1) > CHUNK:
            real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
            parts = zip(ids.split(CHUNK, 1), real.split(CHUNK, 1), strict=True)
            return torch.cat([self.decode(part, state, real=its_real) for part, its_real in parts], 1)
        step = state.advance(ids, real, pos, documents)
        return self.decoder(self.embed(ids, self._said), step, state=state)
