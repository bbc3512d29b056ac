"""A run on the screen: findings, plan, progress, looks at the development set, warnings. All of it on stderr.

What is unusual: on a terminal one live line, above which everything else scrolls; off it a plain line every ten
seconds; with --quiet nothing (run.jsonl has it all).
What it does not know: how anything is computed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from regard.cli.console import err_console, size

if TYPE_CHECKING:
    from regard.data import Finding
    from regard.training import Event
    from regard.training.plan import Plan
    from regard.training.state import Progress as RunProgress

EVERY_SECONDS = 10.0
"""Between two lines of progress off a terminal."""
COLOURS = {"error": "bold red", "warn": "yellow", "note": "cyan", "ok": "green"}


class Screen:
    """A `regard.training.Reporter`; within `with`, progress is live."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        columns = (TextColumn("training"), BarColumn(), TextColumn("{task.percentage:.0f} %  {task.fields[note]}"))
        self.bar = Progress(*columns, console=err_console, transient=True) if err_console.is_terminal else None
        self.task = self.bar.add_task("training", total=1.0, note="") if self.bar else None
        self.recent: deque[tuple[float, int]] = deque(maxlen=50)
        self.told = time.monotonic()
        self.dev: float | None = None
        self.unit = "tokens"  # what the speed is counted in

    def __enter__(self) -> Screen:
        if self.bar and not self.quiet:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()

    def begin(self, unit: str) -> None:
        """A run begins: its speed is counted in that, and nothing of an earlier one's is shown."""
        self.unit, self.dev = unit, None
        self.recent.clear()
        if self.bar is not None and self.task is not None and not self.quiet:
            self.bar.update(self.task, completed=0.0, note="")
            self.bar.start()  # the end of an earlier run stopped it

    def say(self, sentence: str) -> None:
        """A sentence, on a line of its own."""
        if not self.quiet:
            err_console.print(Text(sentence), soft_wrap=True)

    def show(self, findings: Iterable[Finding]) -> None:
        """The checks that found something, and how many did not."""
        if not self.quiet:
            show_findings(findings)

    def plan(self, plan: Plan) -> None:
        """What is going to be done, and what it should take."""
        for sentence in plan.sentences:
            self.say(sentence)
        memory = f"{size(plan.memory_bytes)} of memory with Python and torch"
        self.say(f"expected: {planned_time(plan)}, {planned_speed(plan)}, {memory}")

    def event(self, event: Event, progress: RunProgress, seconds: float, seconds_left: float | None) -> None:
        """A step moves the bar; a look at the development set and the end are lines."""
        from regard.training import DevEvent, EndEvent, StepEvent

        if isinstance(event, StepEvent):
            self.recent.append((time.monotonic(), progress.tokens))
            self._step(event.loss, progress, seconds, seconds_left)
        elif isinstance(event, DevEvent):
            self.dev = event.scores["dev_loss"]
            score = f", score {event.scores['dev_merit']:.3f}" if "dev_merit" in event.scores else ""
            best = f", not better than {abs(progress.best or 0):.3f} at update {progress.best_step:,}"
            self.say(f"update {event.step:,}: development loss {self.dev:.3f}{score}{'' if event.better else best}")
        elif isinstance(event, EndEvent):
            if self.bar:
                self.bar.stop()  # what follows, scoring and saving, is not training
            self.say(f"{event.reason}: {progress.step:,} updates in {duration(seconds)}")

    def _step(self, loss: float, progress: RunProgress, seconds: float, seconds_left: float | None) -> None:
        now = time.monotonic()
        live = self.bar is not None and self.task is not None
        if self.quiet or len(self.recent) < 2 or (not live and now - self.told < EVERY_SECONDS):
            return  # one update alone has no speed
        (first, before), (last, after) = self.recent[0], self.recent[-1]
        speed = (after - before) / max(1e-9, last - first)
        total = progress.total or 0
        if seconds_left is None:
            seconds_left = (total - progress.step) * (last - first) / max(1, len(self.recent) - 1)
        dev = "" if self.dev is None else f"  dev {self.dev:.2f}"
        rate = f"{speed:,.0f} {self.unit}/s"
        note = f"update {progress.step:,}  loss {loss:.2f}{dev}  {rate}  {duration(seconds_left)} left"
        if self.bar is not None and self.task is not None:
            done = progress.step / total if total else seconds / max(1e-9, seconds + seconds_left)
            self.bar.update(self.task, completed=done, note=note)
        else:
            self.told = now
            self.say(note)


def show_findings(findings: Iterable[Finding]) -> None:
    """A line on stderr for each check that is not ok, with where; then how many passed."""
    findings = list(findings)
    found = [finding for finding in findings if finding.severity != "ok"]
    for finding in found:
        severity = (f"{finding.severity:<7}", COLOURS[finding.severity])
        where = f"  ({places(finding)})" if finding.examples else ""
        err_console.print(Text.assemble(severity, finding.sentence, (where, "dim")))
    if passed := len(findings) - len(found):
        err_console.print(f"{passed} check{'s' * (passed > 1)} of the data passed")


def places(finding: Finding) -> str:
    """The first two places where it was found, without folders: line N of one file is line N of the other."""
    first = (example.partition(" and ")[0].rpartition("/")[2] for example in finding.examples)
    return ", ".join(list(first)[:2]) + (", ..." if len(finding.examples) > 2 else "")


def planned_time(plan: Plan) -> str:
    """An estimate as exact as it is good: 40 seconds, 3.1 minutes, 120 minutes; and of what."""
    minutes = plan.minutes
    time = f"{60 * minutes:.2g} seconds" if minutes < 1 else f"{round(minutes, 1 if minutes < 10 else None)} minutes"
    return f"{time} in all" if plan.recipe.loop.minutes else f"{time} of updates"


def planned_speed(plan: Plan) -> str:
    """The estimate, which cannot know what else the machine has to do."""
    return f"about {float(f'{plan.tokens_per_second:.2g}'):,.0f} {plan.tokens_kind} a second if nothing else runs"


def duration(seconds: float) -> str:
    """Seconds as people say them: 42 s, 3:05, 1:02:03."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
