"""Each formula of the chapter equals the module that computes it fast; and what the chapter claims of it is true."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.model import Alibi, Attention, Mask, Relative, Rope, Sinusoidal, TransformerConfig, attend, watch
from regard.model import equations as eq
from regard.model.cache import Step
from regard.model.equations import FORMULAS, Array
from regard.model.layers import ACTIVATIONS, Block, FeedForward, Where, make_norm
from regard.model.positions import make_positions, unturned

PROVED: set[str] = set()


def proves(*names: str) -> Callable[[Callable], Callable]:
    """The test that follows is about these formulas."""
    PROVED.update(names)
    return lambda test: test


def test_every_formula_has_a_test() -> None:
    assert set(FORMULAS) == PROVED


def test_every_formula_is_stated_and_documented() -> None:
    for name, formula in FORMULAS.items():
        assert formula.function is getattr(eq, name)
        assert formula.statement and inspect.getdoc(formula.function)
        assert formula.section.split()[0] in {f"2.{i}" for i in range(1, 9)} | {"3.1", "3.2", "5"}


def near(ours: Tensor | Array | float, theirs: Tensor | Array | float, tolerance: float = 1e-9) -> None:
    ours, theirs = (x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (ours, theirs))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=tolerance, rtol=0)


def random(*shape: int) -> Array:
    return np.random.standard_normal(shape)


def torched(*arrays: Array) -> tuple[Tensor, ...]:
    """As batches of one sequence under one head, (1, 1, T, d)."""
    return tuple(torch.from_numpy(array)[None, None] for array in arrays)


def config(**axes: object) -> TransformerConfig:
    sizes = {"vocab_size": 11, "d_model": 12, "n_heads": 4, "d_ff": 20, "n_decoder_layers": 1}
    return TransformerConfig(**{**sizes, **axes})


def lively(module: nn.Module) -> nn.Module:
    """In float64, every parameter random."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) / 2)
    return module


def mask(queries: int, keys: int, **how: object) -> Mask:
    return Mask(q_pos=torch.arange(queries)[None], k_pos=torch.arange(keys)[None], aligned=queries == keys, **how)


def matrices(attention: Attention) -> tuple[Array, Array, Array, Array]:
    """W_Q, W_K, W_V by heads and W_O, of an Attention without constant terms."""
    q, k, v, o = (layer.weight.detach().numpy().T for layer in (attention.q, attention.k, attention.v, attention.o))
    heads = attention.n_heads, attention.kv_heads, attention.kv_heads
    return *(np.stack(np.split(W, n, 1)) for W, n in zip((q, k, v), heads, strict=True)), o


# ------------------------------------------------------------------ 2.1 - 2.5 attention


@proves("embedding")
def test_embedding() -> None:
    E, ids = random(11, 12), [3, 0, 3]
    near(eq.embedding(E, ids), nn.functional.embedding(torch.tensor(ids), torch.from_numpy(E)))


@proves("project", "project_one")
def test_the_two_forms_of_a_projection_are_transposes() -> None:
    X, W = random(5, 12), [random(12, 3) for _ in range(3)]
    for t, x_t in enumerate(X):
        for one, rows in zip(eq.project_one(x_t, *(w.T for w in W)), eq.project(X, *W), strict=True):
            near(one, rows[t])


@proves("project")
def test_project_is_what_attention_projects() -> None:
    attention = lively(Attention(config(bias="none", n_heads=1)))
    X = random(5, 12)
    x = torch.from_numpy(X)[None]
    fast = attention.queries(x), *attention.keys_values(x)
    slow = eq.project(X, *(W[0] for W in matrices(attention)[:3]))
    for ours, theirs in zip(fast, slow, strict=True):
        near(ours[0, 0], theirs)


@proves("scores", "softmax", "attention")
def test_attention_fused_and_open() -> None:
    Q, K, V = random(5, 6), random(7, 6), random(7, 3)
    for kernel in ("fused", "open"):
        near(attend(*torched(Q, K, V), mask(5, 7), scale=6**-0.5, kernel=kernel)[0, 0], eq.attention(Q, K, V))
    near(eq.softmax(eq.scores(Q, K)), torch.from_numpy(Q @ K.T / math.sqrt(6)).softmax(-1))
    near(eq.scores(Q, K, 0.3), Q @ K.T * 0.3)


@proves("softmax")
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.floats(-700, 700), st.integers(0, 2**31))
def test_rows_of_alpha_sum_to_one_and_a_constant_changes_nothing(t: int, s: int, constant: float, seed: int) -> None:
    S = np.random.default_rng(seed).standard_normal((t, s)) * 30
    alpha = eq.softmax(S)
    assert (alpha >= 0).all()
    near(alpha.sum(-1), np.ones(t))
    near(eq.softmax(S + constant), alpha)


