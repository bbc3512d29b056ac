"""bench/inference.py without its rarer peers: prompts to outputs at tiny sizes, limits, ratios, the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def _from_bench(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("REGARD_BENCH_SIZES", "tiny")


@pytest.fixture(scope="module")
def made_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def folder(made_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the models are, written once for this file."""
    pytest.importorskip("transformers")
    monkeypatch.setenv("REGARD_BENCH_FOLDER", str(made_folder))
    return made_folder


# ---------------------------------------------------------------- engines


def with_ctranslate2(*engines: str) -> list:
    return [*engines, pytest.param("CTranslate2 fp32", id="CTranslate2")]


def skip_absent(engine: str) -> None:
    if engine.startswith("CTranslate2"):
        pytest.importorskip("ctranslate2")


@pytest.mark.parametrize("engine", with_ctranslate2("regard plain", "regard fp32", "transformers fp32"))
def test_every_writer_says_what_the_reference_says(engine: str, folder: Path) -> None:
    skip_absent(engine)
    import inference as bench
    from inference_agree import writer_judge

    for work in ("gpt2", "gpt2-batch8", "prefill"):
        found = bench.RUNS[work](work, engine, 0.3)  # a difference of times, which few runs may turn round
        rows, length, count = bench.shapes(work)
        assert [len(ids) for ids in found["said"]] == [count if count > 1 else bench.JUDGED] * rows
        assert all(value > 0 for value in found["values"]) and len(found["values"]) == len(bench.MEASURES[work])
        judge = bench.judge_of(work)
        assert judge(found["said"]) == 1
    judge, wrong = writer_judge(bench.prompts(1, length)), [[(token + 1) % 300 for token in found["said"][0]]]
    assert judge(wrong) < 0.5
    assert len(set(found["said"][0])) > 4, "one that stammers would agree with any other that does"


@pytest.mark.parametrize("engine", with_ctranslate2("regard plain", "regard fp32", "transformers fp32"))
def test_every_translator_says_what_the_reference_says(engine: str, folder: Path) -> None:
    skip_absent(engine)
    import inference as bench

    found = bench.RUNS["translation"]("translation", engine, 0.0)
    assert [len(ids) for ids in found["said"]] == [25] * 8
    assert all(value > 0 for value in found["values"]) and len(found["values"]) == 3
    assert bench.judge_of("translation")(found["said"]) > 0.99
    assert len({tuple(ids) for ids in found["said"]}) > 2


