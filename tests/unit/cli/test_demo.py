"""`regard demo`, from nothing, with a small model of a few updates on a small part of its data; then again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli import demo
from regard.data.localiser import KINDS, TARGETS, Item, corpus, make_items, write_items

Command = Callable[..., tuple[int, str, str]]
TINY = ("tokenizer.vocab_size=600", "model.d_model=32", "model.n_heads=2", "model.d_ff=64", "loop.steps=60",
        "batch.tokens=1000", "loop.evaluate_every=30", "model.dropout=0.0", "label_smoothing=0.0")  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SETTINGS", TINY)
    monkeypatch.setattr(corpus, "SIZES", {"train": 1_000, "dev": 54, "test": 54})


@pytest.mark.whole
def test_a_demo_from_nothing_and_again(small: None, command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said, err = command("demo", "--out", str(out))
    assert code == 0, err
    assert "update 60" in err and all(kind in said for kind in (*KINDS, "all"))
    assert f"regard translate {out} --to zh" in said and str(out / "reordering.svg") in said
    assert str(out / "demo.html") in said and f"regard look {out}" in said
    assert said.count("wrong: ") + said.count(" right\n") == demo.SHOWN
    assert (out / "best").read_text() == "final\n" and (out / "data" / "test.tsv").exists()

    log, picture = (out / "run.jsonl").read_bytes(), out / "reordering.svg"
    picture.unlink()
    (out / "data" / "train.tsv").unlink()
    code, said, err = command("demo", "--out", str(out), "--json", "--quiet")
    assert (code, err) == (0, "") and (out / "run.jsonl").read_bytes() == log, "it trained again"
    assert not (out / "data" / "train.tsv").exists(), "it made its data again"
    report = json.loads(said)
    assert picture.exists() and report["picture"] == str(picture)
    assert report["examples"] == len(report["translations"]) == 54
    assert len(report["scores"]) == (len(KINDS) + 1) * len(TARGETS)
    errors = report["alignment_errors"]
    page = (out / "demo.html").read_text(encoding="utf-8")
    assert report["page"] == str(out / "demo.html") and "regard-data" in page
    assert all(f'"to":"{to}"' in page for to in TARGETS) and '"roles":{"roles":[{"part":"encoder.self"' in page
    assert errors[report["layer"]] == min(errors) and all(0 < error < 1 for error in errors)


@pytest.mark.whole
def test_a_demo_cut_short_is_gone_on_with(small: None, command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("train", "translation", str(out / "data" / "train.tsv"), "--dev", str(out / "data" / "dev.tsv"))
    (out / "data").mkdir(parents=True)
    for part in ("train", "dev"):
        write_items(make_items(part, demo.SEED), out / "data" / f"{part}.tsv")
    changes = [word for change in (*demo.SETTINGS, "loop.steps=20") for word in ("--set", change)]
    assert command(*words, "--out", str(out), *changes)[0] == 0
    shutil.rmtree(out / "checkpoints" / "final")  # as before the last step of a run
    (out / "best").write_text("step-000020\n")
    code, _, err = command("demo", "--out", str(out))
    assert code == 0 and "going on from update 20" in err and "update 60" in err


def test_scores_are_of_each_kind_in_each_language() -> None:
    items = [Item("1", wanted, to, kind) for kind in KINDS for to in TARGETS for wanted in ("eins", "zwei")]
    outputs = [item.target if item.kind == "date" and item.to == "de" else "eins" for item in items]
    scores = {(score.kind, score.to): score for score in demo.score(items, outputs)}
    assert (scores["date", "de"].exact, scores["date", "de"].chrf) == (1, 100)
    assert scores["date", "fr"].exact == 0.5 and scores["date", "fr"].chrf < 100
    assert scores["all", "de"].exact == round((len(KINDS) + 1) / 2 / len(KINDS), 4)
    assert scores["all", "zh"].examples == 2 * len(KINDS)


def test_without_babel_it_says_what_to_install(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(corpus, "find_spec", lambda name: None)
    code, _, err = command("demo", "--out", str(tmp_path / "run"))
    assert code == 2 and "pip install 'regard[demo]'" in err and not (tmp_path / "run").exists()
