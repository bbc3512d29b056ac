"""What a Transformer and its heads refuse, share and return."""

from __future__ import annotations

import pytest
import torch

from regard.errors import ConfigError
from regard.model import Learned, make_classifier, mean_pool

IDS = torch.arange(5)[None]


def test_a_part_that_is_absent_is_named(build) -> None:
    encoder, decoder = build(n_encoder_layers=1), build(n_decoder_layers=1)
    both = build(n_encoder_layers=1, n_decoder_layers=1)
    with pytest.raises(ConfigError, match="n_encoder_layers"):
        decoder.transformer.encode(IDS)
    with pytest.raises(ConfigError, match="n_decoder_layers"):
        encoder.transformer.start()
    with pytest.raises(ConfigError, match="memory"):
        both.transformer.start()
    with pytest.raises(ConfigError, match="memory"):
        decoder.transformer.start(torch.zeros(1, 5, 16))


def test_learned_positions_say_where_they_end(build) -> None:
    model = build(n_decoder_layers=1, positions=Learned(), max_len=4)
    with pytest.raises(ConfigError) as caught:
        model.transformer.decode(IDS, model.transformer.start())
    assert "at most 4 tokens (max_len = 4)" in str(caught.value) and "5 tokens" in str(caught.value)
    assert caught.value.mend


def test_learned_positions_also_end_in_the_middle_of_decoding(build) -> None:
    model = build(n_decoder_layers=1, positions=Learned(), max_len=4)
    state = model.transformer.start(capacity=10)
    model.transformer.decode(IDS[:, :4], state)
    with pytest.raises(ConfigError, match="max_len"):
        model.transformer.decode(IDS[:, :1], state)


def test_tied_weights_are_one_parameter_under_one_name(build) -> None:
    tied, untied = build(n_decoder_layers=1), build(n_decoder_layers=1, tie_embeddings=False)
    assert set(untied.state_dict()) - set(tied.state_dict()) == {"head.weight"}
    with torch.no_grad():
        tied.transformer.tokens.weight[3] *= 2
        hidden = torch.randn(16)
        assert torch.allclose(tied.logits(hidden), tied.transformer.tokens.weight @ hidden)


def test_token_types_default_to_the_first(build) -> None:
    model = build(n_encoder_layers=1, n_token_types=2)
    encode = model.transformer.encode
    assert torch.equal(encode(IDS), encode(IDS, types=torch.zeros_like(IDS)))
    assert not torch.allclose(encode(IDS), encode(IDS, types=torch.ones_like(IDS)), atol=0.1)


def test_a_classifier_reads_real_tokens_only(build) -> None:
    model = make_classifier(build(n_encoder_layers=1).config, 3).eval()
    real = torch.tensor([[True, True, True, False, False]])

    def classes(ids: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        return model.head(model.transformer.encode(ids, real=real), real)

    alone = classes(IDS[:, :3], real[:, :3])
    assert alone.shape == (1, 3)
    torch.testing.assert_close(classes(IDS, real), alone, atol=1e-5, rtol=0)


def test_the_mean_of_nothing_is_zero() -> None:
    hidden = torch.randn(2, 3, 4)
    pooled = mean_pool(hidden, torch.tensor([[True, False, True], [False] * 3]))
    torch.testing.assert_close(pooled[0], (hidden[0, 0] + hidden[0, 2]) / 2)
    assert (pooled[1] == 0).all()


def test_attention_dropout_is_of_training_alone(build) -> None:
    model = build(n_decoder_layers=1, attn_dropout=0.5)
    run = lambda: model.transformer.decode(IDS, model.transformer.start())  # noqa: E731
    assert torch.equal(run(), run())
    model.train()
    assert not torch.equal(run(), run())
