"""Every law holds for every architecture and position scheme: in float32 to 2e-5, in float64 to 1e-9."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from regard.laws import LAWS, OF_PARAMETERS, Verdict, report_card
from regard.laws.trial import TOLERANCE
from regard.model import Model, make_classifier, make_model
from regard.model.layers import Dropout
from regard.runtime import make_fast

NUMBERS = range(1, 15)
"""The laws of masks, positions and caches; those of decoding have tests of their own."""

NEEDS = {1: "decoder", 3: "decoder", 4: "decoder", 5: "decoder", 8: "decoder", 13: "decoder", 12: "encoder"}
"""The part that a law is about; without it, and only then (and 11 under pre-norm), it does not apply."""


def applies(number: int, model: Model) -> bool:
    if number == 11:
        return model.config.norm_order == "post"
    part = NEEDS.get(number)
    return part is None or getattr(model.transformer, part) is not None


@pytest.mark.parametrize("number", NUMBERS)
def test_law_holds(number: int, model: Model) -> None:
    verdict = LAWS[number](model)
    if verdict.outcome == "undecided":  # two of these tokens were almost equally likely
        verdict = LAWS[number](model, seed=3)
    assert verdict.outcome == ("pass" if applies(number, model) else "not applicable"), verdict
    assert verdict.measured is None or verdict.measured <= 2e-5, verdict


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "case", [("encoder", "relative"), ("decoder", "rope", "mistral"), ("both", "sinusoidal", "bert")]
)
def test_law_holds_in_float64(number: int, case: tuple[str, ...], build) -> None:
    model = build(*case).double()
    verdict = LAWS[number](model)
    assert verdict.outcome == ("pass" if applies(number, model) else "not applicable"), verdict
    assert verdict.tolerance in (None, 0.0, 1e-9)


@pytest.mark.parametrize("stack", ["decoder", "both"])
@pytest.mark.parametrize("scheme", ["learned", "rope", "relative"])
@pytest.mark.parametrize("number", [1, 3, 4, 5, 6])
def test_cache_laws_hold_on_a_ring_that_wraps(number: int, scheme: str, stack: str, build, monkeypatch) -> None:
    """A window's cache is a ring of window + CHUNK slots: made small, 12 tokens go round it more than once."""
    for module in ("cache", "transformer"):
        monkeypatch.setattr(f"regard.model.{module}.CHUNK", 4)
    verdict = LAWS[number](build(stack, scheme, "mistral"), seed=2)
    assert verdict.outcome == "pass", verdict


@pytest.mark.parametrize(
    "case", [("encoder", "relative"), ("decoder", "rope", "mistral"), ("decoder", "learned", "llama"),
             ("both", "sinusoidal", "bert"), ("both", "rope", "marian")]
)  # fmt: skip
def test_laws_hold_for_what_is_used(case: tuple[str, ...], build) -> None:
    """Texts are read and written by the fast model: masks, positions and caches are laws for it too."""
    model = build(*case)
    for verdict in report_card(make_fast(model), numbers=[n for n in NUMBERS if n not in OF_PARAMETERS]):
        outcomes = ("pass", "undecided") if applies(verdict.number, model) else ("not applicable",)
        assert verdict.outcome in outcomes, verdict


@pytest.mark.parametrize("seed", [1, 2])
def test_laws_hold_whatever_the_tokens(seed: int, build) -> None:
    for verdict in report_card(build("both", "rope", "llama"), numbers=NUMBERS, seed=seed):
        assert verdict.outcome in ("pass", "not applicable", "undecided"), verdict


def test_a_classifier_is_judged_by_its_hidden_states(build) -> None:
    config = build("encoder", "learned").config
    card = report_card(make_classifier(config, 3).eval(), numbers=NUMBERS)
    expected = {number: "not applicable" if NEEDS.get(number) == "decoder" else "pass" for number in NUMBERS}
    assert {verdict.number: verdict.outcome for verdict in card} == expected


@pytest.mark.parametrize("variant", ["bert", "chapter"])
def test_laws_hold_for_a_masked_language_model(variant: str, build) -> None:
    torch.manual_seed(0)
    model = make_model(build("encoder", "learned", variant).config, "masked-lm").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    for verdict in report_card(model, numbers=NUMBERS):
        assert verdict.outcome == ("pass" if applies(verdict.number, model) else "not applicable"), verdict


def test_half_precision_is_judged_by_a_copy(build) -> None:
    model = build("decoder", "rope").bfloat16()
    verdict = LAWS[3](model)
    assert verdict.outcome == "pass"
    assert verdict.tolerance == TOLERANCE[torch.float32]
    assert model.transformer.tokens.weight.dtype == torch.bfloat16


def test_the_model_is_left_as_it_was(build) -> None:
    model = build("both", "relative", dropout=0.1, attn_dropout=0.2)
    model.train()
    model.transformer.encoder.eval()
    modes = [module.training for module in model.modules()]
    shares = [module.p for module in model.modules() if isinstance(module, Dropout)]
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    report_card(model, numbers=NUMBERS)
    assert [module.training for module in model.modules()] == modes
    assert [module.p for module in model.modules() if isinstance(module, Dropout)] == shares
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_cannot_tell_is_undecided(build) -> None:
    """A model that says the same whatever it reads would agree with anything."""
    model = build("decoder", "rope", "llama")
    nn.init.zeros_(model.head.weight)
    assert {LAWS[number](model).outcome for number in (1, 2, 3, 4, 5, 13, 14)} == {"undecided"}


def test_a_report_card_is_a_list_of_verdicts_by_number(build) -> None:
    card = report_card(build("encoder"), numbers=[12, 2, 3])
    assert [verdict.number for verdict in card] == [2, 3, 12]
    assert all(isinstance(verdict, Verdict) and verdict.sentence for verdict in card)


def test_a_model_too_short_for_the_laws_is_not_judged(build) -> None:
    assert {verdict.outcome for verdict in report_card(build("decoder", max_len=15), numbers=NUMBERS)} == {
        "not applicable"
    }
