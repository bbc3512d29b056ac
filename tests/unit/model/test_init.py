"""How a model begins: with logits of about unit size at any width and depth, from a seed alone, or not at all."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.model import Learned, Model, Relative, Rope, TransformerConfig, make_language_model


def fresh(**axes: object) -> Model:
    sizes = {"vocab_size": 200, "d_model": 64, "n_heads": 4, "d_ff": 128, "n_decoder_layers": 2}
    return make_language_model(TransformerConfig(**{**sizes, **axes})).eval()


def logits(model: Model, length: int = 32) -> torch.Tensor:
    ids = torch.randint(model.config.vocab_size, (4, length))
    memory = model.transformer.encode(ids) if model.transformer.encoder is not None else None
    return model.logits(model.transformer.decode(ids, model.transformer.start(memory)))


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("width", [32, 256])
@pytest.mark.parametrize("layers", [1, 12])
def test_logits_begin_at_unit_size(order: str, tied: bool, width: int, layers: int) -> None:
    model = fresh(d_model=width, norm_order=order, tie_embeddings=tied, n_decoder_layers=layers, embed_scale=width**0.5)
    with torch.no_grad():
        assert 0.7 < logits(model).std() < 1.4


@pytest.mark.parametrize("order", ["post", "pre"])
def test_48_layers_are_finite_forward_and_backward(order: str) -> None:
    model = fresh(n_decoder_layers=48, norm_order=order, d_model=32, d_ff=64)
    out = logits(model, 8)
    nn.functional.cross_entropy(out.flatten(0, 1), torch.randint(200, (32,))).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert out.isfinite().all() and all(gradient.isfinite().all() for gradient in gradients)
    assert all(gradient.norm() > 0 for gradient in gradients if gradient.ndim == 2)


def test_a_pre_norm_stream_does_not_grow_with_depth() -> None:
    """What ends a residual branch begins smaller by sqrt(2 n_layers), so the sum of the branches keeps its size."""
    shallow, deep = (fresh(n_decoder_layers=n, norm_order="pre").transformer.decoder.layers[0] for n in (2, 32))
    for name in ("self_attn.o", "ffn.down"):
        ratio = float((shallow.get_submodule(name).weight.std() / deep.get_submodule(name).weight.std()).detach())
        assert ratio == pytest.approx(4, rel=0.1)
    assert shallow.ffn.up.weight.std().item() == pytest.approx(deep.ffn.up.weight.std().item(), rel=0.1)


def test_norms_begin_neutral_and_constants_at_zero() -> None:
    model = fresh(
        n_encoder_layers=1, embed_norm=True, norm_order="pre", head_bias=True, positions=Learned(), n_token_types=2
    )
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert parameter.std() > 0.02, name


def test_a_seed_makes_the_model() -> None:
    models = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        models.append(fresh(positions=Relative()).state_dict())
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert not torch.equal(models[0]["transformer.tokens.weight"], models[2]["transformer.tokens.weight"])


def test_a_model_can_be_built_without_memory_and_filled() -> None:
    with torch.device("meta"):
        empty = fresh(positions=Rope())
    assert all(parameter.is_meta for parameter in empty.parameters())
    filled = fresh(positions=Rope())
    empty.load_state_dict(filled.state_dict(), assign=True)
    ids = torch.randint(200, (2, 7))
    with torch.no_grad():
        ours, theirs = (m.transformer.decode(ids, m.transformer.start()) for m in (empty, filled))
    assert torch.equal(ours, theirs)
