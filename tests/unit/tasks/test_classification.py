"""Classification as a task: its losses, laws 33 and 34, texts that are too long, and what the labels say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.labelled import LabelKind, LabelValue
from regard.errors import ConfigError, DataError
from regard.model import HEADS, Model, TransformerConfig, make_model
from regard.tasks import reading
from regard.tasks.classification import ClassificationData, ClassificationTask, Labels, balanced, classify
from regard.tasks.classifier import Classifier
from regard.tasks.examples import read_examples
from regard.tasks.reading import read_texts, wrap_texts
from regard.text import Tokenizer
from regard.training.step import TrainStep, add_gradients

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["a fine film", "dull", "the story goes on and on and on without an end", "", "fine , fine , fine", "on"]
LABELS: dict[LabelKind, list[LabelValue]] = {
    "one": ["good", "bad", "bad", "none", "good", "bad"],
    "several": [("good",), ("bad", "short"), ("bad",), (), ("good", "short"), ("short",)],
    "number": [4.0, 1.0, 2.0, 3.0, 5.0, 2.5],
}
CLASSES = {"one": ("bad", "good", "none"), "several": ("bad", "good", "short"), "number": ()}
KINDS: tuple[LabelKind, ...] = ("one", "several", "number")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, kind="bpe", vocab_size=320).framed(before="bos", after="eos")


def model_of(tokenizer: Tokenizer, head: str = "classifier", n_labels: int = 3, **axes: object) -> Model:
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=32, n_heads=2, d_ff=48, n_encoder_layers=2, norm_order="pre",
        n_token_types=2, max_len=64, **axes,
    )  # fmt: skip
    torch.manual_seed(3)
    return make_model(config, head, n_labels).eval()


def data_of(tokenizer: Tokenizer, kind: LabelKind, tokens: int = 400) -> ClassificationData:
    labels = Labels.of(LABELS[kind], kind, CLASSES[kind])
    reads, _ = read_texts(tokenizer, [(text,) for text in TEXTS], 64)
    targets = labels.targets(LABELS[kind])
    return ClassificationData(
        labels, targets, reads, targets, tokenizer=tokenizer, train=reads, dropout=None, cut=0,
        tokens_per_batch=tokens, seed=0, multiple=1, max_len=64,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_each_text_alone(tokenizer: Tokenizer, kind: LabelKind) -> None:
    data = data_of(tokenizer, kind)
    model, task = model_of(tokenizer, n_labels=len(data.labels.names)), ClassificationTask(kind)
    batches = [data.batch(step) for step in range(data.batches_per_epoch)]
    assert sum(batch.count for batch in batches) == len(TEXTS)
    whole = sum(float(task.loss(model, task.hidden(model, batch), batch).detach()) for batch in batches)
    alone = 0.0
    for text, label in zip(TEXTS, LABELS[kind], strict=True):
        ids = torch.tensor([tokenizer.wrap(tokenizer.encode(text))[0]])
        logits = model.head(model.transformer.encode(ids), torch.ones_like(ids, dtype=torch.bool)).detach()[0]
        if kind == "one":
            alone -= float(logits.log_softmax(-1)[CLASSES[kind].index(str(label))])
        elif kind == "several":
            wanted = torch.tensor([float(name in label) for name in CLASSES[kind]])
            alone += float(F.binary_cross_entropy_with_logits(logits, wanted))
        else:
            values = np.array(LABELS[kind])
            alone += float((logits[0] - (label - values.mean()) / values.std()) ** 2)
    assert whole == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["classifier", "cls-classifier"])
def test_law_33_and_34_batches_change_nothing(
    tokenizer: Tokenizer, kind: LabelKind, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of 2 to 20 tokens, one at a time and seven at a time: no padding leaks into a label, a loss or a score."""
    data, found = data_of(tokenizer, kind), []
    model = model_of(tokenizer, head, n_labels=len(data.labels.names))
    for together in (1, 10_000):
        monkeypatch.setattr(reading, "tokens_together", lambda device, most=together: most)
        found.append((classify(model, data.dev), data.evaluate(model)))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-5)
    assert found[0][0].std(0).min() > 1e-3, "the texts must differ, or the test could not fail"


def test_law_15_three_micro_batches_give_one_gradient(tokenizer: Tokenizer) -> None:
    data, gradients = data_of(tokenizer, "one"), []
    weights = balanced(data.targets, 3)
    for parts in (1, 3):
        model, task = model_of(tokenizer).double(), ClassificationTask("one", 0.1, weights)
        batch = max((data.batch(step) for step in range(data.batches_per_epoch)), key=lambda batch: batch.count)
        _, count = add_gradients(TrainStep(model, task), batch.split(parts))
        assert count == batch.count >= 3
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert torch.allclose(gradients[0], gradients[1], atol=1e-12) and float(gradients[0].norm()) > 0


