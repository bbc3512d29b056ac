"""A run on the screen: what is said, and how often."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

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
    assert len(lines) == 22 and lines[3].startswith("update 5  loss 3.00  ")
    assert lines[20].endswith("1:01 left") and "dev 2.75" in lines[20]


def test_quiet_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(quiet=True)
    drive(screen)
    screen.say("x")
    screen.show([Finding("pairs", 3, "warn", "few")])
    assert capsys.readouterr() == ("", "")


def test_findings_that_are_not_ok_are_a_line_each_with_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = tuple(f"/long/way/to/train.en.gz:{n} and /long/way/to/train.de.gz:{n}" for n in (3, 9, 27))
    ok, bad = Finding("same", 0, "ok", "none"), Finding("ratio", 3, "warn", "3 [b]odd[/b] pairs", places)
    few = Finding("pairs", 5, "note", "few pairs")
    Screen(quiet=False).show([ok, bad, few, ok])
    assert capsys.readouterr().err.splitlines() == [
        "warn   3 [b]odd[/b] pairs  (train.en.gz:3, train.en.gz:9, ...)",
        "note   few pairs",
        "2 checks of the data passed",
    ]
    narrow = Console(width=40, force_terminal=True, file=io.StringIO(), highlight=False)
    monkeypatch.setattr(reporter, "err_console", narrow)
    reporter.show_findings([bad])
    assert isinstance(narrow.file, io.StringIO)
    assert all(cell_len(Text.from_ansi(line).plain) <= 40 for line in narrow.file.getvalue().splitlines())


def test_one_update_alone_has_no_speed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(reporter, "EVERY_SECONDS", 0.0)
    screen, progress = Screen(quiet=False), Progress(total=100)
    for progress.step in (1, 2):
        progress.tokens += 50
        screen.event(StepEvent(progress.step, 3.0, 1e-3, 1.0, 50), progress, 1.0, None)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["update 2"]


def test_durations() -> None:
    shown = {-1.0: "0 s", 59.4: "59 s", 59.6: "1:00", 185.0: "3:05", 3723.0: "1:02:03"}
    assert {seconds: duration(seconds) for seconds in shown} == shown


def test_a_second_run_begins_with_nothing_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own unit and speed, though it counts from the start again; and on a terminal the bar is live again."""
    monkeypatch.setattr(reporter, "EVERY_SECONDS", 0.0)
    screen, said = Screen(quiet=False), list[str]()
    monkeypatch.setattr(screen, "say", said.append)
    with screen:
        for unit, tokens in (("tokens", 1_000), ("examples", 10)):
            screen.begin(unit)
            for step in (1, 2):
                progress = Progress(step=step, tokens=tokens * step, total=2)
                screen.event(StepEvent(step, 3.0, 1e-3, 1.0, tokens), progress, float(step), None)
            screen.event(DevEvent(2, {"dev_loss": 2.75}, True, 0.1), progress, 2.0, None)
            screen.event(EndEvent("all steps are done"), progress, 2.0, 0.0)
    first, second = (line for line in said if line.startswith("update 2  "))
    assert "tokens/s" in first and "examples/s" in second and "-" not in second and "dev" not in second
    terminal = Console(force_terminal=True, file=io.StringIO())
    monkeypatch.setattr(reporter, "err_console", terminal)
    screen = Screen(quiet=False)
    assert screen.bar is not None
    with screen:
        for _ in range(2):
            screen.begin("tokens")
            assert screen.bar.live.is_started
            screen.event(EndEvent("all steps are done"), Progress(step=1, total=1), 1.0, 0.0)
            assert not screen.bar.live.is_started
