"""Fault 43: NaN logits, temperature 0 or 1e-9, top_p 0: greedy, or that request's error; no crash."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import regard

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(model_dir: Callable[[str], Path]) -> regard.Loaded:
    return regard.load(model_dir("stories260k"), device="cpu")


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0}, {"temperature": 1e-9}, {"temperature": 1e-300}, {"top_p": 0.0}, {"top_p": 1e-12}, {"top_k": 1},
     {"min_p": 1.0}, {"temperature": 0, "top_k": 10**9, "top_p": 0.0, "min_p": 1.0, "seed": 2**63 - 1}],
)  # fmt: skip
def test_the_ends_of_the_scales_are_greedy(model: regard.Loaded, options: dict) -> None:
    greedy = model.generate("Once upon a time", max_tokens=12)
    assert model.generate("Once upon a time", max_tokens=12, **{"seed": 4, **options}).ids == greedy.ids


def test_a_model_that_says_nan_is_an_error_that_names_the_prompt(model_dir: Callable[[str], Path]) -> None:
    """That a row's neighbours go on is shown in unit/generate/test_stream.py."""
    model = regard.load(model_dir("stories260k"), device="cpu")
    with torch.no_grad():
        model.model.transformer.tokens.weight[model.tokenizer.encode("Once")[-1]] = math.nan
    for options in ({}, {"temperature": 1.0, "top_p": 0.9}):
        with pytest.raises(regard.NonFiniteError, match="prompt 1 of 1: the model says NaN"):
            model.generate(["Once"], max_tokens=3, **options)
        with pytest.raises(regard.NonFiniteError, match="regard doctor"):
            list(model.stream("Once", max_tokens=3, **options))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("temperature", math.nan), ("temperature", -1), ("top_p", -0.1), ("top_p", 1.1), ("min_p", 9), ("top_k", -1),
     ("seed", -1), ("repetition_penalty", 0), ("n", -(10**9)), ("max_tokens", -1), ("stop", "")],
)  # fmt: skip
def test_what_cannot_be_is_said_before_any_work(model: regard.Loaded, name: str, wrong: float | str) -> None:
    for ask in (model.generate, model.stream):
        with pytest.raises(regard.ConfigError, match=name):
            ask("Once", **{name: wrong})
