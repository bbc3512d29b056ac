"""What the comparison of an exported model notices: every kind of difference, and ties for what they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.hub.export import Ids
from regard.model import Model, Rope, TransformerConfig, make_language_model
from regard.tasks.parity import Parity, answers, measure, values, with_scores
from regard.tasks.parity_cases import SENTENCES, Case, Question, ask
from regard.tasks.peers import read_differently
from regard.text import Tokenizer

IDS = Ids(start=1, ends=(2, 9), banned=(0, 1, 3))


@dataclass
class Echo:
    """An engine that is regard itself, with another model in it, or answers of its own."""

    model: Model
    quantity: str = "logits"
    said: list[list[int]] | None = None
    name: str = "echo 1"
    opened_by: str = "Echo"
    known: int = 60

    def values(self, cases: Sequence[Case]) -> list[Tensor]:
        found = values(self.model, cases)
        if self.quantity == "logits":
            return found
        pairs = [(one[:-1].log_softmax(-1), case.target[1:]) for one, case in zip(found, cases, strict=True)]
        return [logits[range(len(wanted)), list(wanted)] for logits, wanted in pairs]

    def outputs(self, questions: Sequence[Question]) -> list[list[int]]:
        return answers(self.model, IDS, questions) if self.said is None else self.said


def translator(**axes: Any) -> Model:
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "d_model": 16, "n_heads": 2, "d_ff": 24, "max_len": 40, "norm_order": "pre"}
    both = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    model = make_language_model(TransformerConfig(**{**sizes, **both, **axes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter) * 0.3
    return model


def questions(count: int = 9) -> list[Question]:
    torch.manual_seed(1)
    lengths = [3 + i % 5 for i in range(count)]
    return [Question(Case(source=(*torch.randint(4, 60, (n,)).tolist(), 2), target=(1,)), limit=6 + n) for n in lengths]


def compared(model: Model, peer: Echo, **options: Any) -> Parity:
    return measure(model, IDS, peer, [], questions(), **options)[0]


@pytest.mark.parametrize("quantity", ["logits", "log-probabilities"])
def test_a_model_agrees_with_itself(quantity: str) -> None:
    model = translator()
    found = compared(model, Echo(model, quantity))
    assert found.passed and found.largest == found.difference == 0 and found.same == found.outputs == found.texts == 9
    assert found.ties == 0 and found.spread > 0.1 and found.judged == quantity


@pytest.mark.parametrize("quantity", ["logits", "log-probabilities"])
def test_one_tensor_that_is_a_little_off_is_seen(quantity: str) -> None:
    model = translator()
    said = answers(model, IDS, questions(2))
    for name, _ in model.named_parameters():
        if name.endswith("k.bias"):  # which softmax does not see
            continue
        other = deepcopy(model)
        with torch.no_grad():
            other.get_parameter(name).add_(torch.randn_like(other.get_parameter(name)) * 0.05)
        found = measure(model, IDS, Echo(other, quantity, said), [], questions(2))[0]
        assert found.same == 2 and found.largest > found.allowed and not found.passed, name


def test_not_a_number_is_no_agreement() -> None:
    model, other = translator(), translator()
    with torch.no_grad():
        other.get_parameter("transformer.decoder.norm.bias")[0] = math.nan
    found = compared(model, Echo(other, said=[[] for _ in range(9)]))
    assert found.largest == math.inf and not found.passed


def test_what_is_said_must_be_the_same() -> None:
    """Logits may agree and the engine still search otherwise."""
    model = translator()
    said = answers(model, IDS, questions())
    for changed in (said[0][:-1], [*said[0], 5], [said[0][0] % 50 + 4, *said[0][1:]]):
        found = compared(model, Echo(model, said=[changed, *said[1:]]))
        assert found.same == 8 and found.largest == 0 and not found.passed
    assert compared(model, Echo(model, said=said)).passed


def test_a_tie_may_fall_either_way_but_only_within_the_difference() -> None:
    model = translator(tie_embeddings=False)
    asked = questions()
    said = answers(model, IDS, asked)
    token = said[0][0]
    twin = next(i for i in range(10, 60) if i != token)
    with torch.no_grad():
        weight = model.get_parameter("head.weight")
        weight[twin] = weight[token]
    ours = answers(model, IDS, asked)[0]
    other = token if ours[0] == twin else twin
    swapped = [[other], *answers(model, IDS, asked)[1:]]
    found = compared(model, Echo(model, said=swapped))
    assert (found.same, found.ties, found.passed) == (8, 1, True)
    banned = Ids(start=1, ends=(2, 9), banned=(*IDS.banned, other))
    assert not measure(model, banned, Echo(model, said=swapped), [], asked)[0].passed
    with torch.no_grad():
        weight[other] *= 0.999
    assert not compared(model, Echo(model, said=swapped)).passed


def test_the_allowed_difference_grows_with_the_logits() -> None:
    small, large = translator(logit_scale=1.0), translator(logit_scale=100.0)
    one, other = (compared(model, Echo(model)) for model in (small, large))
    assert other.allowed == pytest.approx(1e-4 * other.spread) and other.spread == pytest.approx(100 * one.spread)
    assert compared(small, Echo(small), tolerance=0.5).allowed == pytest.approx(0.5 * max(1.0, one.spread))


def test_rounded_weights_are_judged_by_how_good_they_are() -> None:
    model, other = translator(), translator()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += torch.randn_like(parameter) * 0.02
    found = compared(model, Echo(other, "log-probabilities"), quantized=True)
    assert found.largest > 1e-3 and found.judged == "loss" and found.difference == found.mean and found.passed
    for more, passed in ((1e-5, True), (-1e-5, False)):
        again = compared(model, Echo(other, "log-probabilities"), quantized=True, tolerance=found.difference + more)
        assert again.passed is passed
    better = with_scores(found, ["a b c d"] * 2, ["a b c d", "a b c e"], ["a b c d"] * 2, "en")
    assert better.judged == "bleu" and better.difference > 0.5 and not better.passed
    same = with_scores(found, ["a b c d"], ["a b c d"], ["a b c d"], "en", tolerance=0.0)
    assert same.passed and same.scores["bleu"]["signature"].startswith("nrefs:1")
    exact = with_scores(replace(found, judged="logits"), ["a b c d"], ["b"], ["a b c d"], "en")
    assert exact.judged == "logits" and exact.scores["bleu"]["ours"] > exact.scores["bleu"]["exported"]


def test_an_engine_may_not_know_the_last_ids() -> None:
    """Marian's <pad>, which CTranslate2 leaves out: the others share its probability."""
    model = translator()

    class Less(Echo):
        def values(self, cases: Sequence[Case]) -> list[Tensor]:
            found = [(one[:-1, :59].log_softmax(-1), case.target[1:]) for one, case in
                     zip(values(self.model, cases), cases, strict=True)]  # fmt: skip
            return [logits[range(len(wanted)), list(wanted)] for logits, wanted in found]

    ids = Ids(start=1, ends=(2, 9), banned=(0, 1, 3, 59))
    said = answers(model, ids, questions())
    peers = [Less(model, "log-probabilities", said=said, known=known) for known in (59, 60)]
    assert [measure(model, ids, peer, [], questions())[0].passed for peer in peers] == [True, False]


