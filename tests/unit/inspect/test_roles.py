"""What heads do: planted heads are found and named, and random ones are not."""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import ConfigError
from regard.inspect import aims
from regard.inspect.aims import tally
from regard.inspect.edits import HeadOff
from regard.inspect.effects import head_effects
from regard.inspect.roles import LEAST, SIGMAS, HeadRole, Stopped, head_roles
from regard.inspect.sentences import LONGEST
from regard.inspect.views import Request, run
from regard.loaded import Loaded
from regard.model import Learned, Model, TransformerConfig, make_language_model
from regard.text import Tokenizer

PLACES, SHARP = 64, 40.0
"""Positions that a planted model tells apart, and by how much its scores differ."""
LETTERS = "abcdefghijklmnop"


# ---------------------------------------------------------------- chance, exactly


@pytest.mark.parametrize("visible", [np.ones((4, 4), dtype=bool), np.tri(5, dtype=bool)])
def test_chance_is_what_dealing_the_weights_anew_gives_on_the_average(visible: np.ndarray) -> None:
    """Against every deal there is, row by row: mean and variance of the sum over rows."""
    random = np.random.default_rng(0)
    weights = random.random((3, *visible.shape)) ** 3 * visible
    weights /= weights.sum(-1, keepdims=True)
    aim = random.random(visible.shape) < 0.5
    found = tally(weights, visible, aim)
    mean, variance, share, rows = np.zeros(3), np.zeros(3), np.zeros(3), 0
    for row, keys in enumerate(map(np.flatnonzero, visible)):
        if len(set(aim[row, keys])) == 1:
            continue
        deals = [weights[:, row, list(deal)] @ aim[row, keys] for deal in itertools.permutations(keys)]
        mean, variance, rows = mean + np.mean(deals, 0), variance + np.var(deals, 0), rows + 1
        share = share + weights[:, row] @ aim[row]
    assert found.rows == rows > 1
    np.testing.assert_allclose(found.baseline, mean / rows, atol=1e-12)
    np.testing.assert_allclose(found.sigma, np.sqrt(variance) / rows, atol=1e-12)
    np.testing.assert_allclose(found.score, share / rows, atol=1e-12)


def test_tallies_add_up_and_nothing_is_no_share() -> None:
    visible = np.tri(4, dtype=bool)
    weights = np.full((2, 4, 4), 0.25) * visible
    one = tally(weights, visible, aims.at_offset(4, -1))
    np.testing.assert_allclose((one + one).score, one.score)
    np.testing.assert_allclose((one + one).sigma, one.sigma / np.sqrt(2))
    assert tally(weights, visible, aims.at_offset(4, 1)).rows == 0  # the future is not to be seen


@pytest.mark.parametrize(
    ("aim", "expected"),
    [
        (aims.at_offset(4, -1), ["....", "x...", ".x..", "..x."]),
        (aims.at_offset(4, 0), ["x...", ".x..", "..x.", "...x"]),
        (aims.local(4), ["xxx.", "xxxx", "xxxx", ".xxx"]),
        (aims.among(2, [True, False, True]), ["x.x", "x.x"]),
        (aims.duplicates([7, 8, 7]), ["..x", "...", "x.."]),
        (aims.equal(["b", None], ["a", "b", "b"]), [".xx", "..."]),
        (aims.after_the_last(7, 1, 3), ["." * 7] * 4 + ["..x....", "...x...", "....x.."]),
        (aims.band(3, 5), ["xx...", ".xxx.", "...xx"]),
    ],
)
def test_what_roles_look_at(aim: np.ndarray, expected: Sequence[str]) -> None:
    assert ["".join(".x"[int(cell)] for cell in row) for row in aim] == expected


def test_the_farthest_is_1_and_even_weights_are_even() -> None:
    visible = np.tri(3, dtype=bool)
    np.testing.assert_allclose(aims.far(3, visible), [[0, 0, 0], [1, 0, 0], [1, 0.5, 0]])
    even, rows = aims.evenness((visible / visible.sum(-1, keepdims=True))[None], visible)
    assert rows == 2 and even[0] == pytest.approx(2)
    assert aims.evenness(np.eye(3)[None], visible)[0][0] == 0


# ---------------------------------------------------------------- planted heads


def vocabulary() -> Tokenizer:
    return Tokenizer.train([string.ascii_lowercase, string.digits, "."], kind="chars", vocab_size=60)


