"""Looking at a model, and changing what passes: by name, while it lasts, for whoever asked, at no cost to others."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from regard.model import Alibi, Model, Relative, Rope, see, watch, watched

IDS, SOURCE = torch.arange(6)[None] % 19, torch.arange(4)[None] + 5

ATTENTION = {"q", "k", "v", "scores", "weights", "z", "out"}


@pytest.fixture
def model(build) -> Model:
    return build(n_encoder_layers=1, n_decoder_layers=2, positions=Rope())


@torch.no_grad()
def run(model: Model) -> Tensor:
    memory = model.transformer.encode(SOURCE)
    return model.logits(model.transformer.decode(IDS, model.transformer.start(memory)))


def test_every_place_is_offered_under_its_path(model: Model) -> None:
    with watch(model, "*") as seen:
        run(model)
    assert {f"decoder.layers.1.{part}.{leaf}" for part in ("self_attn", "cross_attn") for leaf in ATTENTION} <= set(
        seen
    )
    assert {f"encoder.layers.0.ffn.{leaf}" for leaf in ("pre", "act", "out")} <= set(seen)
    assert {f"decoder.layers.0.resid_{leaf}" for leaf in ("in", "cross", "mid", "out")} <= set(seen)
    assert {"encoder.embed", "decoder.positions", "decoder.norm", "logits"} <= set(seen)
    assert seen["decoder.layers.0.cross_attn.weights"].shape == (1, 2, 6, 4)
    assert seen["decoder.layers.0.self_attn.q"].shape == (1, 2, 6, 8)


def test_patterns_choose_and_the_end_is_the_end(model: Model) -> None:
    with watch(model, "decoder.layers.*.self_attn.weights", "logits") as seen:
        logits = run(model)
    run(model)
    assert list(seen) == ["decoder.layers.0.self_attn.weights", "decoder.layers.1.self_attn.weights", "logits"]
    assert all(len(seen.all(name)) == 1 for name in seen)
    assert torch.equal(seen["logits"], logits)


def test_a_bare_transformer_has_the_same_names(model: Model) -> None:
    with watch(model.transformer, "*.z") as seen:
        run(model)
    assert "encoder.layers.0.self_attn.z" in seen


def test_cached_and_batched_decoding_is_seen_step_by_step(model: Model) -> None:
    ids = torch.randint(19, (3, 5))
    state = model.transformer.start(model.transformer.encode(SOURCE.expand(3, -1)), capacity=5)
    with torch.no_grad(), watch(model, "decoder.layers.0.self_attn.weights") as seen:
        for token in ids.split(1, 1):
            model.transformer.decode(token, state)
    steps = seen.all("decoder.layers.0.self_attn.weights")
    assert [weights.shape for weights in steps] == [(3, 2, 1, t) for t in range(1, 6)]
    with torch.no_grad(), watch(model, "decoder.layers.0.self_attn.weights") as seen:
        model.transformer.decode(ids, model.transformer.start(model.transformer.encode(SOURCE.expand(3, -1))))
    whole = seen["decoder.layers.0.self_attn.weights"]
    for t, weights in enumerate(steps):
        torch.testing.assert_close(weights[:, :, 0], whole[:, :, t, : t + 1], atol=1e-5, rtol=0)


def test_cached_keys_and_values_are_seen_as_attention_sees_them(model: Model) -> None:
    """Turned by their positions, those of the cache among them; cross-attention's at every step."""
    places = [f"decoder.layers.1.{part}.{leaf}" for part in ("self_attn", "cross_attn") for leaf in "kv"]
    with torch.no_grad(), watch(model, *places) as whole:
        run(model)
    state = model.transformer.start(model.transformer.encode(SOURCE), capacity=6)
    with torch.no_grad(), watch(model, *places) as seen:
        for token in IDS.split([4, 1, 1], 1):
            model.transformer.decode(token, state)
    for place in places:
        assert len(seen.all(place)) == 3
        torch.testing.assert_close(seen[place], whole[place], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("scheme", "place"), [(Alibi(), "self_attn.bias"), (Relative(), "self_attn.bias")])
