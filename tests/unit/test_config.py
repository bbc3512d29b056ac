"""Laws of `regard.config`: there and back again, and every mistake named at its place."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import build, load_toml, override, to_toml, to_tree
from regard.errors import ConfigError


@dataclass(frozen=True)
class Rope:
    kind: ClassVar[str] = "rope"
    theta: float = 10_000.0


@dataclass(frozen=True)
class Learned:
    kind: ClassVar[str] = "learned"
    max_len: int = 512

    def __post_init__(self) -> None:
        if self.max_len < 1:
            raise ConfigError("too short", where="max_len", expected="1 or more", got=self.max_len)


@dataclass(frozen=True)
class Model:
    d_model: int
    n_heads: int = 4
    positions: Rope | Learned | None = field(default_factory=Rope)
    activation: Literal["relu", "gelu"] = "relu"
    dropout: float = 0.0
    window: int | None = 8

    def __post_init__(self) -> None:
        if self.n_heads < 1 or self.d_model % self.n_heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}")


@dataclass(frozen=True)
class Recipe:
    model: Model
    name: str = "run"
    bias: bool = True
    data: tuple[Path, ...] = ()
    betas: tuple[float, float] = (0.9, 0.98)
    limits: dict[str, int | float] = field(default_factory=dict)
    layers: list[Rope | Learned] = field(default_factory=list)
    note: str | None = None


words = st.text(max_size=8)
positions = st.one_of(
    st.none(), st.builds(Rope, st.floats(allow_nan=False)), st.builds(Learned, st.integers(1, 10**15))
)
models = st.builds(
    Model,
    d_model=st.integers(0, 10**6).map(lambda n: 12 * n),
    n_heads=st.sampled_from([1, 2, 3, 4]),
    positions=positions,
    activation=st.sampled_from(["relu", "gelu"]),
    window=st.none() | st.integers(),
)
recipes = st.builds(
    Recipe,
    model=models,
    name=words,
    bias=st.booleans(),
    data=st.lists(st.text("ab/.é ", min_size=1).map(Path), max_size=3).map(tuple),
    betas=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    limits=st.dictionaries(words, st.integers() | st.floats(allow_nan=False), max_size=3),
    layers=st.lists(positions.filter(bool), max_size=3),
    note=st.none() | words.filter(lambda word: word != "none"),
)
scalars = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=12
)


@given(recipes)
def test_there_and_back_through_a_tree_and_through_toml(recipe: Recipe) -> None:
    assert build(Recipe, to_tree(recipe), where="tree") == recipe
    assert build(Recipe, tomllib.loads(to_toml(to_tree(recipe))), where="toml") == recipe


@given(st.dictionaries(st.text(), values, max_size=4))
def test_toml_reads_back_as_written(tree: dict) -> None:
    assert tomllib.loads(to_toml(tree)) == tree


def mistake(tree: dict, cls: type = Recipe) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        build(cls, tree, where="recipe.toml")
    return caught.value


@pytest.mark.parametrize(
    ("tree", "place", "says"),
    [
        ({"model": {"d_model": 64, "n_head": 4}}, "model.n_head", "did you mean n_heads?"),
        ({"model": {}}, "model.d_model", "an integer"),
        ({"model": {"d_model": True}}, "model.d_model", "an integer"),
        ({"model": {"d_model": 64.0}}, "model.d_model", "an integer"),
        ({"model": {"d_model": 64, "dropout": "much"}}, "model.dropout", "a number"),
        ({"model": {"d_model": 64, "dropout": 10**400}}, "model.dropout", "a number"),
        ({"model": {"d_model": 64, "activation": "rely"}}, "model.activation", "did you mean relu?"),
        ({"model": {"d_model": 64, "positions": "ropes"}}, "model.positions.kind", "did you mean rope?"),
        ({"model": {"d_model": 64, "positions": {"theta": 1}}}, "model.positions.kind", '"learned"'),
        ({"model": {"d_model": 64, "positions": 3}}, "model.positions", '"learned"'),
        ({"model": {"d_model": 64, "positions": {"kind": "learned", "theta": 1}}}, "model.positions.theta", "max_len"),
        ({"model": {"d_model": 64, "window": "wide"}}, "model.window", "an integer"),
        ({"model": 3}, "model", "a table"),
        ({"model": {"d_model": 64}, "name": 7}, "name", 'name = "7"'),
        ({"model": {"d_model": 64}, "bias": 1}, "bias", "true or false"),
        ({"model": {"d_model": 64}, "betas": [0.9]}, "betas", "2 values"),
        ({"model": {"d_model": 64}, "data": "a.txt"}, "data", "a list of a path"),
        ({"model": {"d_model": 64}, "data": ["a", 1]}, "data[1]", "a path"),
        ({"model": {"d_model": 64}, "limits": {"x": "y"}}, "limits.x", "a number"),
        ({"model": {"d_model": 64}, "layers": ["rope", {"kind": "rope", "t": 1}]}, "layers[1].t", "theta"),
    ],
)
def test_a_mistake_names_its_place_and_the_way_out(tree: dict, place: str, says: str) -> None:
    error = mistake(tree)
    assert error.where == f"recipe.toml: {place}"
    assert says in str(error)
    assert None not in (error.expected, error.got, error.mend)


def test_all_mistakes_are_reported_at_once() -> None:
    text = str(mistake({"model": {"d_model": "x", "nheads": 4, "dropout": "y"}, "colour": 1}))
    assert "4 mistakes" in text
    for place in ("model.d_model", "model.nheads", "model.dropout", "colour"):
        assert place in text


def test_complaints_of_the_class_itself_get_their_place() -> None:
    error = mistake({"model": {"d_model": 64, "positions": {"kind": "learned", "max_len": 0}}})
    assert (error.where, error.expected, error.got) == ("recipe.toml: model.positions.max_len", "1 or more", 0)
    error = mistake({"model": {"d_model": 65}})
    assert error.where == "recipe.toml: model" and "not a multiple" in error.what
    assert mistake({"d_model": 65}, Model).where == "recipe.toml"


def test_a_kind_may_be_a_bare_word_and_none_a_word() -> None:
    assert build(Model, {"d_model": 8, "positions": "learned"}, where="").positions == Learned()
    assert build(Model, {"d_model": 8, "positions": "none", "window": "none"}, where="").positions is None


def test_override_parses_toml_values_and_leaves_its_argument_alone() -> None:
    tree = {"model": {"d_model": 64, "positions": "rope"}, "data": ["a"]}
    given = [
        "model.positions.theta=5e5",
        "data=['b', 'c']",
        "name=en-de",
        "bias=false",
        'note="7"',
        "new.table.x=1",
        "last=a=b",
        "smuggled=1\nbias=true",
    ]
    assert override(tree, given) == {
        "model": {"d_model": 64, "positions": {"kind": "rope", "theta": 5e5}},
        "data": ["b", "c"],
        "name": "en-de",
        "bias": False,
        "note": "7",
        "new": {"table": {"x": 1}},
        "last": "a=b",
        "smuggled": "1\nbias=true",
    }
    assert tree == {"model": {"d_model": 64, "positions": "rope"}, "data": ["a"]}


@pytest.mark.parametrize("assignment", ["model.d_model", "=3", "model..x=3", "model.d_model.x=3"])
def test_override_refuses_what_is_no_assignment(assignment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override({"model": {"d_model": 64}}, [assignment])
    assert None not in (caught.value.expected, caught.value.got, caught.value.mend)


@pytest.mark.parametrize(
    ("content", "line"), [(b"a = 1\nb = \nc = 3\n", 2), (b"a = 1\n\nb = [1,", 3), (b"a = 1\nb = '\xff'\n", 2)]
)
def test_load_toml_names_file_and_line(tmp_path: Path, content: bytes, line: int) -> None:
    file = tmp_path / "recipe.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_toml(file)
    assert caught.value.where == f"{file}:{line}"


def test_load_toml_reads_crlf_and_bom_and_names_an_absent_file(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")
    assert load_toml(file) == {"a": 1, "b": 2}
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        load_toml(tmp_path / "absent.toml")


def test_it_imports_with_the_standard_library_alone() -> None:
    known = "(sys.stdlib_module_names | {'regard', '__main__'})"
    code = f"import sys; old = set(sys.modules); import regard.config; new = set(sys.modules) - old;" \
           f"print(sorted({{name.split('.')[0] for name in new}} - {known}))"  # fmt: skip
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
