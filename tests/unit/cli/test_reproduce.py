"""`regard reproduce`: a recipe of the ledger run for real, recorded, and held against its record."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard import ledger
from regard.machine import Speeds

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def recipes(workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with one recipe, that of the workplace's run."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    shutil.copy(workplace / "run" / "recipe.toml", folder / "tiny.toml")
    (folder / "ledger.toml").write_text(
        '[tiny]\ntitle = "A tiny one"\nbeam = 1\ntests.test.data = ["test.en", "test.de"]\n'
    )
    monkeypatch.setattr(ledger, "RECIPES", folder)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return folder


@pytest.mark.whole
def test_a_rerun_gives_what_the_first_run_gave(
    command: Command, recipes: Path, workplace: Path, tmp_path: Path
) -> None:
    shutil.copytree(workplace / "run", tmp_path / "first")
    code, out, err = command("reproduce", "tiny", "--out", str(tmp_path / "first"), "--json", "--record")
    first = json.loads(out)
    assert code == 0 and first["inside"] is None and "recorded in" in err and "update" not in err, (
        "it was trained already"
    )
    evaluated = json.loads(command("evaluate", "run", "test.en", "test.de", "--beam", "1", "--json")[1])["metrics"]
    assert {row["metric"]: row["score"] for row in first["scores"]} == {
        name: evaluated[name]["score"] for name in ("bleu", "chrf")
    }
    code, out, err = command("reproduce", "tiny", "--out", str(tmp_path / "again"), "--json")
    again = json.loads(out)
    assert code == 0 and again["inside"] is True and "update 40" in err
    assert [row["score"] for row in again["scores"]] == [row["score"] for row in first["scores"]]


def test_a_score_outside_its_interval_is_said_and_exits_with_1(
    command: Command, recipes: Path, workplace: Path
) -> None:
    assert command("reproduce", "tiny", "--out", "run", "--record", "--quiet")[0] == 0
    path = recipes / "tiny.result.json"
    record = json.loads(path.read_text())
    record["figures"]["test"]["chrf"] |= {"low": 98.0, "high": 99.0}
    path.write_text(json.dumps(record))
    code, out, _ = command("reproduce", "tiny", "--out", "run", "--quiet")
    assert code == 1
    verdicts = {line.split()[1]: line for line in out.splitlines() if line.startswith("test ")}
    assert "NOT as recorded" in verdicts["chrf"] and "98 to 99" in verdicts["chrf"]
    assert "NOT" not in verdicts["bleu"] and "as recorded" in verdicts["bleu"]
    del record["figures"]["test"]["chrf"]  # a metric that the ledger asks for since the runs were recorded
    path.write_text(json.dumps(record))
    code, out, _ = command("reproduce", "tiny", "--out", "run", "--quiet")
    verdicts = {line.split()[1]: line for line in out.splitlines() if line.startswith("test ")}
    assert code == 0 and "nothing recorded" in verdicts["chrf"] and "nothing" not in verdicts["bleu"]


def test_what_cannot_be_compared_is_refused(command: Command, recipes: Path, workplace: Path) -> None:
    assert command("reproduce", "tiny", "--out", "run", "--record", "--quiet")[0] == 0
    code, _, err = command("reproduce", "tiny", "--out", "run", "--seed", "8")
    assert code == 2 and "of another recipe" in err and "seed = 8" in err
    recipe = (recipes / "tiny.toml").read_text()
    (recipes / "tiny.toml").write_text(recipe.replace('"dev.en", "dev.de"', '"test.en", "test.de"'))
    code, _, err = command("reproduce", "tiny", "--out", "run")
    assert code == 2 and "of other data" in err and "dev.de" in err
    (recipes / "tiny.toml").write_text(recipe)
    text = (recipes / "tiny.result.json").read_text()
    digest = json.loads(text)["data"]["dev.en"]
    (recipes / "tiny.result.json").write_text(text.replace(digest, "0" * 64))
    code, _, err = command("reproduce", "tiny", "--out", "run")
    assert code == 3 and "dev.en" in err and "not the one of the recorded runs" in err
    code, _, err = command("reproduce", "tinny")
    assert code == 2 and "did you mean tiny?" in err


def test_a_recipe_in_bfloat16_is_run_in_float32_where_that_is_quicker(
    command: Command, recipes: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a run in either is a run of the recipe: seeds differ by more than precisions."""
    written = (recipes / "tiny.toml").read_text().replace('dtype = "float32"', 'dtype = "bfloat16"')
    assert written.count('dtype = "bfloat16"') == 2  # whichever this machine had planned
    (recipes / "tiny.toml").write_text(written)
    for rates, out, said in (
        ((2e11, 1e9), "run", False), ((2e11, 1e9), "anew", True), ((2e11, 5e11), "run", False),
    ):  # fmt: skip
        table = Speeds("cpu", dict(zip(("float32", "bfloat16"), rates, strict=True)), 3e10, ())
        monkeypatch.setattr(ledger, "speeds", lambda device, table=table: table)
        code, _, err = command("reproduce", "tiny", "--out", out, "--quiet")
        assert code == 0 and ("trained in float32" in err) is said, err


def test_a_shipped_recipe_has_a_name_for_train_and_plan(command: Command, recipes: Path) -> None:
    code, out, _ = command("plan", "tiny", "--json")
    assert code == 0 and json.loads(out)["steps"] == 40
    code, _, err = command("plan", "tny")
    assert code == 2 and "did you mean tiny?" in err


FEW = """
task = "classification"
[data]
train = ["few/train.jsonl"]
[tokenizer]
vocab_size = 400
[model]
d_model = 16
n_heads = 2
d_ff = 24
n_encoder_layers = 1
[batch]
tokens = 600
[loop]
steps = 3
evaluate_every = 3
"""


@pytest.mark.whole
def test_a_classifier_is_recorded_beside_its_baselines(
    command: Command,
    recipes: Path,
    data_dir: Callable[[str], Path],
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Data that is made first, a test set of another form, and what a bag of words makes of the same labels."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines = (data_dir("sst2") / "test.tsv").read_text(encoding="utf-8").splitlines()[:60]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "labelled.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    held = [f"{i}\t{label}\t{text}" for i, (text, _, label) in enumerate(line.partition("\t") for line in lines[:40])]
    (tmp_path / "data" / "held.tsv").write_text("\n".join(["n\tlabel\ttext", *held, ""]), encoding="utf-8")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    (recipes / "few.toml").write_text(FEW)
    metrics = '["accuracy", "bag_of_words_accuracy", "majority_accuracy"]'
    (recipes / "ledger.toml").write_text(
        '[few]\ntitle = "Few labels"\nmade = { kind = "few-labels", table = "labelled.tsv", count = 30 }\n'
        f'tests.held = {{ data = ["held.tsv"], metrics = {metrics} }}\n'
    )
    out = str(tmp_path / "run")
    code, printed, err = command("reproduce", "few", "--out", out, "--record", "--json", "--quiet")
    assert code == 0, err
    scores = {row["metric"]: row["score"] for row in json.loads(printed)["scores"]}
    record = ledger.find_record("few")
    assert record is not None and [*record.figures["held"]] == [*scores] == json.loads(metrics)
    assert {*record.data} == {"few/train.jsonl", "held.tsv"}
    said = json.loads(command("evaluate", out, str(tmp_path / "data" / "held.tsv"), "--json", "--baseline",
                              str(tmp_path / "cache" / "regard" / "data" / "few" / "train.jsonl"))[1])  # fmt: skip
    assert {name: said["metrics"][name]["score"] for name in scores} == pytest.approx(scores)
