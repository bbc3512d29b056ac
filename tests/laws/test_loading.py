"""Laws 35 and 36 hold of every architecture and head, and can fail: each is shown files or loading with its fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import CheckpointError
from regard.hub import description, weights
from regard.laws import LAWS
from regard.model import HEADS, LMHead, Model, make_model

from .faults import collected

Patch = pytest.MonkeyPatch
NUMBERS = (35, 36)
FAULTS, breaks = collected()


@breaks(35)
def the_projection_is_another_tensor_after_loading(patch: Patch) -> None:
    read = description.read_model

    def untied(*given: Any, **more: Any) -> Model:
        model = read(*given, **more)
        model.head.weight = nn.Parameter(model.transformer.output_embedding.detach().clone())
        return model

    patch.setattr(description, "read_model", untied)


@breaks(35)
def the_projection_is_always_a_copy(patch: Patch) -> None:
    patch.setattr(LMHead, "projection", lambda self, embedding: embedding.clone())


@breaks(35)
def weights_are_rounded_when_saved(patch: Patch) -> None:
    write = weights.write_weights
    patch.setattr(
        weights, "write_weights",
        lambda path, tensors: write(path, {name: tensor.bfloat16().float() for name, tensor in tensors.items()}),
    )  # fmt: skip


@breaks(36)
def what_is_missing_is_skipped(patch: Patch) -> None:
    patch.setattr(weights, "load_strict", lambda module, tensors, where: module.load_state_dict(tensors, strict=False))


@breaks(36)
def headers_are_not_compared(patch: Patch) -> None:
    patch.setattr(description, "check_fit", lambda *given: None)


@breaks(36)
def nobody_looks_for_nan(patch: Patch) -> None:
    patch.setattr(weights, "_count_nonfinite", lambda tensor: 0)


@breaks(36)
def the_tensor_is_not_named(patch: Patch) -> None:
    def refuse(*given: Any) -> None:
        raise CheckpointError("something does not fit", where=Path("model"))

    patch.setattr(weights, "check_fit", refuse)


@pytest.mark.parametrize("number", NUMBERS)
def test_law_holds(number: int, model: Model) -> None:
    verdict = LAWS[number](model)
    assert verdict.outcome == "pass", verdict


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("head", HEADS)
def test_law_holds_under_every_head(number: int, head: str, build) -> None:
    model = make_model(build("encoder", "learned", "bert").config, head, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    verdict = LAWS[number](model)
    assert verdict.outcome == "pass", verdict


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_law_holds_in_any_precision(number: int, dtype: torch.dtype, build) -> None:
    model = build("both", "rope").to(dtype)
    assert LAWS[number](model).outcome == "pass" and model.transformer.tokens.weight.dtype == dtype


@pytest.mark.parametrize(("number", "fault"), FAULTS, ids=[f"{n}-{fault.__name__}" for n, fault in FAULTS])
def test_law_fails(number: int, fault: Callable[[Patch], None], build, monkeypatch: Patch) -> None:
    model = build("both", "rope")
    assert LAWS[number](model).outcome == "pass"
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fault(monkeypatch)
    verdict = LAWS[number](model)
    assert verdict.outcome == "fail", verdict
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
