"""The benchmarks' own machinery: rounds, medians, exponents; and that every engine computes what it is timed for."""

from __future__ import annotations

import argparse
import gzip
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[2] / "bench"

WORKER = """
import json, sys
engine, size = sys.argv[2], sys.argv[4]
if engine == "broken":
    raise SystemExit("no such library")
if engine == "endless":
    import time
    time.sleep(60)
print("a library says hello")
print(json.dumps({"tokens_per_second": {"quick": 30.0, "slow": 10.0}[engine], "warm_seconds": 0.0}))
"""


@pytest.fixture(autouse=True)
def _from_bench(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def test_an_engine_that_fails_or_hangs_leaves_the_others_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from side_by_side import alternately, medians

    script = tmp_path / "script.py"
    script.write_text(WORKER)
    arguments = argparse.Namespace(rounds=2, seconds=1.0, patience=0.5)
    found = alternately(str(script), ["slow", "broken", "endless", "quick"], "small", arguments)
    assert found == {"slow": [10.0, 10.0], "broken": [], "endless": [], "quick": [30.0, 30.0]}
    assert list(medians(found)) == ["quick", "slow"]
    told = capsys.readouterr().err
    assert "no such library" in told and "endless" in told


def test_the_exponent_of_a_power() -> None:
    from length import exponent

    lengths = [1024, 2048, 4096]
    assert exponent(lengths, [3 * length**1.5 for length in lengths]) == pytest.approx(1.5)


@pytest.mark.parametrize(
    "engine",
    ["regard", "plain", *(pytest.param(f"{name}transformers", marks=pytest.mark.slow) for name in ("", "x-"))],
)
def test_every_engine_learns_the_same_batches(
    engine: str, data_dir: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five steps on one batch: it begins as one who guesses, and then knows a little."""
    monkeypatch.setattr("regard.machine.speeds", lambda device: None)
    for name in ("keep_freed_memory", "longest_open", "open_attention_until"):  # what changes a whole process
        monkeypatch.setattr(f"regard.runtime.{name}", lambda *_: 0)
    if engine.endswith("transformers"):
        pytest.importorskip(engine.replace("-", "_"))
    data_dir("tinyshakespeare")
    import language_model as bench

    torch.manual_seed(0)
    batches, vocabulary = bench.real_batches("small")
    assert all(batch.ids.shape == (12, 64) and batch.documents is None for batch in batches)
    make = bench.ours if engine == "regard" else lambda *given: bench.peer(engine, *given)
    one, model = make([], "small", vocabulary)
    losses = [one(batches[0]) for _ in range(5)]
    assert abs(losses[0] - math.log(vocabulary)) < 0.6 and losses[-1] < losses[0] - 0.2, losses
    assert 0.78e6 < sum(p.numel() for p in model.parameters()) < 0.84e6, "the same architecture"


def test_the_form_of_a_poem() -> None:
    from poems import form_of

    quatrain = "床前看月光，疑是地上霜。舉頭望山月，低頭思故鄉。"
    assert form_of(quatrain) == form_of(quatrain.replace("。", "？", 1))
    assert form_of(quatrain).regular and form_of(quatrain).length == 5 and form_of(quatrain).rhymes
    assert not form_of(quatrain.replace("鄉", "人")).rhymes
    assert not form_of(quatrain.replace("山月", "月")).regular
    assert not form_of(quatrain[:-6]).regular and not form_of(quatrain[:-1]).regular
    assert form_of("一上，一下。一上，一下。").length is None


def test_samples_are_drawn_each_by_its_own_seed(model_dir: Callable[[str], Path]) -> None:
    """One seed given for a list is the seed of each, and twenty samples would be one."""
    from poems import write_poems

    assert len({*write_poems(str(model_dir("stories260k")), 3, seed=1, temperature=1.0)}) == 3


def test_real_poems_rhyme_and_the_same_with_other_ends_do_not(data_dir: Callable[[str], Path]) -> None:
    from poems import summary, with_ends_dealt_anew

    with gzip.open(data_dir("chinese-poetry") / "tang.tsv.gz", "rt", encoding="utf-8") as lines:
        poems = [line.rstrip("\n").split("\t")[2] for line, _ in zip(lines, range(2_000), strict=False)]
    dealt = with_ends_dealt_anew(poems, seed=1)
    assert sorted("".join(poems)) == sorted("".join(dealt))
    real, anew = summary(poems), summary(dealt)
    assert real["regular"] > 0.6 * len(poems)
    assert real["rhyme"] > 0.7 * real["rhyme_judged"] and anew["rhyme"] < 0.1 * anew["rhyme_judged"]


def test_every_engine_classifies_alike_and_learns_from_as_many_sentences(
    minilm: Path, data_dir: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a tiny BERT with the real vocabulary: the same logits, and updates of 32 sentences, or that on the average."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr("regard.machine.speeds", lambda device: None)
    for name in ("keep_freed_memory", "longest_open", "open_attention_until"):
        monkeypatch.setattr(f"regard.runtime.{name}", lambda *_: 0)
    monkeypatch.setenv("REGARD_DATA", str(data_dir("sst2").parent))
    import understanding as bench

    sizes = {"hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 32}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=30_522, **sizes))
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(tmp_path)
    rows = bench.read_sentences("train.tsv")[:640]
    texts, found = [text for text, _ in rows[:70]], {}
    for engine in (*bench.OURS[:1], *bench.PLAIN[:1], *bench.ALIKE[:1]):
        train, use = (bench.ours if engine == "regard" else bench.peer)(engine, str(tmp_path))
        found[engine], steps = use(texts), train(rows)
        counts = [next(steps) for _ in range(20)]
        assert abs(sum(counts) - 640) < 130, (engine, counts)
    first, *others = found.values()
    assert all(torch.allclose(first, other, atol=1e-5) for other in others) and first.std() > 1e-3
    assert {label for _, label in rows} == {0, 1}
