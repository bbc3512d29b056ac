"""Masked language modelling: law 20 on real text, and what a resumed run or another rank hides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.model import TransformerConfig, make_model
from regard.tasks.masked_lm import MaskedData, MaskedLMTask, hide
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data(data_dir: Callable[[str], Path]) -> MaskedData:
    text = (data_dir("tinyshakespeare") / "input.txt").read_text()[:400_000]
    tokenizer = Tokenizer.train([text], kind="bytes", vocab_size=700)
    ids = tokenizer.encode(text)
    rows = [[tokenizer.bos_id, *ids[i : i + 60], tokenizer.eos_id] for i in range(0, len(ids), 60)]
    return MaskedData(
        tokenizer, rows[:-50], rows[-50:], vocab_size=704, tokens_per_batch=2_000, seed=3, multiple=1, max_len=64
    )


def test_law_20_the_shares(data: MaskedData) -> None:
    """100,000 tokens: specials never chosen, 15 % +- 0.5 chosen, of these 80/10/10 +- 1 (transformers #11155)."""
    specials = {data.tokenizer.token_id(token) for token in data.tokenizer.specials}
    counts = dict.fromkeys(("text", "chosen", "hidden", "same", "other"), 0)
    for i, ids in enumerate(data.train):
        now, chosen = hide(ids, np.random.default_rng(i), mask_id=data.tokenizer.mask_id, plain=data.plain)
        for before, after, picked in zip(ids, now, chosen, strict=True):
            counts["text"] += before not in specials
            if not picked:
                assert after == before
                continue
            assert before not in specials
            counts["chosen"] += 1
            counts["hidden" if after == data.tokenizer.mask_id else "same" if after == before else "other"] += 1
            assert after == data.tokenizer.mask_id or (after not in specials and after < data.tokenizer.vocab_size)
    assert counts["text"] > 100_000
    assert counts["chosen"] / counts["text"] == pytest.approx(0.15, abs=0.005)
    for name, share in (("hidden", 0.8), ("other", 0.1), ("same", 0.1)):
        assert counts[name] / counts["chosen"] == pytest.approx(share, abs=0.01)


def test_the_loss_is_over_chosen_tokens_alone(data: MaskedData) -> None:
    config = TransformerConfig(vocab_size=704, d_model=32, n_heads=2, d_ff=48, n_encoder_layers=1, max_len=64)
    model, task, batch = make_model(config, "masked-lm").eval(), MaskedLMTask(), data.batch(0)
    hidden = task.hidden(model, batch).detach()
    expected = torch.nn.functional.cross_entropy(
        model.logits(hidden)[batch.chosen], batch.targets[batch.chosen], reduction="sum"
    )
    assert float(task.loss(model, hidden, batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert batch.count == int(batch.chosen.sum()) > 0


def test_a_batch_is_a_function_of_its_step(data: MaskedData) -> None:
    one, again, later = data.batch(1), data.batch(1), data.batch(1 + data.batches_per_epoch)
    assert torch.equal(one.ids, again.ids) and torch.equal(one.chosen, again.chosen)
    assert not (one.ids.shape == later.ids.shape and torch.equal(one.ids, later.ids))
    parts = [data.batch(1, rank, 3) for rank in range(3)]
    whole = sorted(tuple(row[real].tolist()) for row, real in zip(one.ids, one.real, strict=True))
    dealt = sorted(tuple(r[m].tolist()) for part in parts for r, m in zip(part.ids, part.real, strict=True))
    assert dealt == whole


def test_evaluation_hides_the_same_each_time(data: MaskedData) -> None:
    config = TransformerConfig(vocab_size=704, d_model=32, n_heads=2, d_ff=48, n_encoder_layers=1, max_len=64)
    model = make_model(config, "masked-lm")
    assert data.evaluate(model) == data.evaluate(model)
    assert model.training
