"""From ids to ids: which sources are searched together changes nothing, and lengths keep to their ratio."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks import translation
from regard.tasks.translation import TranslationData, length_ratio, search_translations
from regard.text import Tokenizer

TOKENIZER = Tokenizer.train(["abcdefghijklmnop"], kind="chars", vocab_size=40)
SOURCES = [[6, 7, 8], [], [9] * 11, [7], [10, 6, 12, 8, 9], [6], [11, 12]]


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(5)
    config = TransformerConfig(
        vocab_size=TOKENIZER.vocab_size, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=1, n_decoder_layers=1,
        max_len=24, tie_embeddings=False,
    )  # fmt: skip
    model = make_language_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.ndim == 2 else 1.0)
    return model


@pytest.mark.parametrize("together", [1, 40, 3_000])
def test_outputs_come_in_the_order_of_their_sources(
    model: Model, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one = [search_translations(model, TOKENIZER, [s], ratio=1.0, beam=3, n_best=2)[0] for s in SOURCES]
    monkeypatch.setattr(translation, "DECODE_TOKENS", together)
    found = search_translations(model, TOKENIZER, SOURCES, ratio=1.0, beam=3, n_best=2)
    assert len({best[0].ids for best in found}) > 3
    for ours, theirs in zip(found, one_by_one, strict=True):
        assert [one.ids for one in ours] == [one.ids for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_outputs_hold_no_control_token_and_keep_to_their_limit(model: Model, beam: int) -> None:
    found = search_translations(model, TOKENIZER, SOURCES, ratio=0.5, beam=beam, n_best=beam)
    controls = {TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.eos_id, TOKENIZER.mask_id}
    for source, best in zip(SOURCES, found, strict=True):
        limit = min(24, math.ceil(0.5 * (len(source) + 1)) + 10)
        assert len(best) == beam
        for one in best:
            assert controls.isdisjoint(one.ids)
            assert one.length <= limit and (one.finished or one.length == limit)


def test_no_sources_have_no_outputs(model: Model) -> None:
    assert search_translations(model, TOKENIZER, [], ratio=1.0, beam=2) == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=50))
def test_a_ratio_covers_the_pairs_it_was_taken_from(lengths: list[tuple[int, int]]) -> None:
    sources, targets = [[0] * s for s, _ in lengths], [[0] * t for _, t in lengths]
    ratio = length_ratio(sources, targets)
    ratios = np.array([(t + 1) / (s + 1) for s, t in lengths])
    assert np.median(ratios) <= ratio * (1 + 1e-9) and ratio <= ratios.max() * (1 + 1e-9)


def test_one_monstrous_pair_in_ten_thousand_is_not_what_a_ratio_follows() -> None:
    assert length_ratio([[0]] * 10_000, [[0] * 99] + [[0]] * 9_999) == pytest.approx(1.0)


def test_evaluation_is_of_the_model_as_it_is_without_dropout(model: Model) -> None:
    ids = [s for s in SOURCES if s]
    data = TranslationData(TOKENIZER, (ids, ids), (ids, ids), tokens_per_batch=60, seed=1, multiple=4, max_len=20)
    model.train()
    try:
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.5
        first = data.evaluate(model)
        assert first == data.evaluate(model) and model.training
        assert all(parameter.grad is None for parameter in model.parameters())
        assert first["dev_loss"] > 0
    finally:
        model.eval()
    assert data.tokens_per_epoch == sum(len(s) + 1 for s in ids)
