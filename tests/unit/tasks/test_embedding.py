"""Texts to vectors: nothing depends on neighbours, cuts are counted, and a real encoder says what is printed of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import processors

import regard
from regard.errors import ConfigError
from regard.model import HEADS, Model, TransformerConfig, make_model
from regard.tasks import embedding
from regard.tasks.embedding import embed_texts
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["a b c", "", "d", "a b c d e f g h", "你好", " "]
PLAIN = Tokenizer.train(["abcdefghij 你好"], kind="chars", vocab_size=40)


def framed() -> Tokenizer:
    """<s> a </s>, and two segments."""
    backend = type(PLAIN.backend).from_str(PLAIN.backend.to_str())
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>:1", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return Tokenizer(backend, PLAIN.roles)


def make(head: str = "none") -> Model:
    torch.manual_seed(1)
    sizes = {"vocab_size": 40, "d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 2, "max_len": 12}
    model = make_model(TransformerConfig(**sizes, n_token_types=2), head).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.ndim == 2 else 1.0)
    return model


@pytest.fixture(scope="module")
def model() -> Model:
    return make()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("tokenizer", [PLAIN, framed()], ids=["plain", "framed"])
def test_a_vector_is_pooled_from_the_texts_own_tokens(model: Model, tokenizer, pooling: str) -> None:
    vectors, left_out = embed_texts(model, tokenizer, TEXTS, pooling=pooling, normalize=False)
    assert vectors.shape == (6, 16) and vectors.dtype == np.float32
    around = 2 if tokenizer is not PLAIN else 0
    assert left_out == [max(0, len(text) + around - 12) for text in TEXTS]
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids, types = tokenizer.wrap(tokenizer.encode(text)[: 12 - around])
        if not ids:
            assert not vector.any()
            continue
        with torch.no_grad():
            hidden = model.transformer.encode(torch.tensor([ids]), types=torch.tensor([types]))[0]
        expected = hidden.mean(0) if pooling == "mean" else hidden[0]
        assert vector == pytest.approx(expected.numpy(), abs=1e-5)


@pytest.mark.parametrize("together", [1, 20, 8_000])
def test_nothing_depends_on_neighbours_or_order(model: Model, together: int, monkeypatch) -> None:
    monkeypatch.setattr(embedding, "tokens_together", lambda device, most=together: most)
    vectors, _ = embed_texts(model, PLAIN, TEXTS, pooling="mean", normalize=True)
    turned, _ = embed_texts(model, PLAIN, TEXTS[::-1], pooling="mean", normalize=True)
    alone = np.concatenate([embed_texts(model, PLAIN, [t], pooling="mean", normalize=True)[0] for t in TEXTS])
    assert turned[::-1] == pytest.approx(vectors, abs=1e-5) and alone == pytest.approx(vectors, abs=1e-5)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths == pytest.approx([1, 0, 1, 1, 1, 1], abs=1e-5), "an empty text has no direction"
    assert embed_texts(model, PLAIN, [], pooling="mean", normalize=True)[0].shape == (0, 16)
    assert not embed_texts(model, PLAIN, ["", ""], pooling="cls", normalize=True)[0].any()


@pytest.mark.parametrize("head", list(HEADS))
def test_the_head_does_not_matter(model: Model, head: str) -> None:
    other = make(head)
    other.transformer.load_state_dict(model.transformer.state_dict())
    ours, theirs = (embed_texts(m, PLAIN, TEXTS, pooling="mean", normalize=True)[0] for m in (model, other))
    assert np.array_equal(ours, theirs)


def test_another_pooling_is_refused(model: Model) -> None:
    with pytest.raises(ConfigError, match="pooling"):
        embed_texts(model, PLAIN, ["a"], pooling="max", normalize=True)


def test_a_real_encoder_says_what_is_printed_of_it(minilm: Path) -> None:
    """Similarities in shared/models/README.md, by its own library."""
    model = regard.load(minilm, device="cpu")
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    vectors = model.embed([*texts, ""])
    assert vectors[1:4] @ vectors[0] == pytest.approx([0.69458, 0.94292, 0.25688], abs=1e-4)
    assert np.isfinite(vectors).all() and np.linalg.norm(vectors[4]) == pytest.approx(1, abs=1e-5)
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than the 510 tokens") as caught:
        long = model.embed(["dog " * 600, "dog " * 510])
    assert "up to 90 tokens" in str(caught[0].message) and Path(caught[0].filename).name == Path(__file__).name
    assert long[0] == pytest.approx(long[1], abs=1e-5)
    with pytest.raises(TypeError, match=r"\[text\]"):
        model.embed("one")
    with pytest.raises(ConfigError, match="cannot generate") as refused:
        model.generate("x")
    assert "it can embed" in str(refused.value) and "language-model" in str(refused.value)
