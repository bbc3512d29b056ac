"""Each edit makes of a model what the formulas say of the changed model, in every kind of model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.inspect.edits import (
    KINDS,
    EdgeOff,
    Edit,
    HeadOff,
    NoPositions,
    NoResidual,
    Unmasked,
    Unscaled,
    edited,
    from_json,
    to_json,
)
from regard.inspect.parts import Part, parts_of
from regard.model import Model, Seen, watch
from regard.model import equations as eq

IDS, SOURCE = torch.tensor([[3, 9, 4, 4, 17, 2, 8]]), torch.tensor([[5, 6, 21, 7, 1]])
CASES = [
    ("encoder", "relative", "post"), ("encoder", "rope", "parallel"), ("decoder", "alibi", "pre"),
    ("decoder", "rope", "window"), ("decoder", "learned", "parallel"), ("both", "relative", "pre"),
    ("both", "sinusoidal", "post"), ("both", "partial rope", "window"),
]  # fmt: skip


@pytest.fixture(params=CASES, ids="-".join)
def model(request: pytest.FixtureRequest, tiny) -> Model:
    return tiny(*request.param)


@torch.no_grad()
def run(model: Model, *edits: Edit) -> tuple[Tensor, Seen]:
    """The logits (1, T, V) of one pass, and all that was seen in it."""
    config = model.config
    with edited(model, edits), watch(model, "*") as seen:
        memory = model.transformer.encode(SOURCE) if config.n_encoder_layers else None
        hidden = model.transformer.decode(IDS, model.transformer.start(memory)) if config.n_decoder_layers else memory
        return model.logits(hidden), seen


def visible(model: Model, part: Part) -> np.ndarray:
    T, S = (IDS.size(1) if side == "target" else SOURCE.size(1) for side in (part.queries, part.keys))
    if not part.causal:
        return np.ones((T, S), dtype=bool)
    window = model.config.window
    return eq.causal(T) if window is None else eq.causal(T) & eq.window(T, window.size)


def by_formula(seen: Seen, site: str, visible: np.ndarray, scale: float) -> np.ndarray:
    """z of an attention from the q, k, v and bias that it offered: (H, T, d); `visible` (H, T, S)."""
    q, k, v = (seen[f"{site}.{leaf}"][0].double().numpy() for leaf in "qkv")
    bias = seen[f"{site}.bias"][0].double().numpy() if f"{site}.bias" in seen else np.zeros(visible.shape)
    share = len(q) // len(k)
    return np.stack([
        eq.masked_attention(Q, k[h // share], v[h // share], visible[h], bias=bias[h], scale=scale)
        for h, Q in enumerate(q)
    ])  # fmt: skip


def near(ours: Tensor, theirs: np.ndarray | Tensor, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(ours.double().numpy(), np.asarray(theirs), atol=tolerance, rtol=1e-5)


def test_without_an_edit_the_model_is_itself(model: Model) -> None:
    before, _ = run(model)
    after, seen = run(model)
    assert torch.equal(before, after)
    for part in parts_of(model.config):
        shown = np.stack([visible(model, part)] * part.heads)
        near(seen[f"{part.at(1)}.z"][0], by_formula(seen, part.at(1), shown, model.config.scale))


def test_unscaled_is_attention_with_a_scale_of_1(model: Model) -> None:
    logits, seen = run(model, Unscaled())
    for part in parts_of(model.config):
        shown = np.stack([visible(model, part)] * part.heads)
        near(seen[f"{part.at(1)}.z"][0], by_formula(seen, part.at(1), shown, 1.0))
    for module in model.modules():
        if hasattr(module, "scale") and hasattr(module, "kv_heads"):
            module.scale = 1.0
    near(logits, run(model)[0], 1e-3)


def test_unmasked_is_attention_to_everything(tiny) -> None:
    for case in (case for case in CASES if case[0] != "encoder"):
        model = tiny(*case)
        plain, _ = run(model)
        logits, seen = run(model, Unmasked())
        for part in parts_of(model.config):
            everything = np.ones(seen[f"{part.at(1)}.weights"][0].shape, dtype=bool)
            near(seen[f"{part.at(1)}.z"][0], by_formula(seen, part.at(1), everything, model.config.scale))
        assert not torch.allclose(plain, logits, atol=1e-2)
        near(seen["decoder.layers.1.self_attn.weights"].sum(-1), torch.ones(1, 4, 7))
    with pytest.raises(ConfigError, match="no mask"), edited(tiny("encoder"), [Unmasked()]):
        pass


@pytest.mark.parametrize("head", [None, 2])
def test_a_missing_edge_is_softmax_over_the_others(model: Model, head: int | None) -> None:
    _, plain = run(model)
    for part in parts_of(model.config):
        shown = np.stack([visible(model, part)] * part.heads)
        shown[slice(None) if head is None else head, 3, 2] = False
        edit = EdgeOff(part.name, 1, head, 3, 2)
        _, seen = run(model, edit)
        near(seen[f"{part.at(1)}.z"][0], by_formula(seen, part.at(1), shown, model.config.scale))
        weights = seen[f"{part.at(1)}.weights"][0]
        near(weights.sum(-1), np.ones(weights.shape[:2]))
        other = plain[f"{part.at(1)}.weights"][0].clone()
        touched = slice(None) if head is None else slice(head, head + 1)
        other[touched, 3, 2] = 0
        other[touched, 3] /= other[touched, 3].sum(-1, keepdim=True)
        near(weights, other)


def test_a_query_without_its_only_key_gives_zero(tiny) -> None:
    for case in (case for case in CASES if case[0] != "encoder"):
        _, seen = run(tiny(*case), EdgeOff("decoder.self", 0, None, 0, 0))
        assert (seen["decoder.layers.0.self_attn.z"][0, :, 0] == 0).all()
        assert (seen["decoder.layers.0.self_attn.weights"][0, :, 0] == 0).all()
        near(seen["decoder.layers.0.self_attn.weights"][0, :, 1:].sum(-1), np.ones((4, 6)))


def test_an_edge_that_is_not_there_removes_nothing(model: Model) -> None:
    plain, _ = run(model)
    part = parts_of(model.config)[-1]
    edits = [EdgeOff(part.name, 0, None, 50, 0), EdgeOff(part.name, 0, None, 0, 50)]
    near(run(model, *edits)[0], plain)


def test_a_head_that_is_off_is_missing_from_the_sum(model: Model) -> None:
    for part in parts_of(model.config):
        _, seen = run(model, HeadOff(part.name, 1, 2))
        site = part.at(1)
        attention = model.transformer.get_submodule(site)
        W_O = attention.o.weight.detach().T.reshape(part.heads, part.d_head, -1)
        z, bias = seen[f"{site}.z"][0], 0 if attention.o.bias is None else attention.o.bias.detach()
        assert (z[2] == 0).all()
        near(seen[f"{site}.out"][0], sum(z[h] @ W_O[h] for h in (0, 1, 3)) + bias)


@pytest.mark.parametrize("scheme", ["none", "sinusoidal", "learned", "rope", "partial rope", "alibi", "relative"])
@pytest.mark.parametrize("variant", ["post", "pre", "parallel"])
def test_without_positions_an_encoder_does_not_know_order(scheme: str, variant: str, tiny) -> None:
    model = tiny("encoder", scheme, variant)
    order = torch.tensor([4, 2, 0, 1, 3])

    @torch.no_grad()
    def encoded(ids: Tensor, *edits: Edit) -> Tensor:
        with edited(model, edits):
            return model.transformer.encode(ids)[0]

    near(encoded(SOURCE[:, order], NoPositions()), encoded(SOURCE, NoPositions())[order])
    if scheme != "none":
        assert not torch.allclose(encoded(SOURCE[:, order]), encoded(SOURCE)[order], atol=1e-2)


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "rope", "alibi", "relative"])
def test_without_positions_a_decoder_is_one_that_never_had_any(scheme: str, tiny) -> None:
    model, bare = tiny("both", scheme, "pre"), tiny("both", "none", "pre")
    bare.load_state_dict({name: value for name, value in model.state_dict().items() if ".positions." not in name})
    near(run(model, NoPositions())[0], run(bare)[0], 1e-4)


def test_a_sublayer_without_its_residual_connection(model: Model) -> None:
    order = model.config.norm_order
    for stack in ("encoder", "decoder"):
        block = getattr(model.transformer, stack) and getattr(model.transformer, stack).layers[1]
        if block is None:
            continue
        inner = [name for name in ("self_attn", "cross_attn", "ffn") if getattr(block, name) is not None]
        places = {"self_attn": "resid_in", "cross_attn": "resid_cross", "ffn": "resid_mid"}
        for i, sublayer in enumerate(inner):
            _, seen = run(model, NoResidual(1, stack, sublayer))
            at = f"{stack}.layers.1"
            found = seen[f"{at}.{sublayer}.out"]
            if order == "parallel":
                near(seen[f"{at}.resid_out"], seen[f"{at}.self_attn.out"] + seen[f"{at}.ffn.out"])
                continue
            after = seen[f"{at}.resid_out" if i + 1 == len(inner) else f"{at}.{places[inner[i + 1]]}"]
            with torch.no_grad():
                near(after, getattr(block, f"{sublayer}_norm")(found) if order == "post" else found)


def test_edits_go_together_in_whatever_order_they_are_named(tiny) -> None:
    model = tiny("both", "relative", "pre")
    edits = [EdgeOff("decoder.self", 1, 2, 3, 5), Unscaled(), Unmasked(), HeadOff("decoder.self", 1, 0)]
    logits, seen = run(model, *edits)
    everything = np.ones((4, 7, 7), dtype=bool)
    everything[2, 3, 5] = False
    expected = by_formula(seen, "decoder.layers.1.self_attn", everything, 1.0)
    expected[0] = 0
    near(seen["decoder.layers.1.self_attn.z"][0], expected)
    assert torch.equal(run(model, *edits[::-1])[0], logits)


def test_the_model_is_itself_again_when_the_block_ends(model: Model) -> None:
    plain, _ = run(model)
    changed, _ = run(model, NoResidual(0, parts_of(model.config)[0].stack, "ffn"))
    assert not torch.allclose(plain, changed, atol=1e-2)
    assert torch.equal(run(model)[0], plain)


EXAMPLES = (
    HeadOff("decoder.cross", 0, 3), EdgeOff("encoder.self", 1, None, 2, 0), EdgeOff("encoder.self", 1, 0, 2, 0),
    Unscaled(), Unmasked(), NoPositions(), NoResidual(1, "decoder", "cross_attn"),
)  # fmt: skip


def test_json_and_back(tiny) -> None:
    assert {edit.kind for edit in EXAMPLES} == set(KINDS)
    model = tiny("both")
    for edit in EXAMPLES:
        assert from_json(to_json(edit)) == edit
        edit.check(model.config)
    assert from_json({"kind": "edge", "part": "encoder.self", "layer": 1, "query": 2, "key": 0}) == EXAMPLES[1]


@pytest.mark.parametrize(
    "said",
    [
        None, [], "head", {}, {"kind": 3}, {"kind": "nothing"}, {"kind": "unscaled", "layer": 1},
        {"kind": "head", "part": "decoder.cross", "layer": 0}, {"kind": "unmasked", "kind2": 1},
        {"kind": "head", "part": "decoder.cross", "layer": True, "head": 0},
        {"kind": "head", "part": 3, "layer": 0, "head": 0}, {"kind": "head", "part": "x", "layer": 0.5, "head": 0},
    ],
)  # fmt: skip
def test_what_is_no_edit_is_refused(said: object) -> None:
    with pytest.raises(ConfigError, match="edit"):
        from_json(said)


@pytest.mark.parametrize(
    "edit",
    [
        HeadOff("decoder.crosswise", 0, 0), HeadOff("decoder.cross", 2, 0), HeadOff("decoder.cross", 0, 4),
        HeadOff("decoder.cross", -1, 0), EdgeOff("encoder.self", 0, 4, 0, 0), EdgeOff("encoder.self", 0, 0, -1, 0),
        EdgeOff("encoder.self", 0, None, 0, -1), NoResidual(0, "encoder", "cross_attn"),
        NoResidual(2, "decoder", "ffn"),
    ],
)  # fmt: skip
def test_what_a_model_lacks_cannot_be_edited(edit: Edit, tiny) -> None:
    with pytest.raises(ConfigError), edited(tiny("both"), [edit]):
        pass