class Planter:
    """A model of nothing but zeros, whose heads are written by hand.

    The stream has a place for the token, one for its position and one for what a head puts there, a basis vector each.
    """

    def __init__(self, tokenizer: Tokenizer, **layers: int) -> None:
        self.tokenizer, self.V = tokenizer, tokenizer.vocab_size
        config = TransformerConfig(
            vocab_size=self.V, d_model=2 * self.V + PLACES, n_heads=4, d_head=PLACES, d_ff=1, max_len=PLACES,
            positions=Learned(), norm="rms", **layers,
        )  # fmt: skip
        self.model = make_language_model(config).eval()
        self.token, self.place, self.free = slice(0, self.V), slice(self.V, self.V + PLACES), slice(-self.V, None)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if "norm" not in name:
                    parameter.zero_()
            self.model.transformer.tokens.weight[:, self.token] = torch.eye(self.V)
            for stack in (self.model.transformer.encoder, self.model.transformer.decoder):
                if stack is not None:
                    stack.positions.weight[:, self.place] = torch.eye(PLACES)

    @torch.no_grad()
    def head(self, site: str, number: int, q: torch.Tensor, k: torch.Tensor, query: slice, key: slice) -> None:
        """Have a head compare q of a query's place with k of a key's: matrices (in, d)."""
        attention, own = self.model.transformer.get_submodule(site), slice(number * PLACES, (number + 1) * PLACES)
        attention.q.weight[own, query] = SHARP * q.T
        attention.k.weight[own, key] = SHARP * k.T

    @torch.no_grad()
    def carries(self, site: str, number: int) -> None:
        """Have a head put the tokens that it looks at into the free place."""
        attention, first = self.model.transformer.get_submodule(site), number * PLACES
        attention.v.weight[first : first + self.V, self.token] = torch.eye(self.V)
        attention.o.weight[self.free, first : first + self.V] = torch.eye(self.V)

    def one(self, *letters: str) -> torch.Tensor:
        """A matrix (V, d) that sends these tokens, and no others, to the first direction."""
        found = torch.zeros(self.V, PLACES)
        found[[self.tokenizer.token_id(letter) for letter in letters], 0] = 1
        return found

    def same(self) -> torch.Tensor:
        return torch.eye(self.V, PLACES)

    def shifted(self, by: int) -> torch.Tensor:
        """Positions, one direction each, moved: place i asks for place i + by."""
        return torch.eye(PLACES).roll(by, 1)


def texts(n: int, length: int = 14) -> list[str]:
    random = np.random.default_rng(1)
    return ["".join(random.choice(list(LETTERS + "."), length)) for _ in range(n)]


@pytest.fixture(scope="module")
def planted() -> Loaded:
    """A language model: previous, sink, two before, itself; then induction and heads that do nothing."""
    tokenizer = vocabulary()
    plant = Planter(tokenizer, n_decoder_layers=2)
    first, second = (f"decoder.layers.{i}.self_attn" for i in range(2))
    for head, by in ((0, -1), (2, -2), (3, 0)):
        plant.head(first, head, plant.shifted(by), plant.shifted(0), plant.place, plant.place)
    plant.carries(first, 0)
    everyone = torch.zeros(PLACES, PLACES)
    everyone[:, 0] = 1
    plant.head(first, 1, everyone, plant.one("<s>", "."), plant.place, plant.token)
    plant.head(second, 0, plant.same(), plant.same(), plant.token, plant.free)
    return loaded(plant.model, tokenizer, "language-model")


def loaded(model: Model, tokenizer: Tokenizer, task: str) -> Loaded:
    return Loaded(Path("planted"), model, tokenizer, tokenizer, {"task": task})


def by_place(roles: Sequence[HeadRole]) -> dict[tuple[str, int, int], tuple[str, int | None]]:
    return {(role.part, role.layer, role.head): (role.role, role.offset) for role in roles}


def test_planted_heads_of_a_language_model_are_named(planted: Loaded) -> None:
    found = head_roles(planted, [Request(texts=(text,)) for text in texts(12)])
    named = by_place(found)
    place = "decoder.self"
    assert named[place, 0, 0] == ("previous", None)
    assert named[place, 0, 1] == ("sink", None)
    assert named[place, 0, 2] == ("offset", -2)
    assert named[place, 0, 3] == ("self", None)
    assert named[place, 1, 0] == ("induction", None)
    assert {named[place, 1, head] for head in (1, 2, 3)} == {("uniform", None)}
    induction = next(role for role in found if role.role == "induction")
    assert induction.score > 0.95 and induction.example is None
    assert found[0].score > 0.95 and found[0].baseline < 0.3