@pytest.mark.whole
@pytest.mark.parametrize("engine", with_ctranslate2("regard fp32", "transformers fp32"))
def test_every_encoder_has_the_same_vectors(
    engine: str, folder: Path, minilm: Path, data_dir, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_absent(engine)
    monkeypatch.setenv("REGARD_DATA", str(data_dir("multi30k").parent))
    monkeypatch.setattr("inference_models.SENTENCES", 24)
    import inference as bench

    found = bench.RUNS["encoder"]("encoder", engine, 0.0)
    cosine, largest = bench.judge_of("encoder")(found["said"])
    assert cosine > 0.999999 and largest < 1e-5 and len(found["said"]) == 24
    shuffled = [found["said"][-1], *found["said"][:-1]]
    assert bench.judge_of("encoder")(shuffled)[0] < 0.9


def test_what_is_made_is_whole_or_absent(folder: Path) -> None:
    from inference_models import made

    def half(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        made("thing", half)
    assert not (folder / "thing").exists()
    assert made("thing", lambda path: path.write_text("whole")).read_text() == "whole"
    assert made("thing", half).read_text() == "whole"


def test_every_tensor_of_gpt2_has_a_place_in_llama_cpps_file(folder: Path) -> None:
    from inference_llama import theirs
    from inference_models import TINY, writer_folder
    from safetensors.numpy import load_file

    tensors = load_file(writer_folder() / "model.safetensors")
    found = dict(filter(None, (theirs(name.removeprefix("transformer."), one) for name, one in tensors.items())))
    assert len(found) == 12 * TINY.layers + 4 == len(tensors)
    assert found["blk.1.ffn_up.weight"].shape == (4 * TINY.width, TINY.width), "a row for each output"
    assert found["token_embd.weight"].shape == (TINY.vocabulary, TINY.width)


# ---------------------------------------------------------------- what is made of the numbers


def test_limits_are_those_of_the_known_machine() -> None:
    """Of performance.md: 71, 141 and 283 tokens a second by memory; 66 sentences a second at 200 GFLOP/s."""
    from inference_limits import Limits, Stack, translator_limits, writer_limits

    limits = Limits(35e9, {32: 200e9, 16: 430e9, 8: 860e9})
    stack = Stack(12 * 12 * 768**2, 50_257 * 768)
    decoding = [writer_limits(limits, width, stack, 1, 128, 128)[1] for width in (32, 16, 8)]
    assert decoding == pytest.approx([71, 141, 283], rel=0.01)
    greedy, beam, alone = translator_limits(limits, 32, 6, 512, 32_000, 26, 25, 64)
    assert greedy == pytest.approx(66, rel=0.03) and greedy / 4 < beam < greedy / 2
    assert alone == pytest.approx(1_000 * 25 * 38.4e6 * 4 / 35e9, rel=0.1), "the decoder, read 25 times, is most of it"
    assert limits.seconds(32, 0, 100e9) == 1 and limits.seconds(8, 35e9, 0) == 1
    whole, _ = writer_limits(limits, 32, stack, 1, 128, 128)
    assert whole < decoding[0], "the prompt takes time too"


def test_a_peer_below_85_percent_of_what_is_known_is_badly_set_up() -> None:
    from inference_limits import Limits
    from inference_table import MEASURES, badly_set_up

    _, decoding = MEASURES["gpt2"]
    assert badly_set_up("gpt2", decoding, "llama.cpp f16", 101.0, 1.0), "119 is known"
    assert not badly_set_up("gpt2", decoding, "llama.cpp f16", 101.3, 1.0)
    assert not badly_set_up("gpt2", decoding, "llama.cpp f16", 51.0, 0.5), "a machine of half the speed"
    assert not badly_set_up("gpt2", decoding, "regard bf16", 1.0, 1.0), "ours only counts less"
    assert not badly_set_up("gpt2", decoding, "llama.cpp q2_k", 1.0, 1.0), "of which nothing is known"
    alone = MEASURES["translation"][2]
    assert badly_set_up("translation", alone, "CTranslate2 int8", 174.0, 1.0), "147 ms are known, less is better"
    assert not badly_set_up("translation", alone, "CTranslate2 int8", 172.0, 1.0)
    quick, slow = Limits(70e9, {32: 450e9}), Limits(17.25e9, {32: 450e9})
    assert quick.gain == 1 and slow.gain == 0.5


@pytest.fixture
def found():
    from inference_limits import Limits
    from inference_table import Found, medians

    rounds = {
        "regard int8": [[200.0, 300.0], [260.0, 340.0], [240.0, 320.0]],
        "llama.cpp q8_0": [[120.0, 160.0]],
        "CTranslate2 int8": [[150.0, 40.0]],  # quick, but its second measure is far below what is known
        "transformers bf16": [[50.0, 60.0]],
        "llama.cpp f16": [],
    }
    most = {16: [100.0, 120.0], 8: [480.0, 640.0]}
    agrees = dict.fromkeys(rounds, "98.0%")
    return Found("gpt2", medians(rounds), Limits(35e9, {32: 200e9}), most, agrees)


def test_ratios_are_to_the_best_peer_that_counts(found) -> None:
    from dataclasses import replace

    assert found.values["regard int8"] == [240, 320] and "llama.cpp f16" not in found.values
    assert found.best_peer(0) == "CTranslate2 int8" and found.best_peer(1) == "llama.cpp q8_0"
    assert found.best_peer(0, 16) == "transformers bf16" and found.best_peer(0, 32) is None
    assert found.best_ours(0) == "regard int8" and found.ratio("regard int8", "CTranslate2 int8", 0) == 1.6
    unlike = replace(found, unlike=frozenset(["CTranslate2 int8"]))
    assert unlike.best_peer(0) == "llama.cpp q8_0", "one that computes something else beats nobody"


def test_the_table_says_what_was_found(found) -> None:
    from inference_table import table

    heads, _, *lines = table(found).splitlines()
    assert heads.startswith("| engine | whole, tokens/s | x same bits | of the limit | decoding alone, tokens/s |")
    assert lines[0] == "| transformers bf16 | 50 |  | 50% | 60 |  | 50% | 98.0% |"
    assert lines[1] == "| regard int8 | 240 | 1.60 | 50% | 320 | 2.00 | 50% | 98.0% |"
    assert "| 40 (badly set up) |" in lines[3]
    assert lines[-4:] == [
        "- whole: regard int8 is 1.60 x CTranslate2 int8, the best of the peers",
        "- decoding alone: regard int8 is 2.00 x llama.cpp q8_0, the best of the peers",
        "",
        "- goal, whole: regard int8 at least 1.15 x llama.cpp q8_0: 2.00 x, reached",
    ]


def test_a_goal_that_is_missed_says_what_share_of_the_limit_was_reached(found) -> None:
    from dataclasses import replace

    from inference_table import GOALS, MEASURES, goals

    values = {**found.values, "llama.cpp q8_0": [230.0, 160.0]}
    (line,) = goals(replace(found, values=values))
    assert line.endswith("1.04 x, missed, at 50% of what memory and arithmetic allow")
    assert goals(replace(found, values={"regard int8": [1.0, 1.0]})) == [], "a goal is against somebody"
    batch = {"regard bf16": [100.0, 1.0], "regard int8": [200.0, 1.0], "llama.cpp bf16": [150.0, 1.0]}
    (line,) = goals(replace(found, work="gpt2-batch8", values=batch, most={}))
    assert line == "goal, whole: regard int8 at least 1.25 x llama.cpp bf16: 1.33 x, reached", "the best of both"
    for work, some in GOALS.items():
        assert {name for name, *_ in some} <= {measure.name for measure in MEASURES[work]}


def test_less_is_better_where_it_is(found) -> None:
    from dataclasses import replace

    from inference_table import table

    values = {"regard fp32": [1.0, 2.0, 900.0], "transformers fp32": [4.0, 3.0, 600.0]}
    text = table(replace(found, work="load", values=values, most={}, agrees={}))
    assert "| regard fp32 | 1 | 4.00 | 2 | 1.50 | 900 | 0.67 |" in text


def test_outputs_that_differ_end_the_benchmark_or_count_for_nothing() -> None:
    from inference_agree import verdicts
    from inference_table import bits

    told, unlike = verdicts("gpt2", {"llama.cpp f32": 0.995, "llama.cpp q8_0": 0.8, "regard int8": 0.3}, bits, float)
    assert told == {"llama.cpp f32": "99.5%", "llama.cpp q8_0": "80.0%", "regard int8": "30.0%"}
    assert unlike == {"regard int8"}
    with pytest.raises(SystemExit, match="CTranslate2 fp32 agrees to 98"):
        verdicts("gpt2", {"CTranslate2 fp32": 0.98}, bits, float)
    with pytest.raises(SystemExit, match="not the same function"):
        verdicts("encoder", {"OpenVINO fp32": 0}, bits, lambda _: (0.999995, 2e-3))


def test_the_page_keeps_the_other_parts() -> None:
    from inference_table import PAGE, with_section

    page = with_section("", "encoder", "| a |\n")
    page = with_section(page, "gpt2", "| b |\n")
    assert page.startswith(PAGE) and page.index("| b |") < page.index("| a |"), "in the order of the works"
    again = with_section(page, "encoder", "| c |\n")
    assert "| a |" not in again and again.count("## ") == 2 and "| b |" in again
    assert with_section(again, "encoder", "| c |\n") == again


def test_batches_of_any_workers_give_each_text_its_own_vector(minilm: Path) -> None:
    import inference_peers as peers

    def ids_themselves(ids: np.ndarray, real: np.ndarray) -> np.ndarray:
        assert ((ids != 0) == (real == 1)).all()
        return np.stack([ids, ids**2], axis=-1).astype(np.float32)

    texts = [f"{'word ' * (i % 7)}number {i}" for i in range(3 * peers.BATCH // 2)]
    one, two = (peers.in_batches(ids_themselves, workers)(texts) for workers in (1, 2))
    alone = peers.in_batches(ids_themselves)(texts[5:6])
    assert np.allclose(one, two) and np.allclose(one[5], alone[0]) and np.allclose(np.linalg.norm(one, axis=1), 1)
