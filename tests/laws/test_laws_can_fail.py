"""A law that cannot fail says nothing: each is shown a model with just the fault it is about, and must say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.laws import LAWS
from regard.model import Model
from regard.model import attention as attention_module
from regard.model.cache import DecodeState, KVCache
from regard.model.layers import Block, Dropout
from regard.model.masks import Mask
from regard.model.positions import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions, unturned

Patch = pytest.MonkeyPatch
Break = Callable[[Patch, Model], None]

BREAKS: list[tuple[int, tuple[str, ...], Break]] = []


def breaks(number: int, *case: str) -> Callable[[Break], Break]:
    """This fault breaks that law in this model."""

    def register(fault: Break) -> Break:
        BREAKS.append((number, case, fault))
        return fault

    return register


@pytest.mark.parametrize(("number", "case", "fault"), BREAKS, ids=[f"{n}-{f.__name__}-{c[0]}" for n, c, f in BREAKS])
def test_law_fails(number: int, case: tuple[str, ...], fault: Break, build, monkeypatch) -> None:
    model = build(*case)
    assert LAWS[number](model).outcome == "pass"
    fault(monkeypatch, model)
    verdict = LAWS[number](model)
    assert verdict.outcome == "fail", verdict


def redraw(patch: Patch, change: Callable[[Mask], Mask]) -> None:
    """Let every mask be drawn as `change` has it, and never leave it to the kernel."""
    draw = Mask.draw
    patch.setattr(Mask, "draw", lambda self, rows, columns: draw(change(self), rows, columns))
    patch.setattr(Mask, "kernel_causal", property(lambda self: False))


@breaks(1, "decoder", "rope", "llama")
@breaks(5, "both", "sinusoidal")
def pads_are_counted_as_tokens(patch: Patch, model: Model) -> None:
    advance = DecodeState.advance
    patch.setattr(
        DecodeState, "advance",
        lambda self, ids, real=None, pos=None, documents=None: advance(self, ids, None, pos, documents),
    )  # fmt: skip


@breaks(2, "encoder", "rope")
@breaks(2, "both", "learned")
@breaks(7, "both", "alibi")
def padding_is_looked_at(patch: Patch, model: Model) -> None:
    redraw(patch, lambda mask: replace(mask, real=None))


@breaks(3, "decoder", "sinusoidal")
@breaks(4, "both", "relative")
@breaks(5, "decoder", "alibi", "bert")
def keys_are_written_one_slot_late(patch: Patch, model: Model) -> None:
    write = KVCache.write

    def late(self: KVCache, k: Tensor, v: Tensor, step: object) -> None:
        write(self, k, v, step)
        self.k = self.k.roll(1, 2)

    patch.setattr(KVCache, "write", late)


@breaks(3, "both", "none")
def cross_attention_sees_one_source_token_less(patch: Patch, model: Model) -> None:
    memory_mask, calls = DecodeState.memory_mask, []

    def short(self: DecodeState) -> Mask | None:
        mask = memory_mask(self)
        calls.append(mask)
        return mask if len(calls) == 1 else replace(mask, real=torch.arange(mask.k_pos.size(1))[None] > 0)

    patch.setattr(DecodeState, "memory_mask", short)


@breaks(4, "decoder", "rope")
def causal_masks_are_aligned_top_left(patch: Patch, model: Model) -> None:
    redraw(patch, lambda mask: replace(mask, q_pos=torch.arange(mask.q_pos.size(1))[None]) if mask.causal else mask)


@breaks(5, "decoder", "learned")
def rows_count_as_the_longest(patch: Patch, model: Model) -> None:
    advance = DecodeState.advance

    def even(self: DecodeState, *arguments: object) -> object:
        step = advance(self, *arguments)
        if self.length is not None:
            self.length = torch.full_like(self.length, self.longest)
        return step

    patch.setattr(DecodeState, "advance", even)


@breaks(6, "encoder", "sinusoidal")
@breaks(6, "both", "rope", "llama")
def a_row_of_minus_infinity_is_not_guarded(patch: Patch, model: Model) -> None:
    def naive(q, k, v, mask, scale, bias, dropout, site, rows) -> Tensor:
        share = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        scores = q[:, :, rows] @ k.transpose(-1, -2) * scale
        visible = mask.draw(rows, slice(0, k.size(2)))
        return (scores if visible is None else scores.masked_fill(~visible, -torch.inf)).softmax(-1) @ v

    patch.setattr(attention_module, "_fused", naive)


@breaks(7, "encoder", "learned")
@breaks(14, "both", "sinusoidal")
def open_weights_are_not_normalised(patch: Patch, model: Model) -> None:
    patch.setattr(Tensor, "softmax", lambda self, dim, dtype=None: self.sigmoid())


@breaks(7, "decoder", "rope")
@breaks(8, "decoder", "rope", "llama")
@breaks(8, "both", "none", "bert")
def the_mask_is_off_by_one(patch: Patch, model: Model) -> None:
    redraw(patch, lambda mask: replace(mask, q_pos=mask.q_pos + 1) if mask.causal else mask)


@breaks(8, "decoder", "none")
def values_pass_but_gradients_leak(patch: Patch, model: Model) -> None:
    """What is said stays the same: the sum over all positions is added and taken away again, but only the first is seen
    by the gradient."""
    forward = Block.forward

    def leaking(self: Block, x: Tensor, *arguments: object) -> Tensor:
        total = x.sum(1, keepdim=True)
        return forward(self, x, *arguments) + (total - total.detach())

    patch.setattr(Block, "forward", leaking)


@breaks(9, "encoder", "rope")
@breaks(9, "both", "learned")
def dropout_never_sleeps(patch: Patch, model: Model) -> None:
    patch.setattr(Dropout, "forward", lambda self, x: F.dropout(x, self.p, training=True))


@breaks(9, "decoder", "none")
def dropout_does_nothing(patch: Patch, model: Model) -> None:
    patch.setattr(Dropout, "forward", lambda self, x: x)
    patch.setattr(attention_module.F, "dropout", lambda x, p: x)


@breaks(10, "encoder", "learned")
@breaks(10, "decoder", "learned")
def the_last_position_is_used_again(patch: Patch, model: Model) -> None:
    patch.setattr(
        LearnedPositions, "embed",
        lambda self, x, pos: x + F.embedding(pos.clamp(max=self.weight.size(0) - 1), self.weight),
    )  # fmt: skip


@breaks(10, "decoder", "sinusoidal")
def positions_begin_at_one(patch: Patch, model: Model) -> None:
    single = DecodeState._single_pass

    def shifted(self: DecodeState, ids: Tensor, real: Tensor, pos: Tensor, documents: Tensor) -> object:
        step = single(self, ids, real, pos, documents)
        return step if pos is not None else replace(step, pos=step.pos + 1)

    patch.setattr(DecodeState, "_single_pass", shifted)


@breaks(10, "both", "rope")
def columns_count_against_max_len(patch: Patch, model: Model) -> None:
    advance = DecodeState.advance

    def counting(self: DecodeState, ids: Tensor, *arguments: object) -> object:
        self.columns = getattr(self, "columns", 0) + ids.size(1)
        if self.caches and self.columns > self.slots:
            raise ValueError("the cache is full")
        return advance(self, ids, *arguments)

    patch.setattr(DecodeState, "advance", counting)


@breaks(11, "encoder", "none")
@breaks(11, "both", "rope")
def the_norm_stands_inside_the_residual(patch: Patch, model: Model) -> None:
    patch.setattr(Block, "residual", lambda self, x, norm, sublayer: x + norm(sublayer(x)))


@breaks(11, "decoder", "sinusoidal")
def a_post_norm_stack_ends_in_one_more_norm(patch: Patch, model: Model) -> None:
    model.transformer.decoder.norm = nn.LayerNorm(model.config.d_model, bias=False)


@breaks(12, "encoder", "none")
def order_leaks_without_positions(patch: Patch, model: Model) -> None:
    patch.setattr(Positions, "embed", lambda self, x, pos: x + 0.1 * pos[..., None])


@breaks(12, "both", "rope")
def rotation_does_nothing(patch: Patch, model: Model) -> None:
    patch.setattr(RotaryPositions, "rotation", lambda self, pos, like: unturned)


@breaks(13, "decoder", "rope")
@breaks(13, "both", "alibi")
def documents_see_each_other(patch: Patch, model: Model) -> None:
    redraw(patch, lambda mask: replace(mask, documents=None))


@breaks(14, "encoder", "rope")
@breaks(14, "decoder", "none", "llama")
def scores_are_not_scaled(patch: Patch, model: Model) -> None:
    for module in model.modules():
        if isinstance(module, attention_module.Attention):
            module.scale = 1.0


@breaks(14, "decoder", "sinusoidal")
def waves_are_laid_out_otherwise(patch: Patch, model: Model) -> None:
    for module in model.modules():
        if isinstance(module, SinusoidalPositions):
            module.layout = "split"


@breaks(14, "decoder", "rope", "llama")
@breaks(14, "both", "relative")
def keys_are_shown_to_watchers_otherwise_than_they_are(patch: Patch, model: Model) -> None:
    """The model says what it should; only who looks is told something else."""
    see = attention_module.see

    def other(module: nn.Module, leaf: str, x: Tensor) -> Tensor:
        see(module, leaf, x.roll(1, -1) if leaf == "k" else x)
        return x

    patch.setattr(attention_module, "see", other)


@breaks(14, "both", "alibi", "llama")
def the_bias_is_not_offered(patch: Patch, model: Model) -> None:
    see = attention_module.see
    patch.setattr(attention_module, "see", lambda module, leaf, x: x if leaf == "bias" else see(module, leaf, x))


@breaks(14, "both", "learned", "llama")
def query_heads_share_the_wrong_key_heads(patch: Patch, model: Model) -> None:
    """H / K heads in a row share a key head; here they take turns."""
    queries = attention_module.Attention.queries

    def turns(self: nn.Module, x: Tensor) -> Tensor:
        return queries(self, x).unflatten(1, (self.kv_heads, -1)).transpose(1, 2).flatten(1, 2)

    patch.setattr(attention_module.Attention, "queries", turns)
