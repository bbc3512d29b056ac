"""Every number of a recipe has a range, and one outside it is refused by its name, before anything is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest

from regard.config import build, override
from regard.errors import ConfigError
from regard.ledger import names
from regard.model import TransformerConfig
from regard.training import Recipe, read_recipe
from regard.training.recipe import RANGES, DataRecipe
from regard.training.subjects import SUBJECTS

NEEDED = {"factor": 2.0, "original_len": 8, "size": 4}
"""Of what has no default within an axis."""
RECIPE = {"data": {"train": ["a"]}, "adapt": {"data": {"train": ["b"]}}}
MODEL = {"vocab_size": 9, "d_model": 16, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}

SIGNED = {"attn_scale", "embed_scale", "logit_scale"}
"""Numbers that may be below 0."""
SHARES = {"dropout", "attn_dropout", "fraction", "layer_decay", "decay", "augment", "betas", "ema", "label_smoothing"}
LESS_THAN_ALL = {"betas", "ema", "label_smoothing", "attn_dropout", "model dropout"}
SOME = {
    *("vocab_size", "tokens", "accumulate", "multiple", "max_len", "steps", "stop", "evaluate_every", "eps", "alpha"),
    *("minutes", "decoder_vocab_size", "d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "norm_eps", "theta"),
    *("fraction", "factor", "original_len", "low", "high", "fast", "slow", "growth", "buckets", "max_distance", "size"),
}
"""Numbers of which there cannot be none."""


class Number(NamedTuple):
    """A numeric field: the tree it is set in, its dotted name, and its hint."""

    root: type
    tree: dict[str, Any]
    dotted: str
    hint: Any

    def __str__(self) -> str:
        return f"{self.root.__name__}.{self.dotted} {self.tree.get('positions', {}).get('kind', '')}"

    @property
    def name(self) -> str:
        """The field's own name."""
        return self.dotted.rpartition(".")[2]

    @property
    def whole(self) -> bool:
        return self.hint is int

    def with_value(self, value: str) -> Any:
        """All that is built, with so much in this field."""
        text = f"[{value}, 0.5]" if get_origin(self.hint) is tuple else value
        return build(self.root, override(self.tree, [f"{self.dotted}={text}"]), where="here")


def numbers(cls: type, root: type, tree: dict[str, Any], path: str = "") -> Iterator[Number]:
    """Every numeric field of a dataclass and of all that it is built of, each kind of a union in a tree of its own."""
    for name, hint in get_type_hints(cls).items():
        if get_origin(hint) is ClassVar:
            continue
        for member in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
            if is_dataclass(member):
                assert isinstance(member, type)
                kind, known = getattr(member, "kind", None), {field.name for field in fields(member)}
                inner: dict[str, Any] = {k: v for k, v in NEEDED.items() if k in known}
                inner |= {"kind": kind} if kind and "kind" not in known else {}
                own = [f"{path}{name}.{key}={value}" for key, value in inner.items()]
                yield from numbers(member, root, override(tree, own), f"{path}{name}.")
            elif member in (int, float) or (get_origin(member) is tuple and get_args(member)[0] in (int, float)):
                yield Number(root, tree, path + name, member)
            else:
                assert not {int, float} & set(get_args(member)), f"{path}{name} hides numbers in {member}"


EVERY = [*numbers(Recipe, Recipe, RECIPE), *numbers(TransformerConfig, TransformerConfig, MODEL)]


@pytest.mark.parametrize(
    ("name", "value"), [("pooling", "cls"), ("class_weights", "balanced"), ("rdrop", 2.0), ("augment", 0.1)]
)
def test_what_a_task_does_not_look_at_is_refused(name: str, value: object) -> None:
    """Set in vain it would be a silent error; the values that say nothing are everybody's."""
    taken = set()
    for task in SUBJECTS:
        Recipe(task=task, data=DataRecipe(train=("a",)), **{name: getattr(Recipe, name)})
        try:
            Recipe(task=task, data=DataRecipe(train=("a",)), **{name: value})
            taken.add(task)
        except ConfigError as error:
            assert error.where == name and task in error.what and error.mend == f"leave {name} out"
    assert 0 < len(taken) < len(SUBJECTS) and taken <= {"classification", "translation"}


def test_the_numbers_are_all_there() -> None:
    found = {number.dotted for number in EVERY}
    assert {"rdrop", "seed", "optim.betas", "adapt.loop.minutes", "positions.offset", "window.size"} <= found
    assert {number.name for number in EVERY if number.root is Recipe} - {"seed"} == set(RANGES)


@pytest.mark.parametrize("number", EVERY, ids=str)
def test_a_number_outside_its_range_is_refused_by_its_name(number: Number) -> None:
    share = number.name in SHARES
    bad = ["-1"] * (number.name not in SIGNED) + ["nan", "inf", "-inf"] * (not number.whole) + ["1.5"] * share
    bad += ["0"] * (number.name in SOME)
    only = LESS_THAN_ALL | ({"dropout"} if number.root is TransformerConfig else set())
    bad += ["1.0"] * (number.name in only)
    for value in bad:
        with pytest.raises(ConfigError) as caught:
            number.with_value(value)
        assert number.name in str(caught.value) and caught.value.got is not None, value


@pytest.mark.parametrize("number", EVERY, ids=str)
def test_what_is_in_its_range_is_taken(number: Number) -> None:
    good = {"buckets": ["4"], "max_distance": ["17"], "theta": ["2.0"], "n_heads": ["4"], "d_model": ["32"]}.get(
        number.name, ["1"] if number.whole else ["0.5"]
    )
    good = [*good, "0"] if number.name not in SOME else good
    for value in good:
        number.with_value(value)


@pytest.mark.parametrize("file", [f"{name}.toml" for name in names()])
def test_the_shipped_recipes_are_in_range(file: str) -> None:
    folder = Path(__file__).parents[3] / "src" / "regard" / "recipes"
    assert read_recipe(folder / file).seed >= 0