@proves("softmax")
def test_a_query_that_sees_no_key_gets_zero() -> None:
    S = np.array([[1.0, 2.0], [-np.inf, -np.inf]])
    near(eq.softmax(S)[1], np.zeros(2))
    assert eq.softmax(np.zeros((3, 0))).shape == (3, 0)


@proves("scores")
@pytest.mark.parametrize("d", [4, 64, 1024])
def test_variance_of_a_dot_product_grows_with_d_and_the_root_undoes_it(d: int) -> None:
    Q, K = random(200, d), random(200, d)
    assert np.var(Q @ K.T) == pytest.approx(d, rel=0.1)
    assert np.var(eq.scores(Q, K)) == pytest.approx(1, rel=0.1)


@proves("score_of_one", "weight_of_one", "attention_of_one")
def test_one_position_is_a_row_of_the_whole() -> None:
    Q, K, V = random(4, 6), random(5, 6), random(5, 3)
    for i, q_i in enumerate(Q):
        e_i = [eq.score_of_one(q_i, k_j) for k_j in K]
        near(e_i, eq.scores(Q, K)[i])
        near([eq.weight_of_one(e_i, j) for j in range(5)], eq.softmax(eq.scores(Q, K))[i])
        near(eq.attention_of_one(q_i, K, V), eq.attention(Q, K, V)[i])


@proves("head", "multi_head")
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_multi_head_with_query_heads_sharing_keys(kv_heads: int) -> None:
    attention = lively(Attention(config(bias="none", n_kv_heads=kv_heads)))
    X, M = random(5, 12), random(7, 12)
    x, m = torch.from_numpy(X)[None], torch.from_numpy(M)[None]
    W_Q, W_K, W_V, W_O = matrices(attention)
    near(
        attention(attention.queries(x), *attention.keys_values(m), mask(5, 7))[0],
        eq.multi_head(X, M, M, W_Q, W_K, W_V, W_O),
    )
    with watch(attention, "z") as seen:
        attention(attention.queries(x), *attention.keys_values(m), mask(5, 7))
    for h in range(4):
        near(seen["z"][0, h], eq.head(X, M, M, W_Q[h], W_K[h * kv_heads // 4], W_V[h * kv_heads // 4]))


@proves("multi_head")
@settings(max_examples=20, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 2**31))
def test_without_positions_self_attention_is_permutation_equivariant(order: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed).standard_normal
    X, W_Q, W_K, W_V, W_O = draw((6, 8)), draw((2, 8, 4)), draw((2, 8, 4)), draw((2, 8, 4)), draw((8, 8))
    shuffled = X[order]
    near(
        eq.multi_head(shuffled, shuffled, shuffled, W_Q, W_K, W_V, W_O),
        eq.multi_head(X, X, X, W_Q, W_K, W_V, W_O)[order],
    )


# ------------------------------------------------------------------ 2.6 positions


@proves("sinusoidal", "sinusoidal_split", "add_positions")
@pytest.mark.parametrize(("layout", "formula"), [("interleaved", eq.sinusoidal), ("split", eq.sinusoidal_split)])
def test_sinusoidal_positions_are_added(layout: str, formula: Callable[..., Array]) -> None:
    positions = make_positions(config(positions=Sinusoidal(layout=layout)), causal=True)
    e = random(9, 12)
    x = positions.embed(torch.from_numpy(e)[None], torch.arange(9)[None])[0]
    near(x, eq.add_positions(e, formula(9, 12)))
    assert formula(1, 12).sum() == 6  # position 0 is all sines 0 and cosines 1


@proves("shift")
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(0, 100))
def test_a_step_is_a_rotation_wherever_it_starts(t: int, k: int) -> None:
    p, R = eq.sinusoidal(t + k + 1, 8), eq.shift(k, 8)
    near(R @ p[t], p[t + k])
    near(R @ R.T, np.eye(8))


@proves("rope")
def test_rope_turns_by_position_and_leaves_only_distance() -> None:
    positions = make_positions(config(positions=Rope(theta=50.0), d_head=6), causal=True)
    X = random(9, 6)
    turn = positions.rotation(torch.arange(9)[None], *torched(X))
    near(turn(*torched(X))[0, 0], eq.rope(X, 50.0))
    q, k = np.tile(random(6), (9, 1)), np.tile(random(6), (9, 1))  # the same query and key at each place
    S = eq.rope(q) @ eq.rope(k).T
    for distance in range(-8, 9):
        near(np.diag(S, distance), np.full(9 - abs(distance), np.diag(S, distance)[0]))
    assert np.ptp(S) > 0.1


@proves("alibi")
@pytest.mark.parametrize("heads", [1, 2, 4, 8, 3, 6, 12])
def test_alibi(heads: int) -> None:
    positions = make_positions(config(positions=Alibi(), n_heads=heads, d_head=2), causal=False)
    pos = torch.arange(7)[None]
    near(positions.bias(pos, pos)(slice(0, 7))[0], eq.alibi(heads, 7), 1e-6)
    if heads == 8:  # the slopes that the paper prints
        near(-eq.alibi(8, 2)[:, 1, 0], 0.5 ** np.arange(1, 9))


@proves("relative", "relative_bucket")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 10), (32, 20), (16, 64)])
def test_relative(causal: bool, buckets: int, max_distance: int) -> None:
    scheme = Relative(buckets=buckets, max_distance=max_distance)
    positions = lively(make_positions(config(positions=scheme, n_encoder_layers=1), causal=causal))
    pos = torch.arange(24)[None]
    near(
        positions.bias(pos, pos)(slice(0, 24))[0],
        eq.relative(positions.weight.detach().numpy(), 24, max_distance, causal),
    )
    distances = range(-300, 301)
    slow = [eq.relative_bucket(n, 0, buckets, max_distance, causal) for n in distances]
    assert positions.bucket(torch.tensor(distances)).tolist() == slow
    past = slow[300:]
    assert past == sorted(past) and max(slow) == buckets - 1


