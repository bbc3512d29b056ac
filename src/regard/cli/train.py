"""`regard train`: from files to a model. Also what `plan` and `train` share: which data, and what is to be changed.

What is unusual: every flag that is part of the result becomes an assignment to a field of the recipe, the same as
--set writes, so flags, --set, a recipe file and a resumed run cannot disagree on what a flag means.
What it does not know: how a plan is made (`regard.training`), and how progress looks (`reporter`).
"""

from __future__ import annotations

import difflib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from tyro.conf import Positional, UseAppendAction, arg

from regard.cli.common import Common
from regard.cli.console import print_json, table
from regard.cli.reporter import Screen, duration
from regard.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from regard.training import Recipe, Result
    from regard.training.plan import Plan

FILES = {
    "language-model": "texts", "masked-lm": "texts", "classification": "labelled texts",
    "question-answering": "questions", "tagging": "tagged sentences",
}  # fmt: skip
"""The tasks that take any number of files, and what of."""
TASKS = ("translation", *FILES)
MINUTES = 10.0
NEXT = {
    "translation": "\nnow: regard translate {0}\n     regard evaluate {0} {1}",
    "language-model": "\nnow: regard generate {0} --prompt TEXT --temperature 0.8\n     regard evaluate {0} {1}",
    "masked-lm": "\nnow: regard embed {0} FILE --out FILE.npy\n     regard evaluate {0} {1}",
    "classification": "\nnow: regard classify {0} FILE\n     regard evaluate {0} {1}",
    "tagging": "\nnow: regard tag {0} FILE\n     regard evaluate {0} {1}",
    "question-answering": "\nnow: regard answer {0} --question Q --context-file FILE\n     regard evaluate {0} {1}",
}
"""What to do with a model of each task: {0} is its folder, {1} what to score it on."""


@dataclass(frozen=True, kw_only=True)
class Job(Common):
    """What to train on, and how."""

    what: Annotated[Positional[tuple[str, ...]], arg(metavar="TASK DATA... | RECIPE", help_behavior_hint="")] = ()
    """RECIPE: a .toml file, or the name of a shipped one; translation SRC TGT: line N of one file translates line N of
    the other; translation FILE: pairs as .tsv, .csv, .jsonl, .tmx, or text with tabs (all plain, .gz or .zst);
    language-model FILES, masked-lm FILES: texts and folders of them, .jsonl, .tsv or .parquet with a field `text`, or
    one folder that `regard prepare` wrote; language-model .JSONL with a field `messages`: conversations, of which the
    answers are learned; classification FILES: tables with a text, or two, and a label; tagging
    FILES: CoNLL's columns, a word a line and its tag last; question-answering FILES: SQuAD's .json, or tables with
    question, context, answer, start."""
    dev: Annotated[tuple[str, ...], arg(metavar="SRC TGT | FILE", help_behavior_hint="")] = ()
    """The development examples; without them a tenth of the training (at most 2,000) is held out."""
    init_from: Annotated[str | None, arg(name="from", metavar="MODEL", help_behavior_hint="")] = None
    """Start from the weights and the tokenizer of this model or run, with its sizes and a third of the usual rates;
    package:NAME is the model inside an installed Python package."""
    adapt: Annotated[tuple[str, ...], arg(metavar="FILES", help_behavior_hint="")] = ()
    """First, for a third of the minutes, let the encoder of --from guess hidden words of these texts, which have no
    labels."""
    extra: Annotated[tuple[str, ...], arg(metavar="SRC TGT | FILE", help_behavior_hint="")] = ()
    """More pairs to train on, as back-translated ones: SRC is what a reverse model made of TGT."""
    tag: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Mark the sources of --extra with a token, so that the model can tell them from written text."""
    minutes: Annotated[float | None, arg(metavar="M", help_behavior_hint="")] = None
    """Choose size, steps and schedule for so much wall clock (default 10; a recipe has its own number of steps)."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="A.B=VALUE", help_behavior_hint="")] = ()
    """Put a value into any field of the recipe; may be repeated, and has the last word."""
    columns: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """The columns of source and target in a table, or of text (or two texts) and label: names, or numbers from 1."""
    multi_label: bool = False
    """Classification: any number of classes a text, parted by | or in a JSON list."""
    regression: bool = False
    """Classification: the labels are numbers, and more means more."""
    languages: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """Codes of the two languages; else the files' suffixes or header say them."""
    skip_bad: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """How many malformed lines may be left out."""

    unit: Annotated[str | None, arg(metavar="UNIT", help_behavior_hint="")] = None
    """What of a plain text is one document: file (the default), paragraph, line, or a line that stands between two."""
    field: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """The column or field of the text in tables of documents (default text)."""

    def changes(self) -> list[str]:
        """The flags as assignments to fields of the recipe, then those of --set."""
        texts = "adapt.data" if self.adapt else "data"
        flags: dict[str, Any] = {
            "seed": self.seed, "data.dev": self.dev or None, "data.skip_bad": self.skip_bad,
            "adapt.data.train": self.adapt or None, f"{texts}.unit": self.unit, f"{texts}.field": self.field,
            "data.extra": self.extra or None, "data.extra_tag": self.tag, "init_from": self.init_from,
            "data.columns": columns_of(self.columns), "data.languages": pair_of("languages", self.languages),
            "data.labels": self._labels(),
        }  # fmt: skip
        given = [
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in flags.items() if value is not None
        ]
        return given + list(self.set)

    def _labels(self) -> str | None:
        if self.multi_label and self.regression:
            raise ConfigError("a label is either", expected="--multi-label or --regression", got="both",
                              mend="leave one of them out")  # fmt: skip
        return "several" if self.multi_label else "number" if self.regression else None


