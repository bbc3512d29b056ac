"""The moving average is the formula's, and looking at it leaves the training where it was."""

from __future__ import annotations

import pytest
import torch

from regard.model import TransformerConfig, make_language_model
from regard.training.ema import Ema


def test_the_average_and_its_exchange() -> None:
    config = TransformerConfig(vocab_size=9, d_model=4, n_heads=2, d_ff=4, n_encoder_layers=1, n_decoder_layers=1)
    model = make_language_model(config)
    weight = model.transformer.tokens.weight
    ema, expected = Ema(model, 0.3), weight.detach().clone()
    for n in range(1, 9):
        with torch.no_grad():
            weight.add_(torch.randn_like(weight))
        ema.update(n)
        decay = min(0.3, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * weight.detach()
    trained = weight.detach().clone()
    with pytest.raises(KeyboardInterrupt), ema.exchanged():
        torch.testing.assert_close(weight.detach(), expected)
        assert torch.equal(ema.weights["transformer.tokens.weight"], trained)
        raise KeyboardInterrupt
    assert torch.equal(weight.detach(), trained)
