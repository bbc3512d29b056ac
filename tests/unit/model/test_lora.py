"""Low-rank adapters: nothing at first, less to learn, and a plain model of the same outputs at the end."""

from __future__ import annotations

import torch

from regard.hub.weights import state_tensors
from regard.model import Model, TransformerConfig, make_model
from regard.model.lora import Adapted, adapt, merged


def model() -> Model:
    config = TransformerConfig(
        vocab_size=40, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=2, n_decoder_layers=1, norm_order="pre",
        gated_ffn=True, activation="silu",
    )  # fmt: skip
    return make_model(config, "language-model").double().eval()


def logits(model: Model) -> torch.Tensor:
    ids = torch.arange(12).reshape(2, 6)
    memory = model.transformer.encode(ids)
    return model.logits(model.transformer.decode(ids, model.transformer.start(memory))).detach()


def test_adapters_begin_as_nothing_and_end_in_a_plain_model() -> None:
    plain = model()
    before, names = logits(plain), [*state_tensors(plain)]
    adapt(plain, 3, 6.0)
    assert torch.equal(logits(plain), before)
    learning = {name for name, p in plain.named_parameters() if p.requires_grad}
    assert learning and all(name.endswith((".a", ".b")) or name.startswith("head.") for name in learning)
    adapters = [module for module in plain.modules() if isinstance(module, Adapted)]
    assert len(adapters) == 2 * (4 + 3) + (4 + 4 + 3), "q, k, v, o and the three of a gated feed-forward, in each block"
    for adapter in adapters:
        torch.nn.init.normal_(adapter.b, std=0.3)
    after = logits(plain)
    assert float((after - before).abs().max()) > 0.1
    whole = merged(plain)
    assert [*state_tensors(whole)] == names and torch.allclose(logits(whole), after, atol=1e-12)
    assert torch.equal(logits(plain), after), "the adapted model goes on learning"
    assert merged(whole) is whole


def test_a_step_moves_adapters_alone() -> None:
    plain = model()
    adapt(plain, 2, 4.0)
    before = {name: tensor.clone() for name, tensor in state_tensors(plain).items()}
    parameters = [p for p in plain.parameters() if p.requires_grad]
    ids = torch.arange(12).reshape(2, 6)
    for _ in range(2):  # of the first only B, since the gradient of A is a product with B
        memory = plain.transformer.encode(ids)
        loss = plain.logits(plain.transformer.decode(ids, plain.transformer.start(memory))).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in parameters:
                p -= 0.1 * p.grad
    moved = {name for name, tensor in state_tensors(plain).items() if not torch.equal(tensor, before[name])}
    assert {name.rsplit(".", 1)[1] for name in moved if "layers" in name} == {"a", "b"}
