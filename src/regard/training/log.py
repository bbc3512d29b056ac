"""What a run leaves for people and programs: run.jsonl, curves.svg, and a plain sentence when something looks wrong.

What is unusual: run.jsonl is only ever appended to, whole lines at a time, so a killed run leaves a readable file and a
resumed one goes on in it. The curves are drawn from that file, so they can be drawn again.
What it does not know: terminals (cli), checkpoints.
"""

from __future__ import annotations

import json
import math
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

from regard.hub.atomic import replace_file

SLOWER = 3
"""How many times as long as planned an update may take before it is said."""


class RunLog:
    """Appends one JSON object a line to run.jsonl."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.jsonl"

    def write(self, event: str, **values: Any) -> None:
        """Append {"event": event, ...}; NaN and infinities become null, since JSON has none."""
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, **finite}, ensure_ascii=False) + "\n")


def has_line(step: int) -> bool:
    """Whether an update goes into run.jsonl: each of the first 100, so that a short run has a curve; then each 20th."""
    return step <= 100 or step % 20 == 0


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of a run.jsonl; a last line that a kill cut short is left out."""
    events = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


class Guard:
    """Watches the numbers of a run and says in a sentence what looks wrong, each thing once."""

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=50)
        self.lowest = math.inf
        self.dev: list[float] = []
        self.said: set[str] = set()

    def step(self, loss: float) -> str | None:
        """Look at a training loss."""
        self.recent.append(loss)
        if len(self.recent) < 50:
            return None
        mean = sum(self.recent) / 50
        self.lowest = min(self.lowest, mean)
        if mean > 1.25 * self.lowest + 0.5:
            return self._once(
                f"the training loss has risen from {self.lowest:.2f} to {mean:.2f}: the run is diverging; "
                "a lower rate (--set optim.lr=... --set optim.matrix_lr=...) would help"
            )
        return None

    def look(self, loss: float) -> str | None:
        """Look at a development loss."""
        self.dev.append(loss)
        last = self.dev[-4:]
        if len(last) == 4 and all(before < after for before, after in pairwise(last)):
            return self._once(
                f"the development loss has risen three times in a row, from {last[0]:.3f} to {last[-1]:.3f}: the model "
                "is learning its examples by heart; more data, more dropout or fewer steps would help"
            )
        return None

    def pace(self, made: int, seconds: float, planned: int, budget: float) -> str | None:
        """Look at the speed: updates made in so many seconds, of those planned for the budget of seconds."""
        fitting = round(budget * made / max(1e-9, seconds))
        if made < 20 or fitting > planned / SLOWER:
            return None
        return self._once(
            f"at this pace {fitting:,} of {planned:,} planned updates will be made: each takes over {SLOWER} times as "
            "long as planned; is the machine busy with something else?"
        )

    def end(self, made: int, planned: int) -> str | None:
        """Look at how many updates there were."""
        if made >= planned / 2:
            return None
        return (
            f"this machine was busy, or is slower than was measured: {made:,} of {planned:,} planned updates were made"
        )

    def _once(self, sentence: str) -> str | None:
        what = sentence.partition(":")[2]
        if what in self.said:
            return None
        self.said.add(what)
        return sentence


def draw_curves(folder: Path) -> None:
    """Write curves.svg from run.jsonl: training and development loss, and the learning rate, over updates."""
    events = read_log(folder / "run.jsonl")
    steps = [e for e in events if e.get("event") == "step" and e.get("train_loss") is not None]
    looks = [e for e in events if e.get("event") == "dev" and e.get("dev_loss") is not None]
    if len(steps) < 2:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    updates = [e["step"] for e in steps]
    axis.plot(updates, [e["train_loss"] for e in steps], color="#8da0cb", lw=1, label="training loss (a batch)")
    if looks:
        axis.plot([e["step"] for e in looks], [e["dev_loss"] for e in looks], "o-" if len(looks) > 1 else "o",
                  color="#d95f02", ms=4, label="development loss")  # fmt: skip
        best = min(looks, key=lambda e: e["dev_loss"])
        axis.annotate(f"{best['dev_loss']:.3f}", (best["step"], best["dev_loss"]), textcoords="offset points",
                      xytext=(0, -14), ha="center", color="#d95f02")  # fmt: skip
    highest = max([e["train_loss"] for e in steps] + [e["dev_loss"] for e in looks])
    axis.set(xlabel="updates", ylabel=f"loss, one {_unit(events)}", xlim=(0, None), ylim=(0, 1.05 * highest))
    axis.set_title(_not_alike(events), fontsize="small", color="#777777")
    axis.spines[["top", "right"]].set_visible(False)
    rate = axis.twinx()
    rate.plot(updates, [e["lr"] for e in steps], color="#bbbbbb", lw=1, ls="--", label="learning rate")
    rate.set(ylabel="learning rate", ylim=(0, None))
    rate.spines[["top"]].set_visible(False)
    lines = [*axis.get_lines(), *rate.get_lines()]
    figure.legend(lines, [str(line.get_label()) for line in lines], frameon=False, loc="outside upper center", ncols=3)
    replace_file(folder / "curves.svg", lambda scratch: figure.savefig(scratch, format="svg"))


def _unit(events: list[dict[str, Any]]) -> str:
    """What one loss is of: a token, an example, a window."""
    return str(next((e["unit"] for e in events if "unit" in e), "tokens")).removesuffix("s")


def _not_alike(events: list[dict[str, Any]]) -> str:
    """What raises the training loss and not the development loss, so that nobody wonders which is the lower."""
    recipe: dict[str, Any] = next((e["recipe"] for e in events if e.get("event") == "start"), {})
    amounts = {"label smoothing": recipe.get("label_smoothing"), "R-Drop": recipe.get("rdrop"),
               "dropout": recipe.get("model", {}).get("dropout")}  # fmt: skip
    names = [name for name, amount in amounts.items() if amount]
    return f"raising the training loss only: {', '.join(names)}" if names else ""