# ------------------------------------------------------------------ 2.7 feed-forward, residuals, norms


@proves("layer_norm", "rms_norm")
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms(kind: str) -> None:
    norm = lively(make_norm(config(norm=kind, norm_eps=0.01)))
    X = random(5, 12) * 3 + 1
    gain = norm.weight.detach().numpy()
    if kind == "rms":
        near(norm(torch.from_numpy(X)), eq.rms_norm(X, gain, 0.01))
        near((eq.rms_norm(X, 1, 0) ** 2).mean(-1), np.ones(5))
    else:
        near(norm(torch.from_numpy(X)), eq.layer_norm(X, gain, norm.bias.detach().numpy(), 0.01))
        near(eq.layer_norm(X, 1, 0, 0).mean(-1), np.zeros(5))
        near(eq.layer_norm(X, 1, 0, 0).std(-1), np.ones(5))


@proves("relu", "gelu", "gelu_tanh", "silu")
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_activations(name: str) -> None:
    x = np.concatenate([np.linspace(-6, 6, 101), [-1e3, 1e3]])
    near(ACTIVATIONS[name](torch.from_numpy(x)), FORMULAS[name].function(x))


@proves("ffn", "gated_ffn")
@pytest.mark.parametrize("gated", [False, True])
def test_ffn_and_that_it_works_position_by_position(gated: bool) -> None:
    module = lively(FeedForward(config(gated_ffn=gated, activation="silu" if gated else "relu")))
    layers = [module.gate, module.up, module.down] if gated else [module.up, module.down]
    weights = [part.detach().numpy().T for layer in layers for part in (layer.weight, layer.bias)]
    formula = eq.gated_ffn if gated else eq.ffn
    X = random(5, 12)
    before = formula(X, *weights)
    near(module(torch.from_numpy(X)[None])[0], before)
    X[2] += 1
    moved = (formula(X, *weights) != before).any(-1)
    assert moved.tolist() == [False, False, True, False, False]


@proves("post_norm", "pre_norm")
@pytest.mark.parametrize("order", ["post", "pre"])
def test_a_block_is_two_residuals(order: str) -> None:
    block = lively(Block(config(norm_order=order, bias="none"), cross=False))
    X = random(6, 12)
    W_Q, W_K, W_V, W_O = matrices(block.self_attn)
    residual = eq.post_norm if order == "post" else eq.pre_norm

    def norm(module: nn.LayerNorm) -> eq.Map:
        return lambda X: eq.layer_norm(X, module.weight.detach().numpy(), module.bias.detach().numpy(), module.eps)

    where = Where(Step(pos=torch.arange(6)[None], mask=mask(6, 6)), unturned, None)
    up, down = block.ffn.up.weight.detach().numpy().T, block.ffn.down.weight.detach().numpy().T
    Y = residual(X, lambda X: eq.multi_head(X, X, X, W_Q, W_K, W_V, W_O), norm(block.self_attn_norm))
    Z = residual(Y, lambda Y: eq.ffn(Y, up, 0, down, 0), norm(block.ffn_norm))
    near(block(torch.from_numpy(X)[None], where)[0], Z)