def test_planted_heads_of_a_translator_are_named() -> None:
    tokenizer = vocabulary()
    plant = Planter(tokenizer, n_encoder_layers=1, n_decoder_layers=1)
    cross, alphabet = "decoder.layers.0.cross_attn", ["<s>", *LETTERS]
    following = torch.zeros(plant.V, PLACES)
    for one, two in itertools.pairwise(alphabet):
        following[tokenizer.token_id(one), tokenizer.token_id(two)] = 1
    everyone = torch.zeros(PLACES, PLACES)
    everyone[:, 0] = 1
    plant.head(cross, 0, following, plant.same(), plant.token, plant.token)
    plant.head(cross, 1, everyone, plant.one("</s>"), plant.place, plant.token)
    plant.head(cross, 2, plant.shifted(0), plant.shifted(0), plant.place, plant.place)
    plant.head(cross, 3, everyone, plant.one("z"), plant.place, plant.token)
    plant.head("encoder.layers.0.self_attn", 0, plant.shifted(1), plant.shifted(0), plant.place, plant.place)
    plant.head("encoder.layers.0.self_attn", 1, plant.same(), plant.same(), plant.token, plant.token)
    random, requests = np.random.default_rng(2), []
    for _ in range(12):
        source = list(LETTERS + "z")
        random.shuffle(source)
        requests.append(Request(texts=("".join(source),), target=LETTERS))
    found = by_place(head_roles(loaded(plant.model, tokenizer, "translation"), requests))
    assert [found["decoder.cross", 0, head][0] for head in range(4)] == ["copy", "source-end", "band", "rare"]
    assert found["encoder.self", 0, 0] == ("next", None)
    assert found["encoder.self", 0, 1] == ("self", None)  # no letter of these sources has a twin
    twins = [Request(texts=(text + text[::-1],), target="ab") for text in texts(12, 8)]
    again = by_place(head_roles(loaded(plant.model, tokenizer, "translation"), twins, "encoder.self"))
    assert again["encoder.self", 0, 1] == ("duplicate", None)


@pytest.mark.parametrize(
    ("task", "scheme", "variant"),
    [("language-model", "rope", "pre"), ("translation", "learned", "post"), ("masked-lm", "relative", "pre")],
)
def test_heads_of_a_random_model_are_mixed(task: str, scheme: str, variant: str, opened) -> None:
    model = opened(task, scheme, variant, tokenizer=vocabulary())
    pairs = zip(texts(40)[::2], texts(40)[1::2], strict=True)
    found = head_roles(model, [Request(texts=(a,), target=b if task == "translation" else None) for a, b in pairs])
    names = [role.role for role in found]
    # A random head may well look far back, or at a token that every text has; it has no business with any other role.
    assert set(names) <= {"mixed", "uniform", "long-range", "sink"}
    assert names.count("long-range") + names.count("sink") < len(names) / 4


def test_a_label_is_beyond_chance_and_shown_by_its_example(planted: Loaded) -> None:
    requests = [Request(texts=("a" * 200,)), *(Request(texts=(text,)) for text in texts(3))]
    for role in head_roles(planted, requests):
        assert len(role.scores) == len({(score.role, score.offset) for score in role.scores})
        if role.role not in ("mixed", "uniform"):
            assert role.score > role.baseline + SIGMAS * role.sigma
            assert role.score - role.baseline > LEAST * (1 - role.baseline)
        if role.role in ("previous", "self"):
            text = requests[role.example.sentence].texts[0]
            view = run(planted, Request(texts=(text[: PLACES - 1],), max_tokens=0))
            row, key = role.example.row, role.example.key
            assert key == row + (-1 if role.role == "previous" else 0)
            assert view.tensor("decoder.self.weights")[role.layer, role.head, row, key] > 0.9


def test_the_effect_is_what_the_loss_rises_by(opened) -> None:
    model = opened("translation", "rope", "pre", tokenizer=vocabulary())
    requests = [Request(texts=(text,), target=text[:5]) for text in texts(3)]
    views = [run(model, request) for request in requests]
    for role in head_roles(model, requests):
        effect = head_effects(views, role.part)[role.layer, role.head]
        assert role.effect == pytest.approx(effect, abs=1e-5)
    off = HeadOff("encoder.self", 0, 0)
    without = head_roles(model, [replace(request, edits=(off,)) for request in requests])
    assert without[0].effect == pytest.approx(0, abs=1e-6)  # what is off already costs no more


def test_models_without_probabilities_have_roles_without_effects(opened) -> None:
    found = head_roles(opened("embedding", "rope"), [Request(texts=(text,)) for text in ("A man rides", "the cat sat")])
    assert len(found) == 8 and {role.effect for role in found} == {None}


def test_progress_is_told_to_the_end_and_stopping_stops(planted: Loaded) -> None:
    told: list[tuple[int, int]] = []
    requests = [Request(texts=(text,)) for text in texts(4)]
    head_roles(planted, requests, progress=lambda done, of: told.append((done, of)))
    assert told == [(done, 8) for done in range(1, 9)]
    asked = iter([False] * 5)
    with pytest.raises(Stopped):
        head_roles(planted, requests, stop=lambda: next(asked, True))


def test_sentences_that_are_too_long_are_passed_over(opened) -> None:
    model = opened("masked-lm", "rope", tokenizer=vocabulary(), max_len=1000)
    long, short = Request(texts=("ab" * LONGEST,)), Request(texts=("abcab.",))
    assert {role.example.sentence for role in head_roles(model, [long, short])} == {1}
    with pytest.raises(ConfigError, match="no sentence"):
        head_roles(model, [long])
    with pytest.raises(ConfigError, match="no such attention"):
        head_roles(model, [short], "decoder.cross")