@dataclass(frozen=True, kw_only=True)
class Arguments(Job):
    """Train a model from your own files, within the minutes you have.

    regard train translation train.en train.de --dev val.en val.de --out runs/en-de --minutes 10
    """

    out: Annotated[Path, arg(metavar="DIR")]
    """The run's folder; it is a model too, its best checkpoint."""
    resume: bool = False
    """Go on where the run in DIR stopped, by its own recipe and in what is left of its minutes."""


def run(args: Arguments) -> None:
    """Plan, show, train, and say where the model is and what to do with it."""
    result, report = train_and_tell(args)
    if args.json:
        print_json(report)
    else:
        _show(result, report)


def train_and_tell(args: Arguments) -> tuple[Result, dict[str, Any]]:
    """Plan and train, with progress on stderr; returns the run, and what there is to say of it."""
    began = time.monotonic()  # before torch is loaded: the minutes are the user's, not the loop's
    device = args.apply()
    from regard.training import train
    from regard.training.outcome import refuse_mixing
    from regard.training.subjects import SUBJECTS

    if not args.resume:
        refuse_mixing(args.out, resume=False)  # before anything is read
    screen = Screen(quiet=args.quiet)
    plan = None if args.resume else make_plan(args, device)
    if plan:
        screen.plan(plan)
    recipe = plan.recipe if plan else _resumed(args)
    unit = SUBJECTS[recipe.task].unit
    with screen:
        result = train(recipe, args.out, device=device, reporter=screen, resume=args.resume, began=began,
                       corpus=plan.corpus if plan else None)  # fmt: skip
    speed = result.tokens_per_second
    return result, {
        "task": result.recipe.task, "model": result.folder, "reason": result.reason,
        "unit": unit, "steps": result.recipe.loop.steps, "seconds": round(time.monotonic() - began, 1),
        "tokens_per_second": None if speed is None else round(speed),
        "share_of_peak": _share_of_peak(speed, plan, device) if plan and speed and unit == "tokens" else None,
        **result.scores,
    }  # fmt: skip


def make_plan(args: Job, device: torch.device) -> Plan:
    """What the words and flags ask for, as a recipe with its cost; raises ConfigError where they cannot be meant."""
    from regard import ledger
    from regard.training import Recipe, read_recipe
    from regard.training.recipe import DataRecipe
    from regard.training.resolve import changed, cost, planned

    match args.what:
        case [name] if name.endswith(".toml") or name in ledger.names():
            timed = [] if args.minutes is None else [f"loop.minutes={args.minutes}"]
            recipe = read_recipe(Path(name)) if name.endswith(".toml") else ledger.find_recipe(name, device)
            if args.adapt and recipe.adapt is None:
                raise ConfigError("a recipe says itself what its model is adapted to", where="--adapt",
                                  expected="[adapt] in the recipe", got="none",
                                  mend="train by task and files, or write it in")  # fmt: skip
            return cost(changed(recipe, [*timed, *args.changes()]), device)
        case [task, *files] if (task == "translation" and len(files) in (1, 2)) or (task in FILES and files):
            base = Recipe(task=cast(Any, task), data=DataRecipe(train=args.what[1:]))
            minutes = MINUTES if args.minutes is None else args.minutes
            return planned(base, args.changes(), minutes=minutes, device=device)
    raise _not_understood(args.what)


