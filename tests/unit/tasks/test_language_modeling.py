"""Language modelling: losses against plain cross entropy, the same whatever the batches (laws 33, 13)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.data.documents import Document
from regard.data.encoding import encode_documents
from regard.model import Model, Rope, TransformerConfig, make_language_model
from regard.tasks import language_modeling
from regard.tasks.language_modeling import LanguageData, LanguageModelTask, read_corpus
from regard.text import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
T = 16


@pytest.fixture(scope="module")
def data(data_dir: Callable[[str], Path]) -> LanguageData:
    text = (data_dir("tinyshakespeare") / "input.txt").read_text()[:30_000]
    tokenizer = Tokenizer.train([text], kind="bytes", vocab_size=350)
    texts = [Document(part, Path("x"), 1) for part in text.split("\n\n")]
    train, dev = (encode_documents(part, tokenizer) for part in (texts[20:], texts[:20]))
    return LanguageData(tokenizer, train, dev, length=T, tokens_per_batch=8 * T, seed=1)


@pytest.fixture(scope="module")
def model(data: LanguageData) -> Model:
    torch.manual_seed(0)
    sizes = {"vocab_size": data.tokenizer.vocab_size, "d_model": 32, "n_heads": 2, "d_ff": 48, "n_decoder_layers": 2}
    model = make_language_model(TransformerConfig(**sizes, positions=Rope(), max_len=T, logit_scale=2.0)).eval()
    return model.requires_grad_(False)


def alone(model: Model, ids: list[int], control: dict[str, int]) -> tuple[float, int]:
    """Nats and predictions of one document, window by window, each by itself."""
    whole, nats = [control["bos_id"], *ids, control["eos_id"]], 0.0
    for start in range(0, len(whole) - 1, T):
        window = torch.tensor([whole[start : start + T + 1]])
        logits = model.logits(model.transformer.decode(window[:, :-1], model.transformer.start()))
        nats += float(F.cross_entropy(logits[0], window[0, 1:], reduction="sum"))
    return nats, len(whole) - 1


def test_the_loss_of_a_batch_is_that_of_its_documents_alone(data: LanguageData, model: Model) -> None:
    task, batch = LanguageModelTask(), data.batch(0)
    assert batch.documents is not None
    hidden = task.hidden(model, batch)
    logits = model.logits(hidden)[batch.real]
    expected = F.cross_entropy(logits, batch.targets[batch.real], reduction="sum")
    assert float(task.loss(model, hidden, batch)) == pytest.approx(float(expected), rel=1e-5)
    for row in range(len(batch.ids)):  # law 13: a document packed is a document alone
        for number in batch.documents[row].unique():
            own = (batch.documents[row] == number) & batch.real[row]
            if own.any():
                single = model.transformer.decode(batch.ids[row, own][None], model.transformer.start())
                assert torch.allclose(single[0], hidden[row, own], atol=1e-5)


@pytest.mark.parametrize("tokens", [T, 7 * T, 10_000])
def test_a_reading_is_that_of_each_document_alone(
    data: LanguageData, model: Model, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 33: the same for any batch; perplexity is exp(total nats / predictions); ends and bytes are counted."""
    monkeypatch.setattr(language_modeling, "EVALUATED_TOKENS", tokens)
    read = read_corpus(model, data.dev, length=T, **data.control)
    each = [alone(model, data.dev.document(i).tolist(), data.control) for i in range(len(data.dev))]
    assert read.predictions == sum(n for _, n in each) == data.dev.tokens + len(data.dev)
    assert read.nats == pytest.approx(sum(nats for nats, _ in each), rel=1e-5)
    assert read.perplexity == pytest.approx(math.exp(read.nats / read.predictions))
    assert read.bits_per_byte == pytest.approx(read.nats / math.log(2) / data.dev.bytes)
    assert read.by_position.sum(0) == pytest.approx([read.nats, read.predictions])
    assert read.by_position[0, 1] == sum(-(-n // T) for _, n in each)


def test_an_epoch_predicts_every_token_once(data: LanguageData) -> None:
    count = np.zeros(data.tokenizer.vocab_size, dtype=int)
    for step in range(data.batches_per_epoch):
        batch = data.batch(step)
        np.add.at(count, batch.targets[batch.real].numpy(), 1)
        assert set(data.examples(step)) <= set(range(len(data.train)))
    expected = np.zeros_like(count)
    for i in range(len(data.train)):
        np.add.at(expected, data.train.document(i), 1)
    expected[data.tokenizer.eos_id] += len(data.train)
    assert (count == expected).all()