def test_rdrop_is_the_mean_of_two_passes_and_half_of_how_far_they_are_apart(tokenizer: Tokenizer) -> None:
    """(CE + CE) / 2 + alpha / 4 (KL + KL) by F.kl_div; without dropout the two passes are one, and nothing is added."""
    data = data_of(tokenizer, "one")
    batch = max((data.batch(step) for step in range(data.batches_per_epoch)), key=lambda batch: batch.count)
    for mode in (True, False):
        model = model_of(tokenizer).train(mode)
        model.head.dropout.p = 0.5
        plain, twice = ClassificationTask("one", 0.1), ClassificationTask("one", 0.1, rdrop=3.0)
        torch.manual_seed(5)
        found = twice.loss(model, twice.hidden(model, batch), batch)
        torch.manual_seed(5)
        logits = model.head(twice.hidden(model, batch), batch.real.repeat(2, 1))
        first, second = logits.log_softmax(-1).chunk(2)
        apart = sum(F.kl_div(q, p, reduction="sum", log_target=True) for p, q in ((first, second), (second, first)))
        expected = sum(plain.of(part, batch.targets) for part in logits.chunk(2)) / 2 + 3.0 / 4 * apart
        assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
        once = float(plain.loss(model, plain.hidden(model, batch), batch).detach())
        assert (float(apart.detach()) > 0.01) is mode
        assert mode or float(found.detach()) == pytest.approx(once, rel=1e-5)


def test_balanced_weights_count_each_class_alike() -> None:
    weights = balanced(np.array([0] * 90 + [1] * 9 + [2]), 4)
    assert (weights[:3] * torch.tensor([90, 9, 1])).tolist() == pytest.approx([25.0, 25.0, 25.0])


def test_labels_survive_config_json() -> None:
    for kind in KINDS:
        labels = Labels.of(LABELS[kind], kind, CLASSES[kind])
        assert Labels.read(labels.facts()) == labels
    numbers = Labels.of(LABELS["number"], "number", ())
    scaled = numbers.targets(LABELS["number"])
    assert scaled.mean() == pytest.approx(0, abs=1e-6) and scaled.std() == pytest.approx(1, rel=1e-6)
    assert numbers.decided(scaled[:, None]) == pytest.approx(LABELS["number"], rel=1e-6)
    assert Labels.of([2.0, 2.0], "number", ()).scale == 1.0, "numbers that never vary do not divide by zero"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(3, 40))
def test_of_two_texts_the_longer_one_gives_first(first: int, second: int, most: int) -> None:
    tokenizer = Tokenizer.train(["ab"], kind="chars", vocab_size=40).framed(before="bos", after="eos")
    read, cut = wrap_texts(tokenizer, [[7] * first, [8] * second], most)
    kept = read.ids.count(7), read.ids.count(8)
    assert len(read.ids) <= max(most, 3) and len(read.types) == len(read.ids)
    assert cut == first + second - sum(kept)
    if cut:
        assert sum(kept) == most - 3, "nothing is cut that there was room for"
        assert (kept[0] == first or kept[0] >= kept[1]) and (kept[1] == second or kept[1] >= kept[0] - 1)


def test_a_text_that_is_too_long_is_cut_and_counted(tokenizer: Tokenizer) -> None:
    model = model_of(tokenizer)
    classifier = Classifier(model, tokenizer, {"labels": list(CLASSES["one"])})
    long = "on " * 100
    label, fitting = classifier.classify([long, "on " * 3])
    assert label.left_out > 0 == fitting.left_out
    shortened = tokenizer.decode(tokenizer.encode(long)[: 64 - 2])
    assert classifier.classify([shortened])[0].probability == pytest.approx(label.probability, abs=1e-6)


def test_labels_and_their_probabilities(tokenizer: Tokenizer) -> None:
    model = model_of(tokenizer)
    one = Classifier(model, tokenizer, {"labels": list(CLASSES["one"])}).classify(TEXTS, top_k=5)
    several = Classifier(model, tokenizer, {"labels": list(CLASSES["several"]), "label_kind": "several"})
    for label in one:
        shares = dict(label.likeliest)
        assert {*shares} == {*CLASSES["one"]} and sum(shares.values()) == pytest.approx(1)
        assert label.probability == max(shares.values()) == shares[label.label]
    for label in several.classify(TEXTS, top_k=3):
        shares, product = dict(label.likeliest), 1.0
        assert label.label == tuple(name for name in CLASSES["several"] if shares[name] > 0.5)
        for name, share in shares.items():
            product *= share if name in label.label else 1 - share
        assert label.probability == pytest.approx(product)
    assert Classifier(model, tokenizer, {"labels": ["a", "b", "c"]}).classify([]) == []


def test_what_cannot_be_classified(tokenizer: Tokenizer) -> None:
    pairs = Classifier(model_of(tokenizer), tokenizer, {"labels": list("abc"), "texts": 2})
    assert len(pairs.classify([("one", "two")])) == 1
    with pytest.raises(ConfigError, match="text 2"):
        pairs.classify([("one", "two"), "three"])
    with pytest.raises(ConfigError, match="top_k"):
        pairs.classify([("one", "two")], top_k=0)


def test_ten_thousand_labels(tokenizer: Tokenizer) -> None:
    names = [f"class {i}" for i in range(10_000)]
    found = Classifier(model_of(tokenizer, n_labels=10_000), tokenizer, {"labels": names}).classify(TEXTS, top_k=3)
    assert all(len(label.likeliest) == 3 and label.label in names for label in found)


def test_every_head_over_labels_has_as_many_outputs() -> None:
    config = TransformerConfig(vocab_size=20, d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1)
    for head in ("classifier", "cls-classifier", "tagger"):
        assert HEADS[head](config, 7).out.weight.shape == (7, 16)


def test_a_class_of_empty_texts_alone_is_none(tmp_path: Path) -> None:
    (path := tmp_path / "one.tsv").write_text("text\tlabel\n" + "good\tyes\n" * 20 + " \tno\n")
    with pytest.raises(DataError, match="nothing to tell apart"):
        read_examples([str(path)], [], kind="one", columns=None, until=None, skip_bad=0, seed=1)