def _not_understood(what: tuple[str, ...]) -> ConfigError:
    from regard import ledger

    expected = f"{', '.join(TASKS)} and its files, a recipe ending in .toml, or one of {', '.join(ledger.names())}"
    if not what:
        return ConfigError("nothing to train on", expected=expected, got="no words", mend="see: regard train --help")
    task, *files = what
    if task in FILES:
        return ConfigError(f"{task} trains on {FILES[task]}", expected="at least one file or folder", got="none",
                           mend=f"name them: regard train {task} FILES --out DIR")  # fmt: skip
    if task in TASKS:
        return ConfigError(f"{task} trains on one table of pairs or two parallel files", expected="1 or 2 files",
                           got=f"{len(files)} files",
                           mend="put pairs of many files into one table; development pairs go after --dev")  # fmt: skip
    near = difflib.get_close_matches(task, [*TASKS, *ledger.names()], n=1)
    mend = f"did you mean {near[0]}?" if near else "see: regard train --help"
    return ConfigError("unknown task", expected=expected, got=task, mend=mend)


def _resumed(args: Arguments) -> Recipe:
    from regard.training.resolve import resumed

    recipe = resumed(args.out, args.changes())
    files = args.what[1:]
    if files and tuple(files) != recipe.data.train:
        expected, mend = " ".join(recipe.data.train), "choose another --out, or leave the files out"
        what, got = "the run in this folder is of other files", " ".join(files)
        raise ConfigError(what, where=args.out, expected=expected, got=got, mend=mend)
    return recipe


def columns_of(text: str | None) -> list[str] | None:
    """The names in "a,b" or "a,b,c"; None where there are none."""
    if text is None:
        return None
    names = [part.strip() for part in text.split(",")]
    if len(names) not in (2, 3) or not all(names):
        raise ConfigError("two names or three are needed, with commas", where="--columns", expected="A,B or A,B,C",
                          got=text, mend="write it like --columns en,de or --columns text,label")  # fmt: skip
    return names


def pair_of(flag: str, text: str | None) -> tuple[str, str] | None:
    """The two names in the value "a,b" of a flag; None where it was not given."""
    if text is None:
        return None
    one, comma, two = (part.strip() for part in text.partition(","))
    if not (one and comma and two) or "," in two:
        mend = f"write it like --{flag} en,de"
        raise ConfigError("two names with a comma are needed", where=f"--{flag}", expected="A,B", got=text, mend=mend)
    return one, two


def _dev(recipe: Recipe) -> tuple[str]:
    """What the model of a recipe can be scored on."""
    return (" ".join(recipe.data.dev or (("SRC", "REF") if recipe.task == "translation" else ("FILES",))),)


def _share_of_peak(speed: float, plan: Plan, device: torch.device) -> float:
    """How much of the machine's measured matrix-product rate the training used."""
    from regard.machine import speeds

    return speed * plan.flops_per_token / speeds(device).matmul_flops[plan.recipe.loop.dtype]


def _show(result: Result, report: dict[str, Any]) -> None:
    rows, share = [("model", str(result.folder))], report["share_of_peak"]
    if result.tokens_per_second is not None:
        speed = f"{result.tokens_per_second:,.0f} {report['unit']} a second"
        speed += "" if share is None else f", {share:.0%} of the measured matrix-product peak"
        rows += [("time", duration(report["seconds"])), ("speed", speed)]
    # The merit is one of the other scores again, the one that says which checkpoint is best.
    shown = {name: value for name, value in result.scores.items() if name != "dev_merit"}
    rows += [(name.replace("_", " "), f"{value:.4g}") for name, value in shown.items()]
    table(["trained", ""], rows)
    for line in NEXT[result.recipe.task].format(result.folder, *_dev(result.recipe)).splitlines():
        print(line)
    print(f"again: regard train {result.folder}/recipe.toml --out DIR")
