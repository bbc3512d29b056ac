"""Screen 3, Show the sum: the browser agrees with the model, whatever its architecture, or says that it does not."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Route, expect

from regard.hub.atomic import commit_folder
from regard.hub.folder import load_model, write_model
from regard.inspect.edits import from_json
from regard.inspect.embedded import page_of
from regard.inspect.scripts import Request
from regard.inspect.views import run
from regard.model import TransformerConfig, make_language_model
from regard.model import equations as eq
from regard.model.config import Alibi, Learned, NoPositions, Relative, Rope, Sinusoidal, Window

from .conftest import Opened, Served

PLACE = "screen=sum&text=A+man+rides+a+bicycle.&part=decoder.cross&layer=0&head=1&row=2"
SELF = PLACE.replace("decoder.cross", "decoder.self")
FORCED = f"{SELF}&target=Ein+Mann+steht."
"""The tiny translator hardly ever stops by itself."""

MADE: dict[str, dict[str, Any]] = {
    "the chapter's": {"positions": Sinusoidal(), "norm_order": "post", "embed_scale": 32**0.5},
    "Marian's waves": {"positions": Sinusoidal(layout="split"), "norm_order": "post", "activation": "silu"},
    "T5's": {"positions": Relative(buckets=8, max_distance=16), "norm": "rms", "norm_order": "pre", "bias": "none",
             "attn_scale": 1.0, "gated_ffn": True, "activation": "gelu_tanh", "logit_scale": 32**-0.5},
    "ALiBi, parallel": {"positions": Alibi(), "norm_order": "parallel", "activation": "gelu", "n_encoder_layers": 0},
    "grouped, windowed": {"positions": NoPositions(), "norm_order": "pre", "window": Window(size=3), "n_kv_heads": 2,
                          "qk_norm": True, "n_encoder_layers": 0},
    "RoPE on half": {"positions": Rope(fraction=0.5), "norm_order": "parallel", "n_encoder_layers": 0},
    "learned": {"positions": Learned(), "norm_order": "post", "embed_norm": True, "activation": "gelu"},
}  # fmt: skip
"""Architectures with random weights, large enough that every part of the sum counts."""

CHECKS = """async () => {
  const { gatherFacts } = await import('./page/facts.js');
  const { stepsOf } = await import('./page/steps.js');
  const [model, view, found] = [regard.store.get('model'), regard.store.get('view'), []];
  for (const part of model.parts) {
    const rows = view[part.queries].tokens.length;
    for (let layer = 0; layer < part.layers; layer++) for (let head = 0; head < part.heads; head++)
      for (const row of new Set([0, rows >> 1, rows - 1])) {
        const pivot = { part: part.name, layer, head, row, key: null };
        const facts = await gatherFacts(regard.source, model, view, pivot);
        for (const { id, checks } of stepsOf(facts))
          for (const one of checks) found.push({ step: id, ...pivot, ...one });
      }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def made(
    serve: Callable[..., Served], workplace: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Served]:
    """`made("T5's")` is a random model of that architecture, with the tiny translator's vocabulary."""
    origin = load_model(workplace / "run")
    parent, vocabulary = tmp_path_factory.mktemp("made"), origin.model.config.vocab_size

    def make(name: str) -> Served:
        sizes = {"vocab_size": vocabulary, "d_model": 32, "n_heads": 4, "d_ff": 48, "max_len": 64}
        config = TransformerConfig(**{**sizes, "n_encoder_layers": 2, "n_decoder_layers": 2, **MADE[name]})
        model = make_language_model(config)
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    parameter.normal_(float(path.endswith("norm.weight")), 0.3)
                elif "tokens" not in path:
                    parameter.mul_(2.5)
        translates = {"task": "translation", "languages": ["en", "de"]}
        about = translates if config.n_encoder_layers else {"task": "language-model"}
        folder = parent / re.sub(r"\W", "_", name)
        commit_folder(folder, lambda place: write_model(place, model, origin.tokenizer, about))
        return serve(folder)

    return make


@pytest.fixture
def see(visit: Callable[..., Opened]) -> Callable[..., Opened]:
    """`visit`, and what the screen fetches is drawn."""

    def open_page(served: Served, place: str) -> Opened:
        opened = visit(served, place)
        opened.until("document.querySelector('regard-sum').dataset.drawn !== undefined")
        opened.wait()
        return opened

    return open_page


def agrees(opened: Opened) -> list[dict[str, Any]]:
    """All checks of the page at many pivots; none may differ."""
    found: list[dict[str, Any]] = opened.page.evaluate(CHECKS)
    assert [check for check in found if not check["agree"]] == []
    return found


@pytest.mark.parametrize("name", MADE)
def test_the_browser_computes_the_same(see: Callable[..., Opened], made: Callable[..., Served], name: str) -> None:
    opened = see(made(name), "screen=sum&text=A+man+rides")
    steps = {check["step"] for check in agrees(opened)}
    assert {"softmax", "sum", "concat", "out", "logits"} <= steps
    assert ("bias" in steps) == (name in ("T5's", "ALiBi, parallel"))
    assert ("turn" in steps) == (name == "RoPE on half") and ("embed" in steps) == ("norm_order" in MADE[name] and
           MADE[name]["norm_order"] == "post")  # fmt: skip


def test_trained_models_too(
    see: Callable[..., Opened], translator: Served, language_model: Served, serve: Callable[..., Served], minilm: Path
) -> None:
    assert len(agrees(see(translator, PLACE))) > 100
    grouped = see(language_model, "screen=sum&text=Once+upon&part=decoder.self&layer=1&head=5&row=1")
    assert {"turn", "norm", "softmax"} <= {check["step"] for check in agrees(grouped)}
    expect(grouped.page.locator("[data-step=qkv] .words")).to_contain_text("2 heads use key head 3")
    reader = see(serve(minilm), "screen=sum&text=Two+dogs+run")
    assert {"embed", "softmax", "residual"} <= {check["step"] for check in agrees(reader)}
    expect(reader.page.locator("[data-step=next] .words")).to_be_attached()


def test_every_badge_is_green_and_a_wrong_number_makes_it_red(see: Callable[..., Opened], translator: Served) -> None:
    opened = see(translator, PLACE)
    expect(opened.page.locator(".badge.agrees")).to_have_count(opened.page.locator(".badge").count())
    assert opened.page.locator(".badge").count() >= 8
    opened.page.route("**/tensor?*", lambda route: tamper(route, "decoder.layers.0.cross_attn.weights"))
    opened.page.reload()
    opened.wait()
    expect(opened.page.locator(".badge.differs")).to_have_count(1)
    red = opened.page.locator("[data-step=softmax] .badge.differs")
    expect(red).to_contain_text("0.25 from the server")
    mine = float(re.search(r": ([\d.e-]+) here", red.text_content() or "")[1])  # type: ignore[index]
    view = run(translator.model, Request(texts=("A man rides a bicycle.",)))
    assert mine == pytest.approx(view.tensor("decoder.layers.0.cross_attn.weights")[1, 2, 0], abs=1e-5)
    expect(opened.page.locator(".rail [data-to=softmax] .differs")).to_have_text("✗")


def tamper(route: Route, name: str) -> None:
    """Send the tensor on with 0.25 where head 2's first number of the row was."""
    answer = route.fetch()
    body = bytearray(answer.body())
    for entry in json.loads(answer.headers["x-tensors"]):
        if entry["name"] == name:
            _, rows, keys = entry["shape"]
            struct.pack_into("<f", body, entry["offset"] + 4 * rows * keys, 0.25)
    route.fulfill(response=answer, body=bytes(body))


ARITHMETIC = """async ({ q, k, v, gain, shift, mask, bias, x, angles }) => {
  const m = await import('./page/maths.js');
  const [K, V] = [k, v].map((data) => m.matrixOf(Float64Array.from(data), 5, 8));
  const sigmas = ['relu', 'gelu', 'gelu_tanh', 'silu'];
  const e = m.scoreRow(q, K, 0.5, bias, mask), alpha = m.softmaxRow(e), turned = m.turn(q, angles);
  return {
    e: e.map((one) => (one === -Infinity ? null : one)), alpha, z: m.weightedSum(alpha, V),
    nothing: m.softmaxRow([-Infinity, -Infinity]),
    layer: m.layerNorm(q, gain, shift, 1e-5), rms: m.rmsNorm(q, gain, 1e-5),
    waves: m.sinusoid(37, 8), split: m.sinusoid(37, 8, 10000, 'split'), turned, back: m.turn(turned, angles, -1),
    ...Object.fromEntries(sigmas.map((name) => [name, x.map((one) => m.activate(name, one))])),
  };
}"""


def test_the_browsers_arithmetic_is_the_chapters(see: Callable[..., Opened], translator: Served) -> None:
    """maths.js against model/equations.py, function by function."""
    rng = np.random.default_rng(0)
    q, k, v, gain, shift = (rng.normal(size=shape) for shape in ((8,), (5, 8), (5, 8), (8,), (8,)))
    mask, bias = np.array([1, 1, 0, 1, 1]), rng.normal(size=5)
    arrays = {"q": q, "k": k.ravel(), "v": v.ravel(), "gain": gain, "shift": shift, "mask": mask, "bias": bias}
    given = {name: array.tolist() for name, array in arrays.items()}
    given |= {"x": [-7.5, -3, -2.4, -0.3, 0, 0.2, 1, 2.6, 8], "angles": [0.3, 1.1, 2.0]}
    found = see(translator, PLACE).page.evaluate(ARITHMETIC, given)
    e = np.where(mask == 1, eq.scores(q[None], k, 0.5)[0] + bias, -np.inf)
    x = np.array(given["x"])
    expected = {
        "alpha": eq.softmax(e[None])[0],
        "z": eq.masked_attention(q[None], k, v, mask[None] == 1, bias=bias, scale=0.5)[0],
        "nothing": np.zeros(2), "layer": eq.layer_norm(q[None], gain, shift, 1e-5)[0],
        "rms": eq.rms_norm(q[None], gain, 1e-5)[0], "waves": eq.sinusoidal(38, 8)[37],
        "split": eq.sinusoidal_split(38, 8)[37], "back": q,
        "turned": [*eq.rope(np.stack([q[:6]] * 2), speed=[0.3, 1.1, 2.0])[1], *q[6:]],
        **{name: getattr(eq, name)(x) for name in ("relu", "gelu", "gelu_tanh", "silu")},
    }  # fmt: skip
    assert found["e"] == [None if np.isneginf(one) else pytest.approx(one, abs=1e-12) for one in e]
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12, err_msg=name)


def test_every_formula_of_the_chapter_can_be_shown(see: Callable[..., Opened], translator: Served) -> None:
    page = see(translator, PLACE).page
    statements = {name: formula.statement for name, formula in eq.FORMULAS.items()}
    drawn = page.evaluate("""async (statements) => {
      const { mathml } = await import('./page/formulas.js');
      return Object.fromEntries(Object.entries(statements).map(([name, latex]) => [name, mathml(latex).outerHTML]));
    }""", statements)  # fmt: skip
    assert [name for name, html in drawn.items() if "\\" in html or html.count("<m") < 4] == []
    assert "<msqrt><msub><mi>d</mi><mi>k</mi></msub></msqrt>" in drawn["score_of_one"]
    assert "<munderover><mo>∑</mo>" in drawn["context_vector"] and drawn["masked_scores"].count("<mtr>") == 2
    for latex in (r"\unknown", r"\begin{matrix}a\end{matrix}", r"\frac{a"):
        wrong = "async (latex) => (await import('./page/formulas.js')).mathml(latex) && null"
        with pytest.raises(Exception, match="a formula has"):
            page.evaluate(wrong, latex)


def test_walking_from_card_to_card(see: Callable[..., Opened], translator: Served) -> None:
    opened = see(translator, PLACE)
    page = opened.page
    places = page.locator(".step-card").evaluate_all("cards => cards.map((card) => card.dataset.step)")
    assert places[0] == "input" and places[-1] == "logits" and page.get_by_role("button", name="‹ Back").is_disabled()

    def here() -> str:
        lit, entry = page.locator(".step-card.current"), page.locator(".rail [aria-current=step]")
        assert lit.count() == 1 and entry.get_attribute("data-to") == lit.get_attribute("data-step")
        return str(lit.get_attribute("data-step"))

    page.get_by_role("button", name="Next ›").click()
    assert here() == places[1] and page.evaluate("document.activeElement.dataset.step") == places[1]
    page.keyboard.press("n")
    page.keyboard.press("b")
    page.keyboard.press("n")
    assert here() == places[2]
    page.locator(".rail button").last.click()
    assert here() == "logits" and page.get_by_role("button", name="Next ›").is_disabled()
    expect(page.locator(".step-card.current")).to_be_in_viewport()
    page.keyboard.press("]")
    opened.wait()
    assert here() == "logits", "another head, the same step"


def test_a_key_is_chosen_and_its_numbers_are_plugged_in(see: Callable[..., Opened], translator: Served) -> None:
    opened = see(translator, PLACE)
    view = run(translator.model, Request(texts=("A man rides a bicycle.",)))
    scores = view.tensor("decoder.layers.0.cross_attn.scores")[1, 2]
    opened.page.locator("[data-step=scores] button.bar-line").nth(3).click()
    assert (opened.get("key"), opened.get("locked")) == (3, True)
    plugged = opened.page.locator("[data-step=scores] .plugged math")
    expect(plugged).to_contain_text("e3,4=")
    result = (plugged.text_content() or "").split("=")[-1].replace("−", "-")
    assert float(result) == pytest.approx(scores[3], abs=5e-3)
    assert opened.page.evaluate("document.activeElement.dataset.act") == "scores|0|3", "the focus stays"
    opened.page.locator("[data-step=sum] .strips button").nth(1).click()
    assert opened.get("key") == 1
    opened.page.locator("[data-step=concat] button.bar-line").nth(0).click()
    assert opened.get("head") == 0
    opened.page.locator("[data-step=qkv]").get_by_role("button", name="Table").click()
    row = opened.page.locator("[data-step=qkv] .table-box").nth(1).locator("tbody tr").nth(1)
    numbers = row.locator("td").all_text_contents()
    k = view.tensor("decoder.layers.0.cross_attn.k")[0, 1]
    np.testing.assert_allclose([float(one.replace("−", "-")) for one in numbers], k, rtol=1e-3)


def test_what_is_hidden_is_struck_out(see: Callable[..., Opened], translator: Served) -> None:
    opened = see(translator, FORCED)
    mask, tokens = opened.page.locator("[data-step=mask]"), opened.get("view")["target"]["tokens"]
    expect(mask.locator(".struck")).to_have_count(len(tokens) - 3)
    assert mask.locator(".bar-number").all_text_contents()[3:] == ["−∞"] * (len(tokens) - 3)
    opened.set(row=len(tokens) - 1)
    opened.wait()
    expect(mask.locator(".words")).to_contain_text("stands last")


def test_the_numpy_program_gives_the_models_numbers(
    see: Callable[..., Opened], made: Callable[..., Served], tmp_path: Path
) -> None:
    for name in ("T5's", "grouped, windowed"):
        opened = see(made(name), "screen=sum&text=A+man+rides&part=decoder.self&layer=1&head=2&row=2")
        opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.page.get_by_role("button", name="Copy as NumPy").click()
        expect(opened.page.get_by_text("Copied.")).to_be_visible()
        program = opened.page.evaluate("navigator.clipboard.readText()")
        assert program == opened.page.locator(".numpy pre").text_content()
        (tmp_path / "sum.py").write_text(program, encoding="utf-8")
        done = subprocess.run([sys.executable, tmp_path / "sum.py"], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("the model computed the same\n") and "alpha = 0." in done.stdout
        (tmp_path / "sum.py").write_text(program.replace("scale = ", "scale = 1.5 * "), encoding="utf-8")
        assert subprocess.run([sys.executable, tmp_path / "sum.py"], capture_output=True, check=False).returncode == 1
        opened.page.get_by_role("button", name="Close").click()


@pytest.mark.parametrize(
    ("switch", "edit"),
    [
        ("unscaled", {"kind": "unscaled"}),
        ("unmasked", {"kind": "unmasked"}),
        ("no-positions", {"kind": "no-positions"}),
        ("head", {"kind": "head", "part": "decoder.self", "layer": 0, "head": 1}),
        ("no-residual", {"kind": "no-residual", "layer": 0, "stack": "decoder", "sublayer": "self_attn"}),
    ],
)
def test_what_each_piece_is_for(
    see: Callable[..., Opened], translator: Served, switch: str, edit: dict[str, Any]
) -> None:
    opened = see(translator, SELF)
    plain = run(translator.model, Request(texts=("A man rides a bicycle.",)))
    assert plain.target is not None and plain.target.writes is not None
    prefix = tuple(written.id for written in plain.target.writes if written)
    held = run(translator.model, Request(texts=plain.request.texts, prefix=prefix, edits=(from_json(edit),)))
    free = run(translator.model, Request(texts=plain.request.texts, edits=(from_json(edit),)))
    button = opened.page.locator(f"[data-switch={switch}]")
    button.click()
    result = opened.page.locator(".switch-result")
    expect(result.locator(".pairs")).to_be_visible()
    shown = [float(one.split("\u202f")[0]) for one in result.locator("td:last-child .bar-number").all_text_contents()]
    before, after = (view.tensor("decoder.layers.0.self_attn.weights")[1, 2] for view in (plain, held))
    most = np.argsort(-np.maximum(before, after), kind="stable")[:12]
    kept = most[np.maximum(before, after)[most] > 0]
    np.testing.assert_allclose(np.sort(shown), np.sort(100 * after[kept]), atol=0.51)
    texts = result.locator(".written").all_text_contents()
    assert texts == [text or "∅" for text in (plain.text, free.text)]
    same = "the same" if plain.text == free.text else "another one"
    expect(result.get_by_text("The output is")).to_have_text(f"The output is {same}.")
    opened.page.keyboard.press("]")
    opened.wait()
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(result.locator(".pairs")).to_have_count(0)
    assert opened.get("edits") == [], "the page's own edits are let be"


def test_an_encoder_has_no_mask_to_take_away(see: Callable[..., Opened], classifier: Served) -> None:
    opened = see(classifier, "screen=sum&text=Who+was+it")
    switches = opened.page.locator(".switch").evaluate_all("all => all.map((one) => one.dataset.switch)")
    assert "unmasked" not in switches and len(switches) == 4
    opened.page.locator("[data-switch=head]").click()
    expect(opened.page.locator(".output-line .labels")).to_have_count(2)


def test_a_changed_model_is_checked_as_it_is_changed(see: Callable[..., Opened], translator: Served) -> None:
    at, off = {"part": "decoder.self", "layer": 0}, {"kind": "no-residual", "layer": 0, "stack": "decoder"}
    edge = {"kind": "edge", **at, "query": 2}
    for edits in (
        [{"kind": "head", **at, "head": 1}, {"kind": "unscaled"}],
        [{**edge, "head": 1, "key": 1}, {**edge, "head": None, "key": 0}],
        [{"kind": "unmasked"}, {"kind": "no-positions"}],
        [{**off, "sublayer": "self_attn"}],
        [{**off, "sublayer": "ffn"}],
    ):
        opened = see(translator, f"{FORCED}&edits={json.dumps(edits)}")
        assert opened.get("view")["edited"] and len(agrees(opened)) > 50


def test_an_exported_page_shows_the_sum_without_a_server(
    see: Callable[..., Opened], translator: Served, tmp_path: Path
) -> None:
    view = run(translator.model, Request(texts=("A man rides a bicycle.",)))
    (tmp_path / "page.html").write_text(page_of(translator.model, [view], mark="0"), encoding="utf-8")
    file = Served((tmp_path / "page.html").as_uri(), translator.model)
    opened = see(file, "screen=sum&part=decoder.cross&row=1")
    expect(opened.page.locator(".badge.agrees").first).to_be_visible()
    assert opened.page.locator(".badge.differs").count() == 0 and opened.page.locator(".badge").count() >= 8
    opened.page.locator("[data-switch=head]").click()
    expect(opened.page.get_by_role("alert")).to_contain_text("This needs the running model")


MOVE = """async (patch) => {
  const cards = document.querySelector('.walk-cards');
  const drawn = new Promise((done) => new MutationObserver(done).observe(cards, { childList: true }));
  regard.store.set(patch);
  await drawn;
  await new Promise(requestAnimationFrame);
}"""


def test_another_pivot_is_drawn_at_once(see: Callable[..., Opened], language_model: Served) -> None:
    """The cards that are looked at within 100 ms of the page's own thread; the clock's would be those of other work."""
    opened = see(language_model, "screen=sum&text=Once+upon+a+time&part=decoder.self&layer=1&head=1&row=1")
    session = opened.page.context.new_cdp_session(opened.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    times = list[float]()
    for patch in ({"row": 5}, {"head": 4}, {"layer": 2}, {"key": 1}, {"row": 30}):
        start = spent()
        opened.page.evaluate(MOVE, patch)
        times.append(spent() - start)
        opened.wait()
        opened.page.wait_for_timeout(300)
    assert max(times) < 0.1, times
