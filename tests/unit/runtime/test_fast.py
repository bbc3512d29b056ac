"""A fast model says what the plain one says: in every family's axes, whole and step by step, alone and in a batch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from regard.model import (
    Alibi,
    Learned,
    Model,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    make_classifier,
    make_language_model,
    make_model,
    watch,
)
from regard.runtime import FORMS, Form, furnish, make_fast, narrowed, rows
from regard.runtime import fast as fast_module
from regard.runtime.choice import Way
from regard.runtime.products import FastLinear

SIZES = {"vocab_size": 120, "d_model": 64, "n_heads": 4, "d_ff": 96, "max_len": 80}
AXES = {
    "gpt2": {"n_decoder_layers": 2, "norm_order": "pre", "positions": Learned(), "activation": "gelu_tanh"},
    "llama": {"n_decoder_layers": 2, "norm_order": "pre", "norm": "rms", "positions": Rope(), "activation": "silu",
              "gated_ffn": True, "n_kv_heads": 2, "tie_embeddings": False, "bias": "none"},
    "window": {"n_decoder_layers": 2, "norm_order": "pre", "positions": Rope(), "window": Window(size=6),
               "qk_norm": True},
    "alibi": {"n_decoder_layers": 1, "norm_order": "pre", "positions": Alibi()},
    "chapter": {"n_encoder_layers": 2, "n_decoder_layers": 2, "positions": Sinusoidal(), "head_bias": True},
    "t5": {"n_encoder_layers": 1, "n_decoder_layers": 2, "norm_order": "pre", "norm": "rms", "positions": Relative(),
           "bias": "none", "attn_scale": 1.0},
    "parallel": {"n_decoder_layers": 2, "norm_order": "parallel", "positions": Rope(fraction=0.5),
                 "activation": "gelu"},
}  # fmt: skip
TOLERANCES = {"fp32": 1e-5, "bf16": 0.08, "int8": 0.25}
"""Of logits whose standard deviation is about 1."""
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 0, 0, 0], [14, 15, 16, 17, 0, 0]])
REAL = SOURCE > 0


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(params=AXES)
def model(request: pytest.FixtureRequest) -> Model:
    made = make_language_model(TransformerConfig(**SIZES, **AXES[request.param])).eval()
    for parameter in made.parameters():
        parameter.add_(0.02 * torch.randn_like(parameter))  # biases and norms too
    return made


def start(model: Model, capacity: int = 0, some: slice = slice(None)) -> object:
    if not model.config.n_encoder_layers:
        return model.transformer.start(capacity=capacity)
    real = REAL[some]
    return model.transformer.start(model.transformer.encode(SOURCE[some], real=real), real, capacity=capacity)


def whole(model: Model, ids: Tensor, some: slice = slice(None)) -> Tensor:
    return model.logits(model.transformer.decode(ids, start(model, some=some))).float()


def steps(model: Model, ids: Tensor, some: slice = slice(None)) -> Tensor:
    state = start(model, 40, some)
    said = [model.logits(model.transformer.decode(part, state)).float() for part in ids.split([9, 1, 1, 1, 1, 1], 1)]
    return torch.cat(said, 1)


IDS = torch.randint(1, 120, (3, 14), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("form", FORMS)
def test_fast_is_plain_to_rounding(model: Model, form: Form) -> None:
    expected, fast = whole(model, IDS), make_fast(model, form)
    allowed = TOLERANCES[form] * max(1.0, float(expected.std()))
    assert (whole(fast, IDS) - expected).abs().max() < allowed
    assert (steps(fast, IDS) - expected).abs().max() < allowed
    assert torch.equal(whole(model, IDS), expected), "the plain model is what it was"


@pytest.mark.parametrize("form", FORMS)
def test_alone_as_in_a_batch(model: Model, form: Form) -> None:
    fast = make_fast(model, form)
    together = steps(fast, IDS)
    for row in range(3):
        some = slice(row, row + 1)
        assert (steps(fast, IDS[some], some) - together[some]).abs().max() < TOLERANCES[form] * float(together.std())


def test_rows_of_different_lengths_side_by_side(model: Model) -> None:
    fast, lengths = make_fast(model), torch.tensor([9, 4, 7])
    state, real = start(fast, 40), torch.arange(9) < lengths[:, None]
    fast.transformer.decode(IDS[:, :9].where(real, 0), state, real=real)
    said = torch.cat([fast.logits(fast.transformer.decode(IDS[:, t : t + 1], state)) for t in range(9, 12)], 1)
    for row, length in enumerate(lengths.tolist()):
        alone = torch.cat([IDS[row, :length], IDS[row, 9:12]])[None]
        assert (whole(model, alone, slice(row, row + 1))[0, -3:] - said[row]).abs().max() < 2e-5


def test_hypotheses_of_a_source_share_it() -> None:
    model = make_language_model(TransformerConfig(**SIZES, **AXES["chapter"])).eval()
    found = []
    for one in (model, make_fast(model)):
        state = start(one, 20)
        rows = IDS.repeat_interleave(2, 0)
        found.append([one.logits(one.transformer.decode(rows[:, t : t + 1], state)) for t in range(5)])
    assert all((a - b).abs().max() < 1e-5 for a, b in zip(*found, strict=True))


@pytest.fixture
def with_threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("few", [0, 8])
def test_threads_agree(
    model: Model, form: Form, few: int, with_threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefill of three rows and steps of three and one, by either kind of product; what the kernels do, to the bit."""
    if few and rows.absence() is not None:
        pytest.skip("there are no kernels here")
    monkeypatch.setattr(fast_module, "way_of", lambda form: Way(few=few))
    fast, said = make_fast(model, form), []
    for threads in (1, 2):
        with_threads(threads)
        said.append([steps(fast, IDS), steps(fast, IDS[:1], slice(0, 1))])
    for one, two in zip(*said, strict=True):
        assert (one - two).abs().max() < (1e-5 if form == "fp32" else TOLERANCES[form] * float(one.std()))
    if few and isinstance(model.config.positions, Learned):
        alone = [rows_alone[:, -5:] for _, rows_alone in said]
        assert torch.equal(*alone), "a step of one row is the kernels' alone, and their sums are one core's"


