"""What a run leaves: whole lines, readable after a kill; and sentences only when something is wrong."""

from __future__ import annotations

from pathlib import Path

from regard.training.log import Guard, RunLog, draw_curves, read_log


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


def test_curves_are_drawn_from_the_log_alone(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for step in range(1, 30):
        log.write("step", step=step, train_loss=5 / step, lr=0.1)
        if step % 10 == 0:
            log.write("dev", step=step, dev_loss=6 / step)
    draw_curves(tmp_path)
    svg = (tmp_path / "curves.svg").read_text()
    assert (svg.startswith("<?xml") and "nats a token" in svg) or "<svg" in svg
