"""The plan is arithmetic: it must follow the machine, the minutes and the text, and count what it says it counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.config import build, to_tree
from regard.data import Pairs
from regard.machine import Speeds
from regard.model import TransformerConfig, make_language_model
from regard.tasks.pairs import Corpus
from regard.training.pace import as_quick_here, training_flops
from regard.training.plan import bfloat16_from, estimate, plan_recipe
from regard.training.recipe import DataRecipe, LoopRecipe, OptimRecipe, Recipe

CPU = torch.device("cpu")


def speeds(float32: float, bfloat16: float = 1e9) -> Speeds:
    return Speeds("cpu", {"float32": float32, "bfloat16": bfloat16}, 3e10, ())


def corpus(pairs: int, characters: int = 60) -> Corpus:
    texts = Pairs(["x" * characters] * pairs, ["y" * characters] * pairs, ("en", "de"), (Path("a"),), range(pairs), {})
    return Corpus(texts, texts, [], held_out=False)


BASE = Recipe(data=DataRecipe(train=("a", "b")))


def test_a_recipe_from_elsewhere_keeps_bfloat16_only_where_that_is_quick() -> None:
    half = replace(BASE, loop=LoopRecipe(dtype="bfloat16"), optim=OptimRecipe(matrix_dtype="bfloat16"))
    assert as_quick_here(half, speeds(2e11, 5e11)) == half
    assert as_quick_here(half, speeds(2e11, 1e9)) == BASE
    assert as_quick_here(BASE, speeds(2e11, 1e9)) == BASE


def test_more_minutes_or_a_faster_machine_never_mean_a_smaller_model() -> None:
    text = corpus(1_000_000)
    sizes = [plan_recipe(BASE, text, minutes=m, device=CPU, speeds=speeds(1e11)).parameters for m in (1, 10, 100, 1000)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    slow, fast = (plan_recipe(BASE, text, minutes=30, device=CPU, speeds=speeds(s)).parameters for s in (1e10, 1e13))
    assert slow < fast


def test_little_text_is_not_given_a_large_model() -> None:
    few, many = (plan_recipe(BASE, corpus(n), minutes=600, device=CPU, speeds=speeds(1e12)) for n in (1_000, 1_000_000))
    assert few.parameters < many.parameters
    assert few.recipe.model["dropout"] > many.recipe.model["dropout"]


def test_bfloat16_is_chosen_only_where_it_should_pay() -> None:
    wide, narrow = (Recipe(data=BASE.data, model={"d_model": d, "n_heads": 4}) for d in (512, 64))

    def chosen(base: Recipe, table: Speeds) -> str:
        return plan_recipe(base, corpus(10_000), minutes=3, device=CPU, speeds=table).recipe.loop.dtype

    slow_half, fast_half = speeds(1e11, 1e9), speeds(2.5e11, 7.6e11)
    assert [chosen(base, slow_half) for base in (wide, narrow)] == ["float32", "float32"]
    assert [chosen(base, fast_half) for base in (wide, narrow)] == ["bfloat16", "float32"], "what is narrow only casts"
    assert bfloat16_from(slow_half) is None and 64 < (bfloat16_from(fast_half) or 0) <= 512


def test_a_wider_model_a_slower_machine_and_r_drop_cost_more() -> None:
    def rate(model: dict[str, int], table: Speeds, rdrop: float = 0.0) -> float:
        recipe = Recipe(data=BASE.data, model=model, rdrop=rdrop)
        return estimate(recipe, corpus(1_000), table, tokens=None, minutes=None).tokens_per_second

    small = {"d_model": 64, "n_heads": 2, "d_ff": 128, "n_encoder_layers": 2, "n_decoder_layers": 2}
    table = speeds(1e11)
    assert rate(small, table) > rate({**small, "d_model": 128}, table)
    assert rate(small, table) > rate({**small, "n_decoder_layers": 3}, table)
    assert rate(small, table) > rate(small, speeds(5e10))
    assert rate(small, table) > rate(small, Speeds("cpu", table.matmul_flops, 1e10, ())), "memory bears on it too"
    assert rate(small, table) == pytest.approx(2 * rate(small, table, rdrop=5.0))


def test_what_the_user_fixed_is_kept_and_the_recipe_survives_its_file() -> None:
    base = Recipe(data=BASE.data, model={"d_model": 96, "n_heads": 3})
    plan = plan_recipe(base, corpus(10_000), minutes=3, device=CPU, speeds=speeds(1e11))
    assert plan.recipe.model["d_model"] == 96 and plan.recipe.model["n_heads"] == 3
    assert build(Recipe, to_tree(plan.recipe), where="recipe") == plan.recipe


@pytest.mark.parametrize("layers", [(2, 0), (0, 2), (2, 3)])
@pytest.mark.parametrize("gated", [False, True])
def test_flops_are_six_a_weight(layers: tuple[int, int], gated: bool) -> None:
    encoder, decoder = layers
    config = TransformerConfig(
        vocab_size=50, d_model=32, n_heads=4, n_kv_heads=2, d_ff=48, bias="none", gated_ffn=gated,
        n_encoder_layers=encoder, n_decoder_layers=decoder,
    )  # fmt: skip
    model = make_language_model(config)
    matrices = {n: p.numel() for n, p in model.named_parameters() if p.ndim == 2 and ".layers." in n}
    of_source = sum(
        n for name, n in matrices.items() if ".encoder." in name or ".cross_attn.k" in name or ".cross_attn.v" in name
    )
    source, target = training_flops(config)
    if not decoder:  # what an encoder alone reads is what it is trained on
        of_source = 0
    assert source == 6 * of_source
    assert target == 6 * (sum(matrices.values()) - of_source + 50 * 32)


def test_an_estimate_counts_the_recipes_own_steps() -> None:
    recipe = Recipe(
        data=BASE.data, model={"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 1, "n_decoder_layers": 1}
    )
    plan = estimate(recipe, corpus(1_000), speeds(1e10), tokens=None, minutes=None)
    assert plan.steps == recipe.loop.steps
    assert plan.minutes * 60 == pytest.approx(plan.steps * 0.9 * recipe.batch.tokens / plan.tokens_per_second, rel=1e-6)
