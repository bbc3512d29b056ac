"""A run on the screen: what is said, and how often."""

from __future__ import annotations

import pytest

from regard.cli import reporter
from regard.cli.reporter import Screen, duration
from regard.data import Finding
from regard.training import DevEvent, EndEvent, Progress, StepEvent


def drive(screen: Screen) -> None:
    progress = Progress(total=100, best=2.5, best_step=10)
    with screen:
        for step in range(1, 21):
            progress.step, progress.tokens = step, 50 * step
            screen.event(StepEvent(step, 3.0, 1e-3, 1.0, 50), progress, float(step), None)
        screen.event(DevEvent(20, {"dev_loss": 2.75}, False, 0.1), progress, 20.0, 61.0)
        screen.event(StepEvent(20, 3.0, 1e-3, 1.0, 50), progress, 20.0, 61.0)
        screen.event(EndEvent("the time is used up"), progress, 95.0, 0.0)


def test_off_a_terminal_progress_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drive(Screen(quiet=False))
    assert capsys.readouterr().err.splitlines() == [
        "update 20: development loss 2.750, not better than 2.500 at update 10",
        "the time is used up: 20 updates in 1:35",
    ]
    monkeypatch.setattr(reporter, "EVERY_SECONDS", 0.0)
    drive(Screen(quiet=False))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 23 and lines[4].startswith("update 5  loss 3.00  ")
    assert lines[21].endswith("1:01 left") and "dev 2.75" in lines[21]


def test_quiet_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(quiet=True)
    drive(screen)
    screen.say("x")
    screen.show([Finding("pairs", 3, "warn", "few")])
    assert capsys.readouterr() == ("", "")


def test_findings_that_are_not_ok_are_shown_with_where(capsys: pytest.CaptureFixture[str]) -> None:
    ok, bad = Finding("same", 0, "ok", "none"), Finding("ratio", 2, "warn", "2 [b]odd[/b] pairs", ("a:3", "a:9"))
    Screen(quiet=False).show([ok, bad, ok])
    lines = [line.rstrip() for line in capsys.readouterr().err.splitlines()]
    assert lines == ["warn  2 [b]odd[/b] pairs  a:3, a:9", "2 checks of the data passed"]


def test_durations() -> None:
    shown = {-1.0: "0 s", 59.4: "59 s", 59.6: "1:00", 185.0: "3:05", 3723.0: "1:02:03"}
    assert {seconds: duration(seconds) for seconds in shown} == shown
