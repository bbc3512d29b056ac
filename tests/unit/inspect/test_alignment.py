"""Where the attention falls, against alignments that are known."""

from __future__ import annotations

import pytest
import torch

from regard.data.localiser import TARGETS, Item, corpus, make_items
from regard.inspect.alignment import PairAttention, layer_errors, pair_attention
from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks.prefix import prefix_tokens, source_prefix
from regard.text import Tokenizer


@pytest.fixture(scope="module")
def dates() -> list[Item]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "SIZES", {"test": 450})
        return [item for item in make_items("test", 1) if item.alignment]


@pytest.fixture(scope="module")
def tokenizer(dates: list[Item]) -> Tokenizer:
    texts = [text for item in dates for text in (item.source, item.target)]
    return Tokenizer.train(texts, vocab_size=400, specials=prefix_tokens([], TARGETS))


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> Model:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 3}
    return make_language_model(TransformerConfig(vocab_size=tokenizer.vocab_size, **sizes)).eval()


def test_the_tokens_of_a_field_are_those_that_write_it(model: Model, tokenizer: Tokenizer, dates: list[Item]) -> None:
    for item in dates:
        prefix = source_prefix(tokenizer, item.to)
        seen = pair_attention(model, tokenizer, item.source, item.target, item.alignment, prefix=prefix)
        for name, spans in item.alignment.items():
            for text, tokens, numbers, (start, end) in zip(
                (item.source, item.target), (seen.source, seen.target), seen.fields[name], spans, strict=True
            ):
                pieces = [tokens[i].replace("▁", " ") for i in numbers]
                assert text[start:end] in "".join(pieces) or any(piece.startswith("<0x") for piece in pieces)
                assert all(text[start:end] not in "".join(fewer) for fewer in (pieces[1:], pieces[:-1]))
        assert seen.source[0] == f"<to:{item.to}>" and seen.source[-1] == seen.target[-1] == "</s>"
        assert seen.weights.shape == (3, len(seen.target), len(seen.source))
        torch.testing.assert_close(seen.weights.sum(-1), torch.ones(3, len(seen.target)))


def test_a_layer_that_looks_at_the_right_field_has_no_error() -> None:
    fields = {"day": ([1, 2], [0, 1]), "month": ([0], [2])}
    right = torch.tensor([[0, 1, 0, 0], [0, 0.5, 0.5, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    half = right / 2 + torch.tensor([0, 0, 0, 0.5])
    pair = PairAttention(["JUL", "3", "1", "</s>"], ["3", "1", "JULI", "</s>"], fields, torch.stack([half, right]))
    assert layer_errors([pair, pair]) == [0.5, 0]
