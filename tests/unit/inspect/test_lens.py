"""The logit lens: its last layer is the model, and an early one is what the model would say with the rest left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import ConfigError
from regard.inspect.lens import logit_lens
from regard.inspect.views import Request, run
from regard.model import watch


@pytest.mark.parametrize(("scheme", "variant"), [("rope", "pre"), ("sinusoidal", "post"), ("learned", "parallel")])
def test_the_last_layer_is_the_model(scheme: str, variant: str, opened) -> None:
    view = run(opened("language-model", scheme, variant), Request(texts=("A man rides",), max_tokens=3))
    lens = logit_lens(view)
    assert lens.layers == ("embeddings", "layer 1", "layer 2")
    assert len(lens.top) == len(lens.divergence) == 3 and len(lens.top[0]) == len(view.target)
    for row, written in enumerate(view.target.writes):
        if written is not None:
            assert [token for token, _ in lens.top[-1][row][:5]] == [token for token, _, _ in written.top]
            np.testing.assert_allclose([p for _, p in lens.top[-1][row][:5]], [p for *_, p in written.top], atol=1e-6)
    assert lens.divergence[-1] == (0.0,) * len(view.target)
    assert min(map(min, lens.divergence)) >= 0 and max(lens.divergence[0]) > 0.01


def test_an_early_layer_is_the_model_without_those_after_it(opened) -> None:
    """Before the norm, a layer whose sublayers add nothing hands on what it was given."""
    loaded = opened("translation", "rope", "pre")
    asked = Request(texts=("A man",), to="de", target="Ein Mann")
    lens = logit_lens(run(loaded, asked))
    places = [f"decoder.layers.1.{sublayer}.out" for sublayer in ("self_attn", "cross_attn", "ffn")]
    with watch(loaded.model, *places, edit=lambda _, x: torch.zeros_like(x)):
        short = run(loaded, asked)
    p, q = (torch.from_numpy(v.tensor("logits")).double().log_softmax(-1) for v in (run(loaded, asked), short))
    np.testing.assert_allclose(lens.divergence[1], (p.exp() * (p - q)).sum(-1), atol=1e-5)
    assert [[token for token, _ in row[:1]] for row in lens.top[1]] == [[w.top[0][0]] for w in short.target.writes]


def test_a_model_without_a_decoder_has_no_lens(opened) -> None:
    with pytest.raises(ConfigError, match="decoder"):
        logit_lens(run(opened("masked-lm"), Request(texts=("A man",))))
