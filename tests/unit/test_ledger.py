"""The ledger: what ships is whole, what is recorded is judged rightly, and no document says anything else."""

from __future__ import annotations

import gzip
import importlib.util
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard import ledger
from regard.config import build
from regard.errors import ConfigError, DataError
from regard.hub.folder import describe_model
from regard.hub.packaged import model_path
from regard.model import TransformerConfig
from regard.tasks.parted import PythonSources

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ledger.names())
def test_a_shipped_recipe_is_one_with_its_data_and_tests(
    name: str,
    data_dir: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recipe, entry = ledger.named_recipe(name), ledger.find_entry(name)
    if not isinstance(entry.made, PythonSources):
        made = getattr(entry.made, "table", None) or getattr(entry.made, "questions", None)
        data_dir((made or recipe.data.train[0]).split("/")[0])
    if recipe.init_from:
        request.getfixturevalue("minilm")
    found = ledger.find_recipe(name, torch.device("cpu"))
    assert all(Path(file).is_file() for file in (*found.data.train, *found.data.dev))
    assert recipe.loop.minutes is None, "a slower machine would make fewer updates: a recipe of the ledger has steps"
    config = build(TransformerConfig, {**recipe.model, "vocab_size": recipe.tokenizer.vocab_size}, where=name)
    if recipe.init_from:
        theirs = describe_model(model_path(recipe.init_from)).config
        assert replace(config, vocab_size=theirs.vocab_size, dropout=0.0) == theirs, "the sizes of what it starts from"
    of_tests = {file for test in entry.tests.values() for file in test.data}
    origin = {recipe.init_from} if recipe.init_from else set()
    assert entry.tests and set(ledger.hash_data(name)) >= of_tests | origin


@pytest.mark.parametrize("name", ledger.names())
def test_a_record_is_of_the_recipe_and_its_figures_of_its_runs(name: str) -> None:
    if not (ledger.RECIPES / f"{name}.result.json").exists():
        return
    record, recipe = ledger.find_record(name), ledger.named_recipe(name)
    assert record is not None, f"{name}.toml has changed since: regard reproduce {name} --record"
    steps = recipe.loop.steps if recipe.loop.stop is None else recipe.loop.stop
    assert record.runs and all(run.updates == steps for run in record.runs)
    for test, found in record.figures.items():
        for metric, figure in found.items():
            scores = [run.scores[test][metric] for run in record.runs]
            low, high = ledger.interval(scores, metric)
            assert figure.score == pytest.approx(statistics.fmean(scores), abs=0.006)
            assert (figure.low, figure.high) == (pytest.approx(low, abs=0.006), pytest.approx(high, abs=0.006))


def test_only_named_recipes_lie_in_the_folder() -> None:
    files = {path.name.split(".")[0] for path in ledger.RECIPES.iterdir() if path.suffix in (".toml", ".json")}
    assert files == {*ledger.names(), "ledger"}


def test_the_interval_holds_the_next_run_as_often_as_it_says() -> None:
    """95 % of the draws of one more run from the same normal distribution, whatever its spread."""
    import numpy as np

    for n in (3, 4, 10):
        draws = np.random.default_rng(n).normal(30, 0.7, (4_000, n + 1))
        within = [low <= row[-1] <= high for row in draws for low, high in [ledger.interval(row[:-1].tolist(), "bleu")]]
        assert np.mean(within) == pytest.approx(0.95, abs=0.012)
    assert ledger.interval([30.0], "bleu") == (28.5, 31.5)
    assert ledger.interval([30.0, 31.0], "chrf") == (29.0, 32.0)
    assert ledger.interval([2.0], "loss") == pytest.approx((1.94, 2.06))


def test_an_unknown_name_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="did you mean multi30k-en-de-quick"):
        ledger.find_recipe("multi30k-en-de-quik", torch.device("cpu"))


def test_absent_data_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ledger.names():
        if isinstance(ledger.find_entry(name).made, PythonSources):
            continue  # every machine has that
        with pytest.raises(DataError, match="set REGARD_DATA=FOLDER"):
            ledger.find_recipe(name, torch.device("cpu"))


def test_the_published_setting_joins_pieces_and_cuts_no_word(data_dir: Callable[[str], Path]) -> None:
    """12,103 words of reference, as the published log says: the files are read and joined as its authors did."""
    test = ledger.find_entry("multi30k-en-de-wu2021").tests["test_2016"]
    folder = data_dir("multi30k") / "bpe-en-de"
    lines = gzip.decompress((folder / "test.2016.de.gz").read_bytes()).decode().splitlines()
    perfect = ledger.score(test, [line.replace("@@ ", "") for line in lines], lines, "de")
    assert perfect["bleu"]["score"] == pytest.approx(100) and "tok:none" in perfect["bleu"]["signature"]
    assert sum(len(line.replace("@@ ", "").split()) for line in lines) == 12_103
    worse = [line.replace("@@ ", "").replace(" .", ".") for line in lines]
    assert ledger.score(test, worse, lines, "de")["bleu"]["score"] < 95


@pytest.fixture
def results() -> object:
    spec = importlib.util.spec_from_file_location("results", CHECKOUT / "docs" / "results.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documents_are_what_the_ledger_says(results) -> None:
    assert (CHECKOUT / "docs" / "results.md").read_text(encoding="utf-8") == results.page(), "python docs/results.py"
    for readme in results.HEADS:
        text = (CHECKOUT / readme).read_text(encoding="utf-8")
        assert results.with_table(text, readme) == text, "python docs/results.py"


@pytest.mark.whole
def test_a_recipe_without_a_record_is_in_no_table(results) -> None:
    for name in ledger.names():
        in_tables = [f"`{name}`" in results.short_table(readme) for readme in results.HEADS]
        assert {*in_tables, f"## {name}\n" in results.page()} == {ledger.find_record(name) is not None}


def test_recording_replaces_a_seed_and_drops_what_no_longer_holds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ledger, "RECIPES", tmp_path)
    (tmp_path / "r.toml").write_text('seed = 1\n[data]\ntrain = ["a"]\n[loop]\nsteps = 5\n')

    def record(seed: int, score: float, data: str = "x") -> ledger.Record:
        scores = {"t": {"bleu": score}}
        run = ledger.Outcome(seed=seed, scores=scores, minutes=1, updates=5, parameters=9, machine={}, versions={},
                             date="2026-01-01")  # fmt: skip
        ledger.record_run("r", run, {"t": {"bleu": {"score": score, "signature": "s"}}}, {"a": data})
        found = ledger.find_record("r")
        assert found is not None
        return found

    record(1, 10.0)
    record(3, 11.0)
    two = record(1, 12.0)
    assert [(run.seed, run.scores["t"]["bleu"]) for run in two.runs] == [(1, 12.0), (3, 11.0)]
    assert two.figures["t"]["bleu"].score == 11.5
    assert [run.seed for run in record(2, 12.0, data="y").runs] == [2], "of other data, so not comparable"
    text = (tmp_path / "r.toml").read_text()
    (tmp_path / "r.toml").write_text("# a comment\n" + text.replace("seed = 1", "seed = 7"))
    assert ledger.find_record("r") is not None
    (tmp_path / "r.toml").write_text(text.replace("steps = 5", "steps = 6"))
    assert ledger.find_record("r") is None
    assert json.loads((tmp_path / "r.result.json").read_text())["runs"], "kept until another is recorded"
