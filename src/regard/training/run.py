"""A run from its recipe to a finished model folder: what is read, trained, saved, and in which order.

    DIR/  recipe.toml  run.jsonl  curves.svg  checkpoints/step-000500/ (a model folder + state/)  latest  best
          snapshots/step-000100/ (a model folder, weights in float16)

What is unusual: each checkpoint is a complete model folder, committed whole or not at all, so a run killed at any
moment is a model of some step and can go on from it, bit-equal (law 23). `final` is the best of them, with its card.
What it does not know: the command line and the screen; it tells a `Reporter`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch

from regard.config import build, load_toml, to_toml, to_tree
from regard.data import Finding
from regard.errors import NonFiniteError, UserError
from regard.hub.atomic import commit_folder, point, read_pointer, refuse_full, write_text_atomic
from regard.hub.card import model_card
from regard.hub.folder import read_config, write_model
from regard.hub.lock import lock_folder
from regard.hub.snapshots import halved
from regard.hub.weights import state_tensors
from regard.model.lora import merged
from regard.runtime import keep_freed_memory, open_attention_until
from regard.training.adaptation import Adapted, adapt_first
from regard.training.checkpoints import best_weights, left_name, prune, step_name
from regard.training.circumstances import circumstances
from regard.training.ema import Ema
from regard.training.leaving import listening
from regard.training.log import Guard, RunLog, draw_curves, has_line
from regard.training.loop import DevEvent, EndEvent, Event, LeaveEvent, Loop, StepEvent
from regard.training.optim import make_optimizers
from regard.training.outcome import Result, outcome, refuse_changed, refuse_mixing
from regard.training.plan import TRAINING_SHARE
from regard.training.recipe import Recipe
from regard.training.snapshots import Snapshots
from regard.training.start import choose_learners, make_model, open_origin, read_origin
from regard.training.state import Progress, read_state, write_state
from regard.training.step import TrainStep
from regard.training.subject import Corpus
from regard.training.subjects import SUBJECTS, going_on


class Reporter(Protocol):
    """Whoever tells the user."""

    def begin(self, unit: str) -> None:
        """A run begins, whose losses are counted in that: tokens, examples, windows."""

    def say(self, sentence: str) -> None:
        """Something worth a line."""

    def show(self, findings: Iterable[Finding]) -> None:
        """What the checks found."""

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        """A step, a look at the development set, the end."""


class Run:
    """One sitting of a run: put together from a recipe, a folder and a device, then driven to its end by `finish`."""

    def __init__(
        self, recipe: Recipe, out: Path, *, resume: bool, began: float, device: torch.device, reporter: Reporter,
        corpus: Corpus | None = None, adapted: Adapted | None = None,
    ) -> None:  # fmt: skip
        self.recipe, self.out, self.reporter = recipe, out, reporter
        self.log, self.guard = RunLog(out), Guard()
        latest = self._latest() if resume else None
        folder, self.origin = self._origin(latest, adapted)
        self.start = read_origin(folder) if folder else None
        self.subject = going_on(recipe.task, self.start) if self.start else SUBJECTS[recipe.task]
        self.corpus = self.subject.read(recipe) if corpus is None else corpus
        if latest is not None and (warning := refuse_changed(out, latest, self.corpus.hashes)):
            reporter.say(warning)
        reporter.show(self.corpus.findings)
        for sentence in self.corpus.told():
            reporter.say(sentence)
        self.tokenizer = self.start.tokenizer if self.start else self.subject.tokenizer(recipe, self.corpus)
        self.data = self.subject.data(recipe, self.corpus, self.tokenizer)
        if self.data.left_out:
            reporter.say(self.data.left_out)
        labels = self.subject.facts(self.data, self.corpus).get("labels", ())
        self.model = make_model(recipe, self.subject.head, self.tokenizer, folder, labels).to(device)
        choose_learners(self.model, recipe)
        dtype, task = getattr(torch, recipe.loop.dtype), self.subject.task(recipe, self.data)
        inner = TrainStep(self.model, task, dtype, compiled=recipe.loop.compile)
        optimizers = make_optimizers(self.model, recipe.optim)
        progress = Progress(total=None if recipe.loop.minutes else recipe.loop.steps)
        self.ema = Ema(self.model, recipe.loop.ema) if recipe.loop.ema else None
        self.snapshots = Snapshots(out, self.model.config.n_parameters)
        if not resume:
            self.snapshots.begin()
        if latest is not None:
            progress = read_state(latest / "state", optimizers, self.model)
            self._continue_total(progress)
            if progress.best_step and read_pointer(out / "best") != "final":
                point(out / "best", step_name(progress.best_step))  # a kill between the two pointers left an older one
            reporter.say(f"going on from update {progress.step:,}")
        self.planned = None if recipe.loop.minutes is None else recipe.loop.steps
        budget = self._time_left if self.planned else None
        self.loop = Loop(inner, inner, self.data, optimizers, recipe, progress, self.ema, budget)
        self.first, self.ready = progress.step, time.monotonic()
        # When it would have begun, had it never been cut.
        self.began = began if latest is None else self.ready - progress.seconds

    def finish(self) -> Result:
        """Train to the end, keep the best, score it, and write the model's card.

        Raises:
            LeftError: a signal asked to leave; all that was done is saved.
            NonFiniteError: a loss or gradient is NaN or infinite; the update was not made.
            UserError: the disk has no room for two checkpoints.
        """
        refuse_full(self.out, self._room())
        self.reporter.begin(self.subject.unit)
        self._write_recipe(self.recipe)
        self._log_start()
        if self.snapshots.left_out:
            self.reporter.say(self.snapshots.left_out)
        step, tokens, started = self.loop.progress.step, self.loop.progress.tokens, time.monotonic()
        reason = "the run had already ended"
        try:
            with listening() as note:
                for event in self.loop.run(note.asked):
                    self._handle(event)
                    if isinstance(event, EndEvent):
                        reason = event.reason
        except NonFiniteError:
            step = self.loop.progress.step
            names = [self.corpus.where(i) for i in self.data.examples(step)[:100]]
            self.log.write("nonfinite", step=step, examples=names)
            raise
        if note.asked():
            raise note.left(self.out, self._saved(), saved=self._saved() > 0)
        speed = (self.loop.progress.tokens - tokens) / (time.monotonic() - started)
        return self._conclude(reason, speed if self.loop.progress.step > step else None)

    # ------------------------------------------------------------------ before

    def _origin(self, latest: Path | None, adapted: Adapted | None) -> tuple[Path | None, dict[str, Any] | None]:
        """The folder that weights and tokenizer come from, and the facts of the model that the whole run started from.

        A run that goes on has its own; the model it started from may be gone by now.
        """
        if latest is not None:
            return latest, read_config(latest)["training"].get("init")
        if not self.recipe.init_from:
            return None, None
        folder, said = open_origin(self.recipe.init_from, self.recipe.task)
        return (folder, said) if adapted is None else (adapted.folder, {**said, "adapted": adapted.facts})

    def _latest(self) -> Path:
        name = read_pointer(self.out / "latest")
        assert name is not None
        return self.out / "checkpoints" / name

    def _continue_total(self, progress: Progress) -> None:
        """The clock's decision stands, or is still to come; without a clock the recipe's steps do."""
        if self.recipe.loop.minutes is None:
            progress.total = self.recipe.loop.steps
        if progress.decay is not None:
            self.recipe = replace(self.recipe, schedule=replace(self.recipe.schedule, decay=progress.decay))

    def _time_left(self) -> float:
        """Seconds for updates: the budget, less what looking and saving at the end will take."""
        assert self.recipe.loop.minutes is not None
        budget = 60 * self.recipe.loop.minutes
        ending = 2 + 0.01 * budget + 1.5 * self.loop.progress.look_seconds
        return budget - (time.monotonic() - self.began) - ending

    # ------------------------------------------------------------------ during

    def _handle(self, event: Event) -> None:
        progress = self.loop.progress
        seconds = progress.seconds = time.monotonic() - self.began
        if isinstance(event, StepEvent):
            if has_line(event.step):
                self.log.write("step", step=event.step, seconds=round(seconds, 3), tokens=progress.tokens,
                               train_loss=event.loss, lr=event.lr, grad_norm=event.grad_norm,
                               tokens_per_second=progress.tokens / seconds)  # fmt: skip
            self.snapshots.keep(event.step, self._write_snapshot)
            self._warn(self.guard.step(event.loss))
            if self.planned:
                share = TRAINING_SHARE * 60 * (self.recipe.loop.minutes or 0)
                made = event.step - self.first
                self._warn(self.guard.pace(made, time.monotonic() - self.ready, self.planned, share))
        elif isinstance(event, DevEvent):
            self.log.write("dev", step=event.step, seconds=round(seconds, 3), **event.scores)
            self._warn(self.guard.look(event.scores["dev_loss"]))
            self._save(step_name(event.step), event.scores, better=event.better)
            if glimpse := self.subject.glimpse(self.model, self.data):
                self.log.write("sample", step=event.step, text=glimpse)
                self.reporter.say(glimpse)
        elif isinstance(event, LeaveEvent) and event.step > self._saved():
            self._save(left_name(event.step), {}, better=False)
        left = self._time_left() if self.loop.time_left else None
        self.reporter.event(event, progress, seconds, left)

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None:
            self.log.write("warning", sentence=sentence)
            self.reporter.say(sentence)

    def _save(self, name: str, scores: dict[str, float], *, better: bool) -> None:
        progress = self.loop.progress

        def write(folder: Path) -> None:
            self._write_model(folder, scores, {})
            trained = state_tensors(self.model) if self.recipe.lora.rank else None  # what was saved is merged
            write_state(folder / "state", self.loop.optimizers, progress, self.ema.weights if self.ema else trained)

        commit_folder(self.out / "checkpoints" / name, write)
        point(self.out / "latest", name)
        if better or read_pointer(self.out / "best") is None:  # before the first look any model is better than none
            point(self.out / "best", name)
        prune(self.out, max(1, self.recipe.loop.keep, self.recipe.loop.average))

    def _saved(self) -> int:
        """Updates in the latest checkpoint; 0 where there is none."""
        name = read_pointer(self.out / "latest")
        return 0 if name is None else int(name.rpartition("-")[2])

    def _room(self) -> int:
        """Bytes that the run will need at least: two checkpoints with their state, and the final model."""
        averages = self.ema is not None
        return 4 * self.model.config.n_parameters * (2 * (2 + averages) + 1)

    def _write_snapshot(self, folder: Path) -> None:
        with self.ema.exchanged() if self.ema else nullcontext():  # what a checkpoint of this step would hold
            small = halved(merged(self.model))
        said = self.start.target_tokenizer if self.start else None
        write_model(folder, small, self.tokenizer, self._about({}, {}), target_tokenizer=said)

    def _log_start(self) -> None:
        self.log.write(
            "start", task=self.recipe.task, step=self.loop.progress.step, recipe=to_tree(self.recipe),
            parameters=self.model.config.n_parameters, torch=torch.__version__, data=self.corpus.hashes,
            unit=self.subject.unit, **self.corpus.counts(),
        )  # fmt: skip

    # ------------------------------------------------------------------ after

    def _conclude(self, reason: str, speed: float | None) -> Result:
        progress = self.loop.progress
        if read_pointer(self.out / "best") is None:
            raise UserError("the time was used up before the first update", where=self.out,
                            mend="give it more --minutes")  # fmt: skip
        if self.planned:
            self._warn(self.guard.end(progress.step, self.planned))
        done = self._what_was_done()
        self.recipe = done
        self._write_recipe(done)
        self.model = merged(self.model)
        scores = best_weights(self.model, self.data, self.out, self.recipe.loop.average)
        found, signatures = self.subject.scores(self.model, self.data, self.corpus)
        scores |= found
        self.log.write("end", reason=reason, step=progress.step, seconds=progress.seconds, **scores)
        draw_curves(self.out)
        commit_folder(self.out / "checkpoints" / "final", lambda folder: self._write_model(folder, scores, signatures))
        point(self.out / "best", "final")
        return Result(self.out, done, reason, scores, speed)

    def _what_was_done(self) -> Recipe:
        """The recipe that repeats this run: its schedule as the clock fixed it, and where the clock cut it short."""
        progress, recipe = self.loop.progress, self.recipe
        total = progress.total or progress.step
        stop = progress.step if progress.step < total else None
        decay = 0.0 if progress.total is None else progress.decay  # a clock that never decided let no rate decay
        schedule = recipe.schedule if decay is None else replace(recipe.schedule, decay=decay)
        return replace(recipe, schedule=schedule, loop=replace(recipe.loop, steps=total, stop=stop, minutes=None))

    def _write_model(self, folder: Path, scores: dict[str, float], signatures: dict[str, str]) -> None:
        """A complete model folder, its card included."""
        about = self._about(scores, signatures)
        log = self.log.path.read_text(encoding="utf-8") if self.log.path.exists() else ""
        texts = {"recipe.toml": to_toml(to_tree(self.recipe)), "run.jsonl": log}
        texts["README.md"] = model_card(about, self.model.config)
        said = self.start.target_tokenizer if self.start else None
        write_model(folder, merged(self.model), self.tokenizer, about, texts, target_tokenizer=said)

    def _about(self, scores: dict[str, float], signatures: dict[str, str]) -> dict[str, Any]:
        progress = self.loop.progress
        return {
            "task": self.recipe.task,
            **(self.start.kept if self.start else {}),
            **self.subject.facts(self.data, self.corpus),
            "training": {
                "steps": progress.step, "tokens": progress.tokens, "seconds": round(progress.seconds, 1),
                **self.corpus.counts(), "data": self.corpus.hashes,
                "scores": scores, "signatures": signatures, "seed": self.recipe.seed, **circumstances(),
                **({"init": self.origin} if self.origin else {}),
            },
        }  # fmt: skip

    def _write_recipe(self, recipe: Recipe) -> None:
        write_text_atomic(self.out / "recipe.toml", to_toml(to_tree(recipe)))


def train(
    recipe: Recipe, out: Path, *, device: torch.device, reporter: Reporter, resume: bool = False,
    began: float | None = None, corpus: Corpus | None = None,
) -> Result:  # fmt: skip
    """Carry out a recipe in the folder `out`.

    Args:
        resume: go on from the last checkpoint in `out`.
        began: time.monotonic() when the command was typed; the minutes count from there, and those of a run that goes
            on from where it was.
        corpus: what its subject read of this recipe, when that is at hand.

    Raises:
        ConfigError, DataError, CheckpointError, NonFiniteError: as their names say.
        UserError: another process is writing to `out`, or the disk is full.
    """
    if resume and (ended := outcome(recipe, out)):
        reporter.say(f"{ended.reason}; nothing was done (more updates: --set loop.steps=N)")
        return ended
    began, adapted = time.monotonic() if began is None else began, None
    keep_freed_memory()

    def carry_out(recipe: Recipe, folder: Path, resume: bool, began: float, **more: Any) -> Result:
        open_attention_until(recipe.loop.open_until)
        run = Run(recipe, folder, resume=resume, began=began, device=device, reporter=reporter, **more)
        return run.finish()

    with lock_folder(out):
        refuse_mixing(out, resume=resume)
        if recipe.adapt is not None and not (out / "latest").exists():
            adapted = adapt_first(recipe, out, resume=resume, began=began, say=reporter.say, carry_out=carry_out)
            recipe, resume, began = adapted.recipe, False, adapted.began
        return carry_out(recipe, out, resume, began, corpus=corpus, adapted=adapted)


def read_recipe(path: Path) -> Recipe:
    """A recipe from a TOML file; raises ConfigError naming every field that is wrong."""
    return build(Recipe, load_toml(path), where=str(path))
