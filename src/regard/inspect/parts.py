"""The kinds of attention that a model has, and what their places are called by those who look (`model.watch`).

    part            queries   keys      path of layer l
    encoder.self    source    source    encoder.layers.{l}.self_attn
    decoder.self    target    target    decoder.layers.{l}.self_attn
    decoder.cross   target    source    decoder.layers.{l}.cross_attn

What is unusual: a model is described by its configuration alone, so nothing need be run to know its parts.
What it does not know: texts, weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.errors import ConfigError
from regard.model import TransformerConfig

PartName = Literal["encoder.self", "decoder.self", "decoder.cross"]
SideName = Literal["source", "target"]


@dataclass(frozen=True)
class Part:
    """A kind of attention.

    Attributes:
        layers, heads, kv_heads, d_head: how many layers have it, and its H, K and d.
        scale: what the products of queries and keys are multiplied by.
        queries, keys: the sides that its rows and its columns stand for.
        causal: a query sees no key after it.
    """

    name: PartName
    layers: int
    heads: int
    kv_heads: int
    d_head: int
    scale: float
    queries: SideName
    keys: SideName
    causal: bool

    @property
    def stack(self) -> str:
        """The stack that it is in: encoder or decoder."""
        return self.name.partition(".")[0]

    @property
    def path(self) -> str:
        """Where it is offered, with {layer} for the layer's number."""
        return f"{self.stack}.layers.{{layer}}.{self.name.partition('.')[2]}_attn"

    def at(self, layer: int) -> str:
        """Its path in one layer; raises ConfigError for a layer that is not there."""
        check("layer", layer, self.layers, f"counted from 0 ({self.name})")
        return self.path.format(layer=layer)


def parts_of(config: TransformerConfig) -> tuple[Part, ...]:
    """The parts of a model, the encoder's first."""
    shared = (config.n_heads, config.kv_heads, config.head_width, config.scale)
    encoder, decoder = config.n_encoder_layers, config.n_decoder_layers
    found = list[Part]()
    if encoder:
        found.append(Part("encoder.self", encoder, *shared, "source", "source", causal=False))
    if decoder:
        found.append(Part("decoder.self", decoder, *shared, "target", "target", causal=True))
    if encoder and decoder:
        found.append(Part("decoder.cross", decoder, *shared, "target", "source", causal=False))
    return tuple(found)


def part_of(config: TransformerConfig, name: str) -> Part:
    """A part by its name; raises ConfigError for one that the model has not."""
    known = {str(part.name): part for part in parts_of(config)}
    if name not in known:
        raise ConfigError("the model has no such attention", where="part", expected=" or ".join(known), got=name)
    return known[name]


def check(name: str, number: int, count: int, what: str) -> None:
    """Raise ConfigError unless `number` is that of one of so many things, counted from 0."""
    if not 0 <= number < count:
        raise ConfigError(f"there is no such {name}", where=name, got=number,
                          expected=f"0 to {count - 1}, {what}")  # fmt: skip
