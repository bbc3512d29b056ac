"""Texts to look at a model with: its own development data where it still lies there, else ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import regard
from regard.inspect import samples as module
from regard.inspect.samples import BEGINNINGS, READERS, SHORTEST, TEXTS, Sample, samples

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(workplace: Path) -> regard.Loaded:
    return regard.load(workplace / "run", device="cpu")


def test_they_are_development_data_from_all_over_it(
    model: regard.Loaded, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    dev = [(workplace / f"dev.{code}").read_text(encoding="utf-8").splitlines() for code in ("en", "de")]
    pairs = list(zip(*dev, strict=True))
    found = samples(model, 5, longest=60)
    places = [pairs.index((*one.texts, one.target)) for one in found]
    assert len(found) == 5 and places == sorted(set(places)) and places[-1] - places[0] > 10
    assert all(SHORTEST <= len(one.texts[0]) <= 60 for one in found)
    assert len(samples(model, 1000, longest=1000)) == 40
    assert len(samples(model, 3, longest=1)) == 3, "all are too long, and still there is something to show"


@pytest.mark.parametrize("gone", ["cwd", "damaged", "large"])
def test_without_their_data_models_are_shown_ours(
    model: regard.Loaded, workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.chdir(tmp_path if gone == "cwd" else workplace)
    if gone == "damaged":
        monkeypatch.chdir(tmp_path)
        for code in ("en", "de"):
            (tmp_path / f"dev.{code}").write_bytes(b"\xff\xfe\n" * (2 if code == "en" else 3))
    if gone == "large":
        monkeypatch.setattr(module, "MOST_BYTES", 10)
    assert {one.texts[0] for one in samples(model, 3)} <= set(TEXTS["en"])


def test_models_of_others_are_shown_ours(minilm: Path, model_dir: Callable[[str], Path]) -> None:
    assert samples(regard.load(model_dir("stories260k")), 3) == [Sample((text,)) for text in BEGINNINGS]
    assert [one.texts[0] for one in samples(regard.load(minilm), 3)] == [TEXTS["en"][i] for i in (0, 2, 4)]


def test_each_target_language_has_its_turn(model: regard.Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Sample((f"the text number {i}",), to=to) for to in ("de", "fr", "zh") for i in range(9)]
    monkeypatch.setattr(module, "_of_recipe", lambda loaded, longest: many)
    assert [one.to for one in samples(model, 6)] == ["de", "fr", "zh"] * 2
    assert len({one.texts for one in samples(model, 6)}) == 2


def test_each_task_reads_its_own_kind_of_file(tmp_path: Path, workplace: Path) -> None:
    def read(task: str, name: str, text: str, **data: object) -> list[Sample]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return list(READERS[task]([tmp_path / name], data, 30))

    assert read("classification", "c.tsv", "a film\tgood\na play\tbad\n") == [Sample(("a film",)), Sample(("a play",))]
    assert read("classification", "n.tsv", "it rains\tit is wet\tyes\n") == [Sample(("it rains", "it is wet"))]
    assert read("tagging", "t.conll", "Anna B-PER\nsings O\n\nShe O\n") == [Sample(("Anna sings",)), Sample(("She",))]
    asked = {"question": "Who?", "id": "1", "answers": [{"text": "Anna", "answer_start": 0}]}
    squad = {"data": [{"title": "t", "paragraphs": [{"context": "Anna sings.", "qas": [asked]}]}]}
    assert read("question-answering", "q.json", json.dumps(squad)) == [Sample(("Who?", "Anna sings."))]
    novel = "CHAPTER I\n\nIt was a bright cold day in April, and the clocks\nwere striking.\n\nThen\n"
    found = read("language-model", "novel.txt", novel)
    assert [one.texts[0] for one in found] == ["CHAPTER I", "It was a bright cold day in", "Then"]
    assert read("masked-lm", "l.txt", "one\n\ntwo\n", unit="line") == [Sample(("one",)), Sample(("two",))]


def test_a_run_that_trained_on_all_shows_what_it_trained_on(workplace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(workplace / "run" / "checkpoints" / "final", folder)
    (tmp_path / "train.tsv").write_text("a text to read\tein Text zum Lesen\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(f'[data]\ntrain = ["{tmp_path}/train.tsv"]\n')
    (folder / "MANIFEST.sha256").unlink()
    assert samples(regard.load(folder), 3) == [Sample(("a text to read",), "ein Text zum Lesen")]
