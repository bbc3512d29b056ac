"""`regard train`: what it understands, what it leaves behind, and that its recipe is the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.config import load_toml

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("", 2, "nothing to train on"),
        ("translatoin train.en train.de", 2, "did you mean translation?"),
        ("divination x", 2, "unknown task"),
        ("classification x.tsv", 3, "no such file"),
        ("translation a b c", 2, "3 files"),
        ("translation train.en train.de --columns 1", 2, "--columns en,de"),
        ("translation train.en train.de --set optim.clap=1", 2, "did you mean clip?"),
        ("translation train.en train.de --set optim.lr", 2, "model.n_heads=8"),
        ("translation train.en train.de --minutes 0", 2, "more than 0"),
        ("translation train.en train.de --minutes nan", 2, "more than 0"),
        ("translation train.en train.de --minutes inf", 2, "more than 0"),
        ("translation train.en train.ed", 3, "train.de"),
        ("translation train.en dev.de", 3, "400 and 40 lines"),
        ("absent.toml", 2, "cannot read the file"),
        ("translation train.en train.de --tag bt", 2, "--extra SRC TGT"),
        ("translation train.en train.de --from absent", 4, "there is no model folder"),
        ("translation absent.en absent.de", 3, "where relative paths begin"),
        ("translation train.en train.de --resume", 2, "leave out --resume"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_exit_code(command: Command, words: str, code: int, says: str) -> None:
    got, out, err = command("train", *words.split(), "--out", "nowhere")
    assert (got, out) == (code, "") and says in err and "Traceback" not in err


def test_a_run_is_never_mixed_with_another(command: Command) -> None:
    code, _, err = command("train", "run/recipe.toml", "--out", "run")
    assert code == 2 and "already holds a run" in err
    code, _, err = command("train", "translation", "dev.en", "dev.de", "--out", "run", "--resume")
    assert code == 2 and "train.en train.de" in err


def test_stdout_is_one_json_object_and_stderr_tells_the_rest(workplace: Path) -> None:
    report = json.loads((workplace / "trained.json").read_text())
    assert (report["task"], report["model"], report["steps"]) == ("translation", "run", 40)
    assert report["reason"] == "all steps are done" and report["tokens_per_second"] > 0 < report["share_of_peak"]
    told = (workplace / "trained.err").read_text()
    assert f"update 40: development loss {report['dev_loss']:.3f}" in told
    assert "400 pairs: under 1,000" in told and "checks of the data passed" in told and "expected:" in told
    assert "repeat an earlier pair" not in told, "a check that passed is only counted"


def test_what_a_run_leaves(workplace: Path) -> None:
    run = workplace / "run"
    assert {"recipe.toml", "run.jsonl", "curves.svg", "checkpoints", "best", "latest"} <= {
        p.name for p in run.iterdir()
    }
    events = [json.loads(line) for line in (run / "run.jsonl").read_text().splitlines()]
    assert (events[0]["event"], events[-1]["event"]) == ("start", "end")
    steps = [event for event in events if event["event"] == "step"]
    assert steps[-1]["train_loss"] < steps[0]["train_loss"] - 0.5, "it has not learned anything"
    assert [event["step"] for event in events if event["event"] == "dev"] == [20, 40]


def test_every_flag_is_a_field_of_the_recipe_and_set_has_the_last_word(command: Command, workplace: Path) -> None:
    recipe = load_toml(workplace / "run" / "recipe.toml")
    assert recipe["data"]["dev"] == ["dev.en", "dev.de"]
    assert (recipe["model"]["d_model"], recipe["loop"]["steps"], recipe["tokenizer"]["vocab_size"]) == (32, 40, 600)
    (workplace / "pairs.tsv").write_text("".join(f"{i}\ta {i}\tb {i}\n" for i in range(99)))
    words = ("--columns", "2,3", "--languages", "en,de", "--skip-bad", "4", "--seed", "5", "--set", "data.skip_bad=6")
    code, out, _ = command("plan", "translation", "pairs.tsv", *words, "--json")
    planned = json.loads(out)["recipe"]
    assert code == 0 and planned["seed"] == 5
    expected = {"train": ["pairs.tsv"], "dev": [], "columns": ["2", "3"], "languages": ["en", "de"], "skip_bad": 6}
    expected |= {"extra": [], "extra_tag": None}
    assert {name: planned["data"][name] for name in expected} == expected
    (workplace / "more.tsv").write_text("c\td\n" * 9)
    words = ("--extra", "more.tsv", "--tag", "bt", "--from", "run", "--set", "augment=0.1")
    code, out, _ = command("plan", "translation", "train.en", "train.de", *words, "--json")
    planned = json.loads(out)["recipe"]
    assert code == 0 and (planned["data"]["extra"], planned["data"]["extra_tag"]) == (["more.tsv"], "bt")
    assert (planned["init_from"], planned["augment"], planned["model"]["d_model"]) == ("run", 0.1, 32)


@pytest.mark.whole
def test_the_recipe_of_a_run_reproduces_it(command: Command, workplace: Path) -> None:
    code, out, err = command("train", "run/recipe.toml", "--out", "again", "--quiet")
    assert code == 0, err
    assert err == ""
    assert "now: regard translate again" in out and "regard evaluate again dev.en dev.de" in out
    for name in ("model.safetensors", "tokenizer.json", "recipe.toml"):
        one, two = (workplace / run / "checkpoints" / "final" / name for run in ("run", "again"))
        assert one.read_bytes() == two.read_bytes(), name


@pytest.mark.whole
def test_resume_goes_on_by_the_runs_own_recipe(command: Command) -> None:
    words = ("train", "translation", "dev.en", "dev.de", "--dev", "test.en", "test.de", "--out", "longer", "--quiet")
    tiny = "tokenizer.vocab_size=400 model.d_model=16 model.n_heads=2 model.d_ff=16 batch.tokens=500 loop.steps=2"
    changes = [word for change in tiny.split() for word in ("--set", change)]
    assert command(*words, *changes)[0] == 0
    code, out, err = command("train", "--out", "longer", "--resume", "--set", "loop.steps=4", "--json")
    assert code == 0 and json.loads(out)["steps"] == 4
    assert "going on from update 2" in err and "development loss" in err


def test_a_folder_that_holds_a_run_is_refused_before_anything_is_read(command: Command) -> None:
    code, _, err = command("train", "translation", "absent.en", "absent.de", "--out", "run")
    assert code == 2 and "already holds a run" in err and "absent" not in err and "expected: " not in err


def test_to_resume_an_ended_run_is_no_work(command: Command, workplace: Path) -> None:
    before = (workplace / "run" / "run.jsonl").read_bytes()
    code, out, err = command("train", "--out", "run", "--resume")
    assert code == 0 and "this run ended at update 40" in err
    assert "dev loss" in out and "speed" not in out
    assert (workplace / "run" / "run.jsonl").read_bytes() == before
    report = json.loads(command("train", "--out", "run", "--resume", "--json")[1])
    assert report["tokens_per_second"] is None and report["steps"] == 40