@pytest.mark.parametrize("kind", ["translator", "decoder", "encoder"])
def test_each_kind_of_model_is_asked_what_it_can_do(kind: str) -> None:
    layers = {"translator": (1, 1), "decoder": (0, 1), "encoder": (1, 0)}[kind]
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=330)
    config = TransformerConfig(
        vocab_size=330, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=layers[0], n_decoder_layers=layers[1],
        positions=Rope(), max_len=24,
    )  # fmt: skip
    framed = tokenizer.framed(after="eos") if kind == "translator" else tokenizer.framed(before="bos")
    ids = Ids(start=1, ends=(2,), forced=(7,))
    texts = [*SENTENCES, "", "a" * 200]
    cases, asked = ask(config, framed, texts, ids, ratio=1.5, leads=[(8, 9)] * len(texts))
    assert all(case.length <= 24 for case in cases) and all(0 < question.limit <= 24 for question in asked)
    if kind == "translator":
        assert not cases and len(asked) == len(texts)
        assert asked[0].case.source[:2] == (8, 9) and asked[0].case.source[-1] == 2
        assert {question.case.target for question in asked} == {(1, 7)}
    elif kind == "decoder":
        assert [case.target[2:3] for case in cases] == [(1,)] * len(texts)
        assert all(len(question.case.target) + question.limit <= 24 for question in asked)
    else:
        assert not asked and cases[-1].source[:3] == (8, 9, 1) and len(cases[-1].types) < cases[-1].length


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "chars", "words"])
def test_transformers_cuts_texts_as_every_kind_of_vocabulary_of_ours_does(kind: Any, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(SENTENCES, kind=kind, vocab_size=400).framed(before="bos", after="eos")
    tokenizer.save(tmp_path)
    texts = [*SENTENCES, "", "  two  spaces ", "a\tb\r\nc", "</s> <s>", "e\u0301 \U0001f468\u200d\U0001f469", "\ufeffx"]
    assert read_differently(tmp_path, tokenizer, texts) == []
    other = Tokenizer.train(SENTENCES, kind=kind, vocab_size=400).framed(before="bos")
    differing = read_differently(tmp_path, other, texts)
    assert [one.text for one in differing] == texts
    for one in differing:
        ours, theirs = one.shown(one.ours), one.shown(one.theirs)
        assert ours != theirs and max(len(ours), len(theirs)) < 120
