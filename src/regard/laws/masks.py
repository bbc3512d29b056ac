"""Laws 2, 6, 7, 8, 13: nobody sees padding, the future, or another document."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from regard.laws.law import law
from regard.laws.trial import Broken, Trial
from regard.model import watch


@law(2, "padding changes nothing at real tokens")
def padding(trial: Trial) -> Iterator[float]:
    """On the right of encoder, decoder and source; with explicit positions, on the left (TransformerLens #1609)."""
    ids, pads = trial.ids(2, 7), trial.ids(2, 3)
    right, real = torch.cat([ids, pads], 1), trial.real([7, 7], 10)
    if trial.encodes:
        yield trial.gap(trial.encoded(right, real)[:, :7], trial.encoded(ids))
    if trial.decodes:
        source = trial.source(2)
        alone = trial.decoded(ids, trial.start(source))
        yield trial.gap(trial.decoded(right, trial.start(source), real=real)[:, :7], alone)
        left, pos = torch.cat([pads, ids], 1), torch.arange(-3, 7, device=ids.device).clamp(min=0).expand(2, -1)
        yield trial.gap(trial.decoded(left, trial.start(source), real=real.flip(1), pos=pos)[:, 3:], alone)
        if source is not None:
            state = trial.start(torch.cat([source, pads], 1), trial.real([5, 5], 8))
            yield trial.gap(trial.decoded(ids, state), alone)


@law(6, "a row of nothing but padding stays finite, and leaves the other rows unchanged")
def nothing_to_see(trial: Trial) -> Iterator[float]:
    """Outputs and gradients of an empty row, of an empty source, and of an empty prompt continued (pytorch #103963)."""
    ids, real = trial.ids(2, 6), trial.real([6, 0], 6)
    if trial.encodes:
        yield trial.gap(trial.encoded(ids, real)[:1], trial.encoded(ids[:1]))
        yield _not_finite(trial, lambda: trial.encoded(ids, real))
    if not trial.decodes:
        return
    source = trial.source(2, 6)
    first = None if source is None else source[:1]
    if source is not None:
        yield trial.gap(trial.decoded(ids, trial.start(source, real))[:1], trial.decoded(ids[:1], trial.start(first)))
        yield _not_finite(trial, lambda: trial.decoded(ids, trial.start(source, real)))
        yield _not_finite(trial, lambda: trial.decoded(ids, trial.start(source[:, :0])))
    yield _not_finite(trial, lambda: trial.decoded(ids, trial.start(source), real=real))
    state = trial.start(source, capacity=8)
    trial.decoded(ids, state, real=real)
    more = trial.ids(2, 2)
    continued = trial.decoded(more, state)
    whole = trial.decoded(torch.cat([ids, more], 1)[:1], trial.start(first))[:, 6:]
    fresh = trial.decoded(more[1:], trial.start(None if source is None else source[1:]))
    yield trial.gap(continued, torch.cat([whole, fresh]))


def _not_finite(trial: Trial, run: Callable[[], Tensor]) -> float:
    """How many numbers of the output, and of its gradient with respect to the embeddings, are not finite."""
    with trial.inputs() as leaves:
        said = run()
        # Weighted, since the plain sum of a LayerNorm's output has no gradient.
        weights = torch.linspace(-1, 1, said.numel(), device=said.device, dtype=said.dtype).view_as(said)
        gradients = torch.autograd.grad((said * weights).sum(), leaves, allow_unused=True)
    tensors = [said, *(gradient for gradient in gradients if gradient is not None)]
    return float(sum((~tensor.isfinite()).sum() for tensor in tensors))


@law(7, "each row of attention weights sums to 1, and hidden keys get exactly 0")
def rows_sum_to_one(trial: Trial) -> Iterator[float]:
    """Self, causal, windowed and cross-attention, in every layer, of rows with padding."""
    ids, real = trial.ids(2, 7), trial.real([7, 4], 7)
    source, source_real = trial.source(2), trial.real([3, 5], 5)
    with watch(trial.model, "*.weights") as seen:
        if trial.decodes:
            trial.decoded(ids, trial.start(source, None if source is None else source_real), real=real)
        else:
            trial.encoded(ids, real)
    index = torch.arange(7, device=ids.device)
    past = index <= index[:, None]
    if trial.config.window is not None:
        past &= index[:, None] - index < trial.config.window.size
    encoder_real = real if source is None else source_real
    for name, weights in seen.items():  # (B, H, T, S)
        if name.startswith("encoder"):
            queries, visible = encoder_real, encoder_real[:, None]
        else:
            queries, visible = real, past[None] if "self_attn" in name else source_real[:, None]
        rows = weights.transpose(1, 2)[queries]  # (real queries, H, S)
        hidden = ~visible.expand(-1, weights.size(2), -1).expand(2, -1, -1)[queries]  # (real queries, S)
        if (rows.masked_fill(~hidden[:, None], 0) != 0).any():
            raise Broken(f"{name}: a query looks at a key that is padding, in its future or outside its window")
        yield float((rows.sum(-1) - 1).abs().max())


@law(8, "a token changes nothing before it, neither what is said nor by its gradient", exact=True)
def no_future(trial: Trial) -> Iterator[float]:
    """Bit-equal before token t when token t changes; and no gradient from there to any later embedding."""
    trial.needs_decoder()
    ids, source, t = trial.ids(2, 9), trial.source(2), 5
    changed = ids.clone()
    changed[:, t] = (ids[:, t] + 1) % trial.vocabulary
    before, after = (trial.decoded(x, trial.start(source)) for x in (ids, changed))
    if torch.equal(before[:, t:], after[:, t:]):
        raise Broken("changing a token does not even change what is said after it")
    yield trial.differing(before[:, :t], after[:, :t])
    with trial.inputs() as leaves:
        said = trial.decoded(ids, trial.start(source))
        (gradient,) = torch.autograd.grad(said[:, t - 1].square().sum(), leaves[-1:])
    yield float((gradient[:, t:] != 0).sum())


@law(13, "packed documents do not see each other")
def packed_documents(trial: Trial) -> Iterator[float]:
    """Document 2 is as when alone, and editing document 1 changes no bit of it (trl #784, transformers #46634)."""
    trial.needs_decoder()
    one, two, source = trial.ids(1, 4), trial.ids(1, 6), trial.source(1)
    documents = torch.tensor([[1] * 4 + [2] * 6], device=one.device)
    pos = torch.cat([torch.arange(4), torch.arange(6)])[None].to(one.device)

    def packed(first: Tensor) -> Tensor:
        ids = torch.cat([first, two], 1)
        return trial.decoded(ids, trial.start(source), pos=pos, documents=documents)[:, 4:]

    yield trial.gap(packed(one), trial.decoded(two, trial.start(source)))
    if not torch.equal(packed(one), packed((one + 1) % trial.vocabulary)):
        raise Broken("editing one document changes what is said in the next")