def test_a_bias_is_offered_and_an_edit_of_it_goes_on(scheme: Alibi | Relative, place: str, build) -> None:
    model = build(n_decoder_layers=1, positions=scheme)

    @torch.no_grad()
    def said() -> Tensor:
        return model.transformer.decode(IDS, model.transformer.start())

    plain = said()
    with watch(model, f"decoder.layers.0.{place}") as seen:
        assert torch.allclose(said(), plain, atol=1e-5)
    assert seen[f"decoder.layers.0.{place}"].shape == (1, 2, 6, 6)
    with watch(model, f"decoder.layers.0.{place}", edit=lambda _, bias: torch.zeros_like(bias)):
        assert not torch.allclose(said(), plain, atol=1e-2)


def test_angles_are_offered_and_without_them_nothing_is_turned(model: Model) -> None:
    key = "decoder.layers.0.self_attn.k"
    with watch(model, "decoder.positions.angles", edit=lambda _, x: x * 0) as seen, watch(model, key) as without:
        run(model)
    assert seen["decoder.positions.angles"].shape == (1, 6, 4)
    with torch.no_grad(), watch(model, "decoder.layers.0.resid_in") as stream:
        run(model)
        k, _ = model.transformer.decoder.layers[0].self_attn.keys_values(stream["decoder.layers.0.resid_in"])
    torch.testing.assert_close(without[key], k)


def test_an_edit_goes_on_through_the_model(model: Model) -> None:
    """Cutting the edges to the source is the same as giving cross-attention nothing but zeros to add."""

    def cut(_: str, weights: Tensor) -> Tensor:
        return torch.zeros_like(weights)

    with watch(model, "*.cross_attn.weights", edit=cut) as seen:
        without_edges = run(model)
    with watch(model, "*.cross_attn.z", edit=lambda _, z: z * 0):
        without_sum = run(model)
    assert (seen["decoder.layers.0.cross_attn.weights"] == 0).all()
    assert torch.equal(without_edges, without_sum)
    assert not torch.allclose(without_edges, run(model), atol=0.1)


def test_watchers_nest_and_each_sees_what_the_other_made(model: Model) -> None:
    with (
        watch(model, "decoder.embed", edit=lambda _, x: x + 1) as outer,
        watch(model, "decoder.embed", edit=lambda _, x: x * 2) as inner,
    ):
        run(model)
    assert torch.equal(inner["decoder.embed"], 2 * outer["decoder.embed"])


def test_an_exception_ends_the_watching(model: Model) -> None:
    with pytest.raises(ZeroDivisionError), watch(model, "*") as seen:
        raise ZeroDivisionError
    run(model)
    assert not seen


def test_nobody_watching_costs_nothing(model: Model) -> None:
    x = torch.ones(1)
    assert see(model, "logits", x) is x
    assert not watched(model.transformer.decoder.layers[0].self_attn, "weights")
    with watch(model, "decoder.layers.1.*.weights"):
        assert not watched(model.transformer.decoder.layers[0].self_attn, "scores", "weights")
        assert watched(model.transformer.decoder.layers[1].self_attn, "scores", "weights")


def test_a_thread_does_not_see_what_another_watches(model: Model) -> None:
    entered, left, logits = threading.Event(), threading.Event(), []

    def other() -> None:
        entered.wait()
        logits.append(run(model))
        left.set()

    plain = run(model)
    thread = threading.Thread(target=other)
    thread.start()
    with watch(model, "*.z", edit=lambda _, z: z * 0) as seen:
        entered.set()
        left.wait()
    thread.join()
    assert not seen
    assert torch.equal(logits[0], plain)


def test_another_model_is_not_seen(model: Model, build) -> None:
    other = build(n_decoder_layers=1)
    with watch(model, "*") as seen, torch.no_grad():
        other.transformer.decode(IDS, other.transformer.start())
    assert not seen
