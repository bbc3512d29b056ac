"""A family's table against transformers: the same saved model opened there and here says the same.

    peer = make_peer(LLAMA, LlamaForCausalLM, LlamaConfig(vocab_size=61, ..))
    check_full_pass(peer); check_ragged(peer); check_greedy(peer); check_round_trip(peer); check_mutants(peer)

What is unusual: every parameter is drawn, norms, biases and padding rows too, and what is compared is what transformers
itself saved, file and config.json; and each check is shown able to fail, by mutants of our model that must not agree.
What it does not know: families; files bigger than a test's (hub/foreign.py opens those).

Shapes: B texts, T tokens, S source tokens, V vocabulary.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import GenerationConfig
from transformers.utils import logging

from regard.hub.fields import Fields
from regard.hub.keymap import Family, matches, place, to_theirs
from regard.hub.labels import read_labels
from regard.model import LABELLED, ClsClassifierHead, Model, Rope, Window, head_name, make_model
from regard.model.config import Alibi, Relative

logging.disable_progress_bar()

TOLERANCE = 1e-4
"""Of a logit, in float32; logits have a standard deviation of at least 1."""
STEPS = 32
"""Tokens said greedily."""


@dataclass(frozen=True)
class Peer:
    """One model, theirs and ours, and what theirs saved."""

    family: Family
    theirs: Any
    fields: dict[str, Any]
    tensors: dict[str, Tensor]
    ours: Model


@dataclass(frozen=True)
class Texts:
    """What both are given: ids (B, T), `real` False at pads on the right, and for some models what else they read."""

    ids: Tensor
    real: Tensor
    target: Tensor | None = None
    """(B, T') what a decoder has said so far of its source, from its first token on."""
    types: Tensor | None = None
    """(B, T) the segment of each token."""


def make_peer(
    family: Family, model_class: Callable[[Any], nn.Module], config: Any, *, seed: int = 0, fixed: tuple[str, ...] = ()
) -> Peer:
    """A tiny model of transformers with drawn parameters, saved by itself, and opened here through the table.

    Args:
        fixed: tensors that are computed and not learned, as regular expressions; they keep their values.
    """
    config._attn_implementation = "eager"
    theirs = model_class(config).eval()
    draw(theirs, seed, fixed)
    fields, tensors = saved(theirs)
    return Peer(family, theirs, fields, tensors, opened(tensors, fields, family))


@torch.no_grad()
def draw(model: nn.Module, seed: int, fixed: tuple[str, ...] = ()) -> None:
    """Give every floating-point tensor of a model random values, each kind of a size that lets it be seen."""
    generator = torch.Generator().manual_seed(seed)
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    drawn: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in drawn or not tensor.is_floating_point() or matches(fixed, name):
            continue
        drawn.add(id(tensor))
        noise = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim < 2 or 1 in tensor.shape:  # a bias, or a norm's gain
            noise = 0.3 * noise + float(tensor.ndim == 1 and name.endswith("weight"))
        elif id(tensor) not in tables:
            noise *= 1.5 / (sum(tensor.shape) / 2) ** 0.5
        tensor.copy_(noise)


def saved(model: nn.Module) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What transformers writes of a model: config.json and model.safetensors."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        fields = json.loads((Path(folder) / "config.json").read_text())
        tensors = load_file(Path(folder) / "model.safetensors")
        return fields, {name: tensor.clone() for name, tensor in tensors.items()}


def opened(tensors: Mapping[str, Tensor], fields: dict[str, Any], family: Family) -> Model:
    """Their tensors as our Model, in evaluation mode; every tensor of either side is accounted for."""
    named = {family.full_name(name): tensor for name, tensor in tensors.items()}
    found = family.read(Fields(fields), named.keys())
    rows, ours, copies = family.rows(found.config, found.head), {}, dict(family.copies)
    for name, tensor in named.items():
        spot = place(rows, name)
        repeated = spot is None or (spot.ours == ("head.weight",) and found.config.tie_embeddings)
        if matches(family.buffers, name) or (repeated and name in copies):
            continue
        if spot is None and matches(family.unused, name):
            continue
        assert spot is not None, f"no row knows {name}"
        ours |= dict(zip(spot.ours, spot.layout.split(tensor, len(spot.ours), found.config), strict=True))
    labels = read_labels(Fields(fields), found.head, found.config).get("labels", "") if found.head in LABELLED else ""
    model = make_model(found.config, found.head, len(labels) or 1).eval()
    model.load_state_dict(ours, strict=True)
    return model


def texts(peer: Peer, lengths: tuple[int, ...], *, seed: int = 1, target: int = 0) -> Texts:
    """Random texts of these lengths, padded on the right, no pad inside; with `target` tokens already said of each."""
    config, generator = peer.ours.config, torch.Generator().manual_seed(seed)
    real = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    pad = peer.fields.get("pad_token_id") or 0
    ids = torch.randint(1, config.vocab_size, real.shape, generator=generator)
    ids = ids.masked_fill(ids == pad, 2 if pad == 1 else 1).masked_fill(~real, pad)
    said = None
    if config.n_encoder_layers and config.n_decoder_layers:
        said = torch.randint(1, config.target_vocab_size, (len(lengths), target or 9), generator=generator)
    types = torch.randint(config.n_token_types, ids.shape, generator=generator) if config.n_token_types else None
    return Texts(ids, real, said, types)


@torch.no_grad()
def our_logits(model: Model, given: Texts) -> Tensor:
    """What ours says of each token, (B, T, V), or of each text, (B, V); what its head gives where that is no logits."""
    transformer, real = model.transformer, None if bool(given.real.all()) else given.real
    if transformer.encoder is None:
        hidden = transformer.decode(given.ids, transformer.start(), real=real)
    else:
        hidden = transformer.encode(given.ids, real=real, types=given.types)
        if transformer.decoder is not None:
            assert given.target is not None
            hidden = transformer.decode(given.target, transformer.start(hidden, real))
    if hasattr(model.head, "projection"):
        return model.logits(hidden)
    if isinstance(model.head, ClsClassifierHead):
        return model.head(hidden, given.real)
    return model.head(hidden) if list(model.head.parameters()) else hidden


@torch.no_grad()
def their_logits(peer: Peer, given: Texts) -> Tensor:
    """What theirs says of each token, (B, T, V), or the first thing that a model without logits gives."""
    more = {} if given.target is None else {"decoder_input_ids": given.target}
    more |= {} if given.types is None else {"token_type_ids": given.types}
    out = peer.theirs(input_ids=given.ids, attention_mask=given.real.long(), **more)
    if "logits" in out:
        return out.logits
    if "start_logits" in out:
        return torch.stack([out.start_logits, out.end_logits], -1)
    return out.pooler_output if len(list(peer.ours.head.parameters())) else out.last_hidden_state


def worst(peer: Peer, given: Texts) -> float:
    """The largest difference of a logit at a real token."""
    return apart(our_logits(peer.ours, given), their_logits(peer, given), given)


def apart(ours: Tensor, theirs: Tensor, given: Texts) -> float:
    """The same, of logits."""
    assert ours.shape == theirs.shape
    of_tokens = ours.ndim == 3 and given.target is None
    return float((ours - theirs)[given.real if of_tokens else slice(None)].abs().max())


def check_full_pass(peer: Peer, lengths: tuple[int, ...] = (1, 2, 17, 40)) -> None:
    """Single texts of several lengths; logits as large as a trained model's."""
    for length in lengths:
        given = texts(peer, (length, length))
        assert worst(peer, given) <= TOLERANCE, f"{length} tokens"
    assert their_logits(peer, given).std() >= 1 or not hasattr(peer.ours.head, "projection")


def check_ragged(peer: Peer, lengths: tuple[int, ...] = (3, 21, 40)) -> None:
    """Texts of different lengths side by side."""
    assert worst(peer, texts(peer, lengths)) <= TOLERANCE


def check_greedy(peer: Peer, prompts: tuple[int, ...] = (5, 12), start: int | None = None) -> None:
    """The same STEPS tokens, said with caches, of ragged prompts: ours padded on the right, theirs on the left.

    Args:
        prompts: how many tokens each prompt, or each source, has.
        start: the first token of a decoder that has a source; sources are padded on the right by both.
    """
    for seed in range(1, 9):  # in some texts two tokens are nearly even, and rounding would choose
        given = texts(peer, prompts, seed=seed)
        ours, margin = our_greedy(peer.ours, given, start)
        if margin > 2 * TOLERANCE:
            break
    assert margin > 2 * TOLERANCE, f"two tokens are nearly even in each text: {margin:.1e}"
    ids, real, more = given.ids, given.real, {"decoder_start_token_id": start}
    if start is None:
        rows = [(ids[i].roll(ids.size(1) - length), real[i].roll(ids.size(1) - length))
                for i, length in enumerate(prompts)]  # fmt: skip
        ids, real, more = torch.stack([i for i, _ in rows]), torch.stack([r for _, r in rows]), {}
    peer.theirs.generation_config = GenerationConfig(
        do_sample=False, max_new_tokens=STEPS, min_new_tokens=STEPS, pad_token_id=0, **more
    )
    theirs = peer.theirs.generate(ids, attention_mask=real.long())
    assert theirs[:, -STEPS:].tolist() == ours.tolist()


@torch.no_grad()
def our_greedy(model: Model, given: Texts, start: int | None = None, steps: int = STEPS) -> tuple[Tensor, float]:
    """The likeliest token, `steps` times: (B, steps), and the smallest lead that one ever had over the next."""
    ids, real, memory, its_real = given.ids, given.real, None, None
    if start is not None:
        memory, its_real = model.transformer.encode(ids, real=real), real
        ids, real = torch.full_like(ids[:, :1], start), torch.ones_like(real[:, :1])
    state = model.transformer.start(memory, its_real, capacity=ids.size(1) + steps)
    hidden = model.transformer.decode(ids, state, real=real)
    hidden = hidden[torch.arange(len(ids)), real.sum(1) - 1]  # (B, D)
    said, margin = [], float("inf")
    for _ in range(steps):
        top = model.logits(hidden).topk(2)
        margin = min(margin, float((top.values[:, 0] - top.values[:, 1]).min()))
        said.append(top.indices[:, 0])
        hidden = model.transformer.decode(said[-1][:, None], state)[:, 0]
    return torch.stack(said, 1), margin


def check_round_trip(peer: Peer) -> None:
    """Our tensors under their names are what they saved, key by key and bit by bit; and so is our configuration."""
    family, config, head = peer.family, peer.ours.config, head_name(peer.ours)
    rows = family.rows(config, head)
    theirs, left = to_theirs(rows, peer.ours.state_dict(), config)
    assert left == []
    named = {family.full_name(name): tensor for name, tensor in peer.tensors.items()}
    skipped = (*family.buffers, *family.unused)
    kept = {name for name in named if place(rows, name) is not None or not matches(skipped, name)}
    assert theirs.keys() == kept
    for name in kept:
        assert torch.equal(theirs[name], named[name]), name
    again = family.read(Fields(family.write(config, head)), theirs.keys())
    assert (again.config, again.head) == (config, head)


def check_written_config(
    peer: Peer, config_class: type[Any], model_class: Callable[[Any], nn.Module], **more: Any
) -> None:
    """A model that transformers builds from what we write says what ours says.

    Args:
        more: fields that a family's `write` does not know: the ids of control tokens.
    """
    fields = json.loads(json.dumps(peer.family.write(peer.ours.config, head_name(peer.ours))))
    config = config_class(**fields, **more)
    config._attn_implementation = "eager"
    theirs = model_class(config).eval()
    theirs.load_state_dict(peer.theirs.state_dict(), strict=True)
    assert worst(replace(peer, theirs=theirs), texts(peer, (3, 40))) <= TOLERANCE


def check_mutants(peer: Peer, lengths: tuple[int, ...] = (12, 30)) -> list[str]:
    """Ours with one thing wrong must not agree; the names of the wrongs that were tried."""
    given, names = texts(peer, lengths), []
    theirs = their_logits(peer, given)
    for name, mutant in mutants(peer.ours):
        assert apart(our_logits(mutant, given), theirs, given) > 10 * TOLERANCE, f"nobody notices: {name}"
        names.append(name)
    return names


def mutants(model: Model) -> Iterator[tuple[str, Model]]:
    """Copies of a model with one thing wrong: q and k swapped, a bias dropped, a norm missing, positions moved."""

    def mutant(change: Callable[[Model], object]) -> Model:
        copy = deepcopy(model)
        with torch.no_grad():
            change(copy)
        return copy

    modules, window = dict(model.named_modules()), model.config.window
    if window is not None:
        wider = replace(model.config, window=Window(size=window.size + 1))
        yield "window: one wider", mutant(lambda m: setattr(m.transformer, "config", wider))
    seen = [name for name in modules if ".layers." not in name or ".layers.0." in name]
    for name in seen:
        if name.endswith("_attn"):
            yield f"{name}: q and k swapped", mutant(lambda m, name=name: _swap(m.get_submodule(name)))
        if name.endswith("norm"):
            yield f"{name}: missing", mutant(lambda m, name=name: _replace(m, name, nn.Identity()))
        # A key's bias adds the same to all scores of a query, which the softmax takes away; unless keys are turned.
        seen_bias = not name.endswith(".k") or isinstance(model.config.positions, Rope)
        if seen_bias and isinstance(getattr(modules[name], "bias", None), Tensor):
            yield f"{name}: bias dropped", mutant(lambda m, name=name: m.get_submodule(name).bias.zero_())
        if name.endswith(("encoder", "decoder")):
            yield f"{name}: positions moved", mutant(lambda m, name=name: _move(m, m.get_submodule(name).positions))


def _swap(attention: Any) -> None:
    """The first rows of q for those of k: all of them, where there are as many."""
    for q, k in zip(attention.q.parameters(), attention.k.parameters(), strict=True):
        n = min(len(q), len(k))
        q[:n], k[:n] = k[:n].clone(), q[:n].clone()


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(parent), leaf, module)


def _move(model: Model, positions: Any) -> None:
    """Everything stands one place later; where only distances count, they are measured wrong by one, or by a tenth."""
    embed, bias = positions.embed, positions.bias
    match model.config.positions:
        case Rope():
            positions.theta *= 1.1
        case Alibi() | Relative():
            positions.bias = lambda q_pos, k_pos: bias(q_pos + 1, k_pos)
        case _:
            positions.embed = lambda x, pos: embed(x, pos + 1)
