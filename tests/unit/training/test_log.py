"""What a run leaves: whole lines, readable after a kill; and sentences only when something is wrong."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest

from regard.training.log import Guard, RunLog, draw_curves, has_line, read_log


def test_a_log_cut_short_by_a_kill_is_read_up_to_there_and_continued(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write("step", step=1, train_loss=2.0)
    log.write("step", step=2, train_loss=float("nan"))
    with log.path.open("a") as file:
        file.write('{"event": "step", "st')
    events = read_log(log.path)
    assert [e["step"] for e in events] == [1, 2] and events[1]["train_loss"] is None


def test_a_steady_run_is_left_in_peace() -> None:
    guard = Guard()
    said = [guard.step(5 - i / 200 + 0.3 * (i % 3)) for i in range(600)] + [guard.look(4 - i / 10) for i in range(20)]
    assert said == [None] * len(said)


def test_divergence_and_overfitting_are_said_once_each() -> None:
    guard = Guard()
    said = [guard.step(2.0) for _ in range(100)] + [guard.step(9.0) for _ in range(200)]
    sentences = [s for s in said if s]
    assert len(sentences) == 1 and "diverging" in sentences[0]
    said = [guard.look(3.0 + i / 10) for i in range(10)]
    sentences = [s for s in said if s]
    assert len(sentences) == 1 and "by heart" in sentences[0]


def test_a_slow_machine_is_said_once_and_a_short_run_at_its_end() -> None:
    guard = Guard()
    assert [guard.pace(n, n * 0.05, 1_000, 50.0) for n in range(1, 1_000)] == [None] * 999
    said = [sentence for n in range(1, 100) if (sentence := guard.pace(n, n * 0.2, 1_000, 50.0))]
    assert len(said) == 1 and "250 of 1,000 planned updates" in said[0]
    assert guard.pace(5, 50.0, 1_000, 50.0) is None, "the first updates are slow on any machine"
    assert guard.end(500, 1_000) is None and "499 of 1,000 planned updates" in (guard.end(499, 1_000) or "")


def curves(folder: Path, updates: int, recipe: dict[str, object], *looks: int) -> str:
    log = RunLog(folder)
    log.write("start", recipe=recipe)
    for step in filter(has_line, range(1, updates + 1)):
        log.write("step", step=step, train_loss=5 / step, lr=0.1)
    for step in looks:
        log.write("dev", step=step, dev_loss=6 / step)
    draw_curves(folder)
    return (folder / "curves.svg").read_text()


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text in the picture stays text, so that it can be read here."""
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")


def test_curves_are_drawn_from_the_log_alone_and_say_how_to_read_them(tmp_path: Path, words: None) -> None:
    recipe = {"label_smoothing": 0.1, "rdrop": 0.0, "model": {"dropout": 0.3}}
    svg = curves(tmp_path, 30, recipe, 10, 20, 30)
    assert "loss, one token" in svg and "development loss" in svg
    assert "raising the training loss only: label smoothing, dropout" in svg


def test_where_nothing_raises_the_training_loss_nothing_is_said(tmp_path: Path, words: None) -> None:
    assert "raising" not in curves(tmp_path, 30, {"label_smoothing": 0.0, "model": {}}, 30)


def test_a_short_run_has_a_curve_and_a_long_one_a_short_log() -> None:
    assert [step for step in range(1, 30) if has_line(step)] == list(range(1, 30))
    assert sum(map(has_line, range(1, 6_001))) < 6_000 / 15
