"""From ids to ids: which sources are searched together changes nothing, and lengths keep to their ratio."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Pairs
from regard.generate import Hypothesis
from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks import search, translation
from regard.tasks.metrics import translation_metrics
from regard.tasks.search import search_translations
from regard.tasks.translation import TranslationData, bleu_on, length_ratio, longest_seen
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
    monkeypatch.setattr(search, "DECODE_TOKENS", together)
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


def test_the_longest_sources_that_were_learned_are_those_that_all_but_few_stay_under() -> None:
    sources = [[0] * (i % 30) for i in range(10_000)]
    assert longest_seen(sources, 256) == longest_seen([*sources, [0] * 99, [0] * 300], 256) == 29
    assert longest_seen([*sources, *[[0] * 99] * 20], 256) == 99 and longest_seen([[0] * 300], 256) == 256


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


def test_each_target_language_is_scored_by_its_own_words(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, codes = ["abcdefgh ijklm nop", "ponmlkji hgfedc ba"] * 4, ["zh", "de"] * 4
    pairs = Pairs(texts, texts, ("en", None), (Path("a"),), range(8), {}, to=codes)
    ids = TOKENIZER.encode_batch(texts)
    data = TranslationData(TOKENIZER, (ids, ids), (ids, ids), tokens_per_batch=60, seed=1, max_len=24, multiple=1)

    def all_but_the_first(*_: object, **__: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(tuple(row[1:]), 0.0, 0.0, True)] for row in ids]

    monkeypatch.setattr(translation, "search_translations", all_but_the_first)
    found, signatures = bleu_on(model, data, pairs, language=None, at_most=8)
    for code in ("de", "zh"):
        references = [text for text, to in zip(texts, codes, strict=True) if to == code]
        expected = translation_metrics([text[1:] for text in references], references, code)
        assert found[f"dev_bleu_{code}"] == pytest.approx(expected["bleu"]["score"], abs=0.005)
    assert found["dev_bleu"] == pytest.approx((found["dev_bleu_de"] + found["dev_bleu_zh"]) / 2, abs=0.01)
    assert "tok:zh" in signatures["dev_bleu_zh"] and "tok:13a" in signatures["dev_bleu_de"]
    one, _ = bleu_on(model, data, replace(pairs, to=None), language="zh", at_most=8)
    assert set(one) == {"dev_bleu", "dev_chrf"}