@proves("parallel")
def test_parallel_sublayers_read_the_same() -> None:
    block = lively(Block(config(norm_order="parallel", bias="none"), cross=False))
    X = random(6, 12)
    W_Q, W_K, W_V, W_O = matrices(block.self_attn)
    norms = [
        lambda X, n=norm: eq.layer_norm(X, n.weight.detach().numpy(), n.bias.detach().numpy(), n.eps)
        for norm in (block.self_attn_norm, block.ffn_norm)
    ]
    where = Where(Step(pos=torch.arange(6)[None], mask=mask(6, 6)), unturned, None)
    up, down = block.ffn.up.weight.detach().numpy().T, block.ffn.down.weight.detach().numpy().T
    attention, ffn = (lambda X: eq.multi_head(X, X, X, W_Q, W_K, W_V, W_O)), (lambda X: eq.ffn(X, up, 0, down, 0))
    near(block(torch.from_numpy(X)[None], where)[0], eq.parallel(X, attention, ffn, *norms))


# ------------------------------------------------------------------ 2.8 masks


@proves("causal", "window", "padding", "documents")
def test_masks_are_drawn_as_the_formulas_say() -> None:
    everything = slice(0, 6)
    real, numbers = [True, True, False, True, True, False], [1, 1, 1, 2, 2, 3]
    draw = lambda **how: mask(6, 6, **how).draw(everything, everything)[0, 0].numpy()  # noqa: E731
    assert (draw(causal=True) == eq.causal(6)).all()
    assert (draw(causal=True, window=3) == (eq.causal(6) & eq.window(6, 3))).all()
    assert (np.broadcast_to(draw(real=torch.tensor([real])), (6, 6)) == eq.padding(6, real)).all()
    documents = torch.tensor([numbers])
    assert (draw(documents=(documents, documents)) == eq.documents(numbers)).all()


@proves("masked_scores", "masked_attention")
def test_the_future_has_weight_exactly_zero() -> None:
    Q, K, V = random(6, 4), random(6, 4), random(6, 4)
    weights = eq.softmax(eq.masked_scores(eq.scores(Q, K), eq.causal(6)))
    assert (weights[~eq.causal(6)] == 0).all()
    near(weights.sum(-1), np.ones(6))
    for kernel in ("fused", "open"):
        fast = attend(*torched(Q, K, V), mask(6, 6, causal=True), scale=0.5, kernel=kernel)[0, 0]
        near(fast, eq.masked_attention(Q, K, V, eq.causal(6)))
    near(eq.masked_attention(Q, K, V, eq.causal(6))[0], V[0])  # the first position sees itself alone


# ------------------------------------------------------------------ 3 and 5


@proves("cross_attention", "context_vector")
def test_cross_attention_is_the_same_function_with_other_keys() -> None:
    attention = lively(Attention(config(bias="none", n_heads=1)))
    S, H = random(3, 12), random(5, 12)
    W_Q, W_K, W_V, W_O = matrices(attention)
    s, h = torch.from_numpy(S)[None], torch.from_numpy(H)[None]
    fast = attention(attention.queries(s), *attention.keys_values(h), mask(3, 5))[0]
    near(fast, eq.cross_attention(S, H, W_Q[0], W_K[0], W_V[0]) @ W_O)
    one = np.eye(12)  # chapter 18's: no projections, keys that are values, one query
    near(eq.context_vector(S[1], H), eq.cross_attention(S, H, one, one, one)[1])
    near(eq.context_vector(S[1], H), eq.attention_of_one(S[1], H, H))


@proves("log_likelihood", "next_token_log_likelihood")
def test_log_likelihoods_are_minus_the_summed_cross_entropy() -> None:
    logits, y = random(5, 11) * 3, [3, 0, 7, 7, 10]
    torch_logits, torch_y = torch.from_numpy(logits), torch.tensor(y)
    cross_entropy = nn.functional.cross_entropy
    near(eq.log_likelihood(logits, y), -cross_entropy(torch_logits, torch_y, reduction="sum"))
    near(eq.next_token_log_likelihood(logits, y), -cross_entropy(torch_logits[:-1], torch_y[1:], reduction="sum"))


@proves("attention_cost")
@pytest.mark.parametrize("T", [8, 16, 32])
def test_attention_costs_the_square_of_the_length(T: int) -> None:
    q, k, v = torched(random(T, 4), random(T, 4), random(T, 4))
    with FlopCounterMode(display=False) as counter:
        attend(q, k, v, mask(T, T), scale=1.0, kernel="open")
    assert counter.get_total_flops() == 2 * eq.attention_cost(T, 4)  # a multiplication and an addition
    assert eq.attention_cost(2 * T, 4) == 4 * eq.attention_cost(T, 4)
