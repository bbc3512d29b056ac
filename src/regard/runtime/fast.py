"""The same Model for inference on this machine: its matrices as the machine reads them quickest.

    fast = make_fast(model, "bf16")         # model itself stays as it is
    fast.transformer.encode(..)             # the core's own forward code, on other modules

What is unusual: nothing of a model is written again. Each nn.Linear is replaced by a FastLinear (those of Q, K and V of
self-attention by one), the head by one that projects with such a layer; watchers see the true values of what runs. A
decoder's layers keep their matrices as they lie, too, for steps of few rows; an encoder's, which read whole texts, do
not.
What it does not know: texts, files, and which form suits a model's quality (`regard quantize` measures that).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.model import LMHead, MaskedLMHead, Model, Transformer
from regard.model.attention import Attention, attend, by_heads
from regard.model.layers import FeedForward
from regard.model.masks import Mask
from regard.model.positions import Bias
from regard.model.watch import see, watched
from regard.runtime.choice import Way, way_of
from regard.runtime.products import FastEmbedding, FastLinear, Form, quantise_rows
from regard.runtime.rows import absence, few_queries_attend


class FastLMHead(LMHead):
    """The head of a language model with a matrix for this machine, also where it is tied to the embeddings."""

    fast: FastLinear

    def projection(self, embedding: Tensor) -> Tensor:
        """W (V, D) in floating point."""
        return self.fast.plain()

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """hidden (.., D) -> logits (.., V) in float32, whatever the model computes in."""
        return self.fast(hidden if self.scale == 1 else hidden * self.scale)


class FastMaskedLMHead(MaskedLMHead):
    """The same after the one more layer of a masked language model."""

    fast: FastLinear
    projection = FastLMHead.projection

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """hidden (.., D) -> logits (.., V) in float32."""
        return self.fast(self.transform(hidden) * self.scale)


SHORT = 64
"""Keys up to which attention in the open is quicker than torch's kernel without a backward pass: MiniLM reads 5 to 14 %
more sentences a second (python bench/inference.py --work encoder, with 0 here and with 64)."""
OPEN = ("bias", "scores", "weights")
"""What only attention in the open can show."""
SHOWN = ("q", "k", "v", "z", "out", *OPEN)
"""What attention offers to watchers."""
FEW_QUERIES = 8
"""One of a step of decoding, or those of all hypotheses of a source."""


class FastAttention(Attention):
    """Attention with one product for Q, K and V; a step's few queries have a kernel of their own."""

    qkv: FastLinear | None
    """Of self-attention; it takes the place of q, k and v."""
    widths: list[int]
    compiled: bool

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Attention.project`."""
        if self.qkv is None:
            return super().project(x)
        q, k, v = self.qkv(x).split(self.widths, -1)
        return (
            by_heads(q, self.n_heads, self.q_norm),
            by_heads(k, self.kv_heads, self.k_norm),
            by_heads(v, self.kv_heads),
        )

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None = None, lies: Tensor | None = None
    ) -> Tensor:
        """As `Attention.forward`; what rows of a beam share is not copied for a step's few queries."""
        if lies is None or not self._few(q, bias) or watched(self, *SHOWN):
            return super().forward(q, k, v, mask, bias, lies)
        z = self._attend_few(q, k, v, mask, lies)
        return super().forward(q, k, v, mask, bias, lies) if z is None else self.o(z.transpose(1, 2).flatten(2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        """As `Attention.attend`, which it is for many queries, under a bias or a watcher, and where masks differ."""
        z = self._attend_few(q, k, v, mask, None) if self._few(q, bias) else None
        if z is None:
            kernel = "open" if k.size(2) <= SHORT else None
            return attend(q, k, v, mask, scale=self.scale, bias=bias, site=self, kernel=kernel)
        return z

    def _few(self, q: Tensor, bias: Bias | None) -> bool:
        return self.compiled and q.size(2) <= FEW_QUERIES and bias is None and not watched(self, *OPEN)

    def _attend_few(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, lies: Tensor | None) -> Tensor | None:
        """(B, H, T, d) by the kernel for few queries; None where these queries do not all see the same keys."""
        rows = slice(0, q.size(2))
        visible = mask.draw(rows, columns := mask.reach(rows))
        if visible is not None and visible.size(2) != 1:
            return None
        if columns != slice(0, k.size(2)):
            k, v, lies = k[:, :, columns], v[:, :, columns], None if lies is None else lies[:, columns]
        return few_queries_attend(q, k, v, None if visible is None else visible[:, 0, 0], self.scale, lies)


class FastFeedForward(FeedForward):
    """The feed-forward sublayer whose first product ends with the activation."""

    sigma: str
    """The activation's name."""

    def forward(self, x: Tensor) -> Tensor:
        """As `FeedForward.forward`."""
        if watched(self, "pre"):
            return super().forward(x)
        return see(self, "out", self.down(see(self, "act", self.up(x, self.sigma))))


FAST_HEADS: dict[type[nn.Module], type[LMHead]] = {LMHead: FastLMHead, MaskedLMHead: FastMaskedLMHead}


def make_fast(model: Model, form: Form = "fp32") -> Model:
    """A Model that computes the same, faster: to 1e-5 in fp32, within the rounding of its matrices in bf16 and int8.

    Args:
        model: in evaluation mode; it is not changed, and what needs no other form is shared with it.
        form: of the matrices in the layers, of the embeddings and the head over a vocabulary. What passes between them
            is float32, or bfloat16 in bf16.

    Returns:
        For inference alone, without gradients, on the CPU. On another device it is the model itself, in bf16 a copy.
    """
    if model.device.type != "cpu":
        return copy.deepcopy(model).to(torch.bfloat16) if form == "bf16" else model
    shared = {id(parameter): parameter for parameter in model.parameters()}
    return furnish(copy.deepcopy(model, shared), narrowed(model, form), form)


@torch.no_grad()
def narrowed(model: Model, form: Form) -> dict[str, Tensor]:
    """The tensors of a model in a form, by their names, as a quantised file holds them.

    In int8 the matrices of the layers and the embeddings are int8, with a `NAME.scale` (N,) beside each `NAME.weight`;
    vectors, and what a head over classes has, are float32.
    """
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    if form == "bf16":
        return {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    if form == "int8":
        for name in _matrices(model):
            tensors[f"{name}.weight"], tensors[f"{name}.scale"] = quantise_rows(tensors[f"{name}.weight"])
    return tensors


def _matrices(model: Model) -> list[str]:
    """The names of what is int8 in int8."""
    inner = model.transformer
    names = [f"transformer.{path}" for path, module in inner.named_modules() if isinstance(module, nn.Linear)]
    names += ["transformer.tokens"] + ["transformer.decoder_tokens"] * (inner.decoder_tokens is not None)
    return names + ["head"] * (isinstance(model.head, LMHead) and model.head.weight is not None)


@torch.no_grad()
def furnish(model: Model, tensors: Mapping[str, Tensor], form: Form) -> Model:
    """Put tensors of `narrowed` into a model of the same configuration that nobody else holds (it may be on meta)."""
    # An encoder in float32 has no steps of few rows. Numba, a quarter of what a short text takes, stays unread then.
    plain = form == "fp32" and not model.config.n_decoder_layers
    way, compiled = (Way(), False) if plain else (way_of(form), absence() is None)
    for path, module in [*model.named_modules()]:
        if isinstance(module, Attention):
            _join(module, tensors, path, way, compiled=compiled)
    for path, module in [*model.named_modules()]:
        if isinstance(module, nn.Linear):
            _put(model, path, _linear(tensors, path, _way_there(way, path)))
        elif isinstance(module, nn.Embedding) and f"{path}.scale" in tensors:
            _put(model, path, FastEmbedding(tensors[f"{path}.weight"], tensors[f"{path}.scale"]))
        elif not isinstance(module, FastLinear):
            for name, old in [*module.named_parameters(recurse=False)]:
                new = tensors.get(f"{path}.{name}", old)
                if new is not old and new.dtype != torch.int8:
                    setattr(module, name, nn.Parameter(new, requires_grad=False))
    for module in model.modules():
        if isinstance(module, FeedForward) and module.gate is None:
            module.__class__ = FastFeedForward
            assert isinstance(module, FastFeedForward)
            module.sigma = model.config.activation
    if isinstance(model.head, LMHead):
        _furnish_head(model.head, tensors, model.transformer, way)
    return model.eval()


def _furnish_head(head: LMHead, tensors: Mapping[str, Tensor], transformer: Transformer, way: Way) -> None:
    """Make it a fast head, which projects with its own matrix or that of the embeddings."""
    said = "tokens" if transformer.decoder_tokens is None else "decoder_tokens"
    source, head.weight = f"transformer.{said}" if head.weight is None else "head", None
    fast = _linear(tensors, source, way, bias=tensors.get("head.bias"), out=torch.float32)
    head.__class__ = FAST_HEADS[type(head)]
    head.fast = fast


def _join(attention: Attention, tensors: Mapping[str, Tensor], path: str, way: Way, *, compiled: bool) -> None:
    """Make it a FastAttention, and of self-attention's three matrices one."""
    attention.__class__ = FastAttention
    assert isinstance(attention, FastAttention)
    attention.compiled, attention.qkv = compiled, None
    if path.endswith("self_attn"):
        attention.widths = [layer.out_features for layer in (attention.q, attention.k, attention.v)]
        parts = [f"{path}.{name}" for name in "qkv"]
        joint = {kind: torch.cat([tensors[f"{part}.{kind}"] for part in parts])
                 for kind in ("weight", "bias", "scale") if f"{parts[0]}.{kind}" in tensors}  # fmt: skip
        attention.qkv = _linear({f"{path}.qkv.{kind}": tensor for kind, tensor in joint.items()}, f"{path}.qkv",
                                _way_there(way, path))  # fmt: skip
        del attention.q, attention.k, attention.v


def _way_there(way: Way, path: str) -> Way:
    """That of a layer: only those of each step of decoding are given few rows at a time."""
    steps = path.startswith("transformer.decoder.") and not path.endswith(("cross_attn.k", "cross_attn.v"))
    return way if steps else replace(way, few=0)


def _linear(
    tensors: Mapping[str, Tensor], name: str, way: Way, *, bias: Tensor | None = None, out: torch.dtype | None = None
) -> FastLinear:
    weight, scale = tensors[f"{name}.weight"], tensors.get(f"{name}.scale")
    bias = tensors.get(f"{name}.bias", bias)
    return FastLinear(weight, bias, scale=scale, few=way.few, widened=way.widened, out=out)


def _put(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)