@pytest.mark.skipif(rows.absence() is not None, reason="there are no kernels here")
def test_attention_has_its_kernel_where_a_product_of_one_row_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of a product's ways is quicker says nothing of attention: a beam of 4 gave 30.2 sentences/s without it,
    38.9 with it (python bench/inference.py --work translation --engines "regard fp32", by turns)."""
    monkeypatch.setattr(fast_module, "way_of", lambda form: Way(few=0))
    calls, kernel = list[int](), fast_module.few_queries_attend
    monkeypatch.setattr(fast_module, "few_queries_attend", lambda q, *rest: calls.append(q.size(2)) or kernel(q, *rest))
    made = make_fast(make_language_model(TransformerConfig(**SIZES, **AXES["gpt2"])).eval())
    made.transformer.decode(SOURCE[:, :1], made.transformer.start(capacity=4))
    assert calls == [1] * 2


@pytest.mark.parametrize("form", FORMS)
def test_without_kernels_it_is_slower_and_right(model: Model, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = steps(make_fast(model, form), IDS)
    for module in ("choice", "fast", "products"):
        monkeypatch.setattr(f"regard.runtime.{module}.absence", lambda: "there is no Numba here")
    monkeypatch.setattr("regard.runtime.products.can_pack", lambda dtype: False)
    plain = make_fast(model, form)
    assert not any(
        layer.matrix or layer.packed is not None for layer in plain.modules() if isinstance(layer, FastLinear)
    )
    assert (steps(plain, IDS) - expected).abs().max() < TOLERANCES[form] * float(expected.std())


@pytest.mark.skipif(rows.absence() is not None, reason="there are no kernels here")
def test_whoever_watches_sees_what_runs() -> None:
    model = make_language_model(TransformerConfig(**SIZES, **AXES["gpt2"])).eval()
    names = ("decoder.layers.*.self_attn.*", "decoder.layers.*.ffn.*", "*.resid_out")
    seen = []
    for one in (model, make_fast(model)):
        with watch(one, *names) as found:
            steps(one, IDS)
        seen.append(found)
    assert set(seen[0]) == set(seen[1]) >= {f"decoder.layers.0.{name}" for name in ("self_attn.weights", "ffn.pre")}
    assert all((seen[0][name] - seen[1][name]).abs().max() < 1e-4 for name in seen[0] if "scores" not in name)


def test_an_edit_of_a_fast_model_is_the_edit_of_the_plain_one() -> None:
    model = make_language_model(TransformerConfig(**SIZES, **AXES["gpt2"])).eval()
    said = []
    for one in (model, make_fast(model)):
        with watch(one, "decoder.layers.0.self_attn.weights", edit=lambda name, w: w.roll(1, 1)):
            said.append(steps(one, IDS))
    assert (said[0] - said[1]).abs().max() < 1e-5 and (said[0] - steps(model, IDS)).abs().max() > 1e-3


@pytest.mark.parametrize("head", ["masked-lm", "pooler", "none", "tagger", "span"])
@pytest.mark.parametrize("form", FORMS)
def test_encoders_and_their_heads(head: str, form: Form) -> None:
    config = TransformerConfig(**SIZES, n_encoder_layers=2, activation="gelu", n_token_types=2, embed_norm=True)
    model = make_model(config, head, 3).eval()
    fast, results = make_fast(model, form), []
    for one in (model, fast):
        hidden = one.transformer.encode(SOURCE, real=REAL)
        made = one.logits(hidden) if head == "masked-lm" else hidden if head == "none" else one.head(hidden)
        results.append(made.float()[REAL] if made.ndim == 3 else made.float())
    assert (results[0] - results[1]).abs().max() < TOLERANCES[form] * max(1.0, float(results[0].std()))


@pytest.mark.parametrize("form", FORMS)
def test_a_classifier(form: Form) -> None:
    model = make_classifier(TransformerConfig(**SIZES, n_encoder_layers=2), 3).eval()
    said = [
        one.head(one.transformer.encode(SOURCE, real=REAL), REAL).float() for one in (model, make_fast(model, form))
    ]
    assert (said[0] - said[1]).abs().max() < TOLERANCES[form]


@pytest.mark.parametrize("form", FORMS)
def test_nan_is_not_lost(form: Form) -> None:
    model = make_language_model(TransformerConfig(**SIZES, **AXES["gpt2"])).eval()
    model.transformer.tokens.weight[7, 3] = torch.nan
    ids = IDS.where(IDS != 7, 8).index_fill(1, torch.tensor([12]), 7)
    fast = make_fast(model, "bf16" if form == "int8" else form)  # int8 weights have no NaN; its activations may
    if form == "int8":
        fast = make_fast(make_language_model(model.config).eval(), form)
        with watch(fast, "*.ffn.act", edit=lambda name, x: x.where(x != x.max(), torch.nan)):
            assert steps(fast, ids[:1])[:, -1].isnan().all()
        return
    assert steps(fast, ids)[:, -2:].isnan().all()


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_tensors_makes_the_same_model(model: Model, form: Form) -> None:
    tensors = narrowed(model, form)
    with torch.device("meta"):
        empty = make_language_model(model.config)
    assert torch.equal(steps(furnish(empty, tensors, form), IDS), steps(make_fast(model, form), IDS))


@pytest.mark.parametrize("form", ["plain", "fp32"])
def test_hypotheses_that_branch_say_what_each_would_say_alone(model: Model, form: str) -> None:
    """Two of each of three sources, of different lengths; from step to step from random ones, until a source leaves."""
    ours, n = model if form == "plain" else make_fast(model), torch.Generator().manual_seed(5)
    ids = torch.randint(3, 100, (3, 4), generator=n).repeat_interleave(2, 0)  # (6, 4)
    lengths = [4, 2, 3] if not model.config.n_encoder_layers else [4, 4, 4]
    texts = [ids[2 * i][: lengths[i]].tolist() for i in range(3) for _ in range(2)]
    real = torch.arange(4) < torch.tensor(lengths).repeat_interleave(2)[:, None]
    state, sources = start(ours, 20), [0, 1, 2]
    ours.transformer.decode(ids, state, real=real)
    for step in range(12):
        going = [0, 2] if step == 5 else list(range(len(sources)))
        left, sources = len(going) < len(sources), [sources[i] for i in going]
        rows = torch.tensor([2 * i + int(torch.randint(2, (), generator=n)) for i in going for _ in range(2)])
        tokens = torch.randint(3, 100, (len(rows), 1), generator=n)
        texts = [texts[row] + [int(token)] for row, token in zip(rows, tokens, strict=True)]
        state.branch(rows, torch.tensor(going) if left else None)
        said = ours.logits(ours.transformer.decode(tokens, state))[:, 0]
        alone = [
            whole(model, torch.tensor([text]), slice(source, source + 1))[0, -1]
            for source, text in zip((source for source in sources for _ in range(2)), texts, strict=True)
        ]
        torch.testing.assert_close(said, torch.stack(alone), atol=5e-5, rtol=0)


def test_an_encoder_in_float32_reads_without_numba() -> None:
    """A quarter of the time of a short text goes to importing it, and none of its kernels would be called."""
    script = (
        "import sys, torch\n"
        "from regard.model import TransformerConfig, make_model\n"
        "from regard.runtime import make_fast\n"
        "config = TransformerConfig(vocab_size=50, d_model=16, n_heads=2, d_ff=32, max_len=20, n_encoder_layers=2)\n"
        "fast = make_fast(make_model(config, 'masked-lm').eval())\n"
        "with torch.no_grad(): fast.logits(fast.transformer.encode(torch.ones(1, 3, dtype=torch.long)))\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
