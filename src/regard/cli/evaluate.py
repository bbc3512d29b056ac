"""`regard evaluate`: how good a model is on data it has not seen.

What is unusual: references are scored as they stand in the file (law 32), and each score comes with its signature. A
flag that means nothing for the model's task is refused.
What it does not know: how scores are computed (`regard.tasks.metrics`).
"""

from __future__ import annotations

import json
import math
import re
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.common import Common, InUse
from regard.cli.console import err_console, open_output, print_json, progress, table
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.api import Loaded
    from regard.data import Pairs

TABLE = 100
"""Classes that are shown; --json has all."""
OF_TEXTS = ("language-model", "masked-lm")
TASKS = {
    "to": ("translation",), "beam": ("translation",), "columns": ("translation", "classification"),
    "out": ("translation", "classification", "tagging", "question-answering"),
    "baseline": ("classification", "language-model"),
    "unit": OF_TEXTS, "field": OF_TEXTS, "context": OF_TEXTS, "by_position": ("language-model",),
}  # fmt: skip
"""What of the flags is for which tasks; all others are for every one."""


@dataclass(frozen=True, kw_only=True)
class OnPairs(Common):
    """What the verbs have in common that take a model and pairs of texts."""

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run."""
    data: Annotated[Positional[tuple[Path, ...]], arg(metavar="SRC TGT | FILE", help_behavior_hint="(required)")]
    """Two parallel files, or one table of pairs; its column `target_language` says what the targets are in."""
    to: Annotated[str | None, arg(metavar="CODE", help_behavior_hint="")] = None
    """The language of all targets, for a model that has several and data that does not say."""
    columns: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """The columns of source and target in a table, or of text (or two texts) and label."""


@dataclass(frozen=True, kw_only=True)
class Arguments(OnPairs, InUse):
    """Score a model on data it has not seen.

    A translator: BLEU and chrF (sacrebleu, with signatures) of its translations, and the loss on the references. A
    language model: loss, perplexity and bits a byte of texts; a masked one: loss and share of hidden tokens guessed. A
    model that answers questions: exact match and F1, as SQuAD's own scripts count them, with 95 % intervals. A
    classifier: accuracy, F1, Matthews' correlation and calibration, or correlations and errors of numbers, likewise; a
    tagger: precision, recall and F1 of its spans.

    regard evaluate runs/en-de test.en test.de

    regard evaluate runs/novels held-out.txt
    """

    beam: Annotated[int, arg(metavar="N")] = 4
    """Hypotheses kept at each step of the search."""
    out: Annotated[Path | None, arg(metavar="PLACE", help_behavior_hint="")] = None
    """Also write the translations, a line each, into this file. Of the other tasks it is a folder: errors.jsonl, the
    worst first, and of a classifier pictures of its confusions and its calibration; of questions answers.json too, the
    answers by their ids, or these alone into a file named .json."""
    baseline: Annotated[Path | None, arg(metavar="TRAIN", help_behavior_hint="")] = None
    """Also score what is learned from this training data by less: for a classifier by a bag of words and a linear model
    (scikit-learn), for a language model by counts of tokens and of n-grams, and by xz."""
    unit: Annotated[str, arg(metavar="UNIT")] = "file"
    """What of a plain text is one document: file, paragraph, line, or a line that stands between two."""
    field: Annotated[str, arg(metavar="NAME")] = "text"
    """The column or field of the text in tables of documents."""
    context: Annotated[int | None, arg(metavar="T", help_behavior_hint="")] = None
    """How many tokens a language model sees at a time (default: as many as it was made for)."""
    by_position: bool = False
    """Also show a language model's loss by the place in the context."""


def run(args: Arguments) -> None:
    """Score, show."""
    args.apply()
    from regard.api import load

    model = load(args.model, device=args.named_device, dtype=args.dtype)
    refuse_flags(args, model.task)
    model = replace(model, model=model.fast, form=None)  # for losses too, which the plain model would tell else
    began = time.monotonic()
    examples, metrics, more = measure(model, args)
    report = {
        "task": model.task, "model": args.model, "data": list(args.data), "examples": examples, **more,
        "seconds": round(time.monotonic() - began, 2), "metrics": metrics,
    }  # fmt: skip
    if args.json:
        print_json(report)
    else:
        show(metrics, digits=4 if "classes" in more or model.task == "classification" else 2)
        if "classes" in more:
            print()
            show_classes(more["classes"])
        if "by_position" in more:
            print()
            table(["tokens before", "loss"], [(str(row["from"]), f"{row['loss']:.4f}") for row in more["by_position"]])


def refuse_flags(args: Arguments, task: str) -> None:
    """Raise ConfigError for a flag that was given and that models of this task have no use for."""
    usual = {field.name: field.default for field in fields(Arguments)}
    for name, tasks in TASKS.items():
        if task not in tasks and getattr(args, name) != usual[name]:
            raise ConfigError("this flag says nothing to a model of this task", where=f"--{name.replace('_', '-')}",
                              expected=f"a model of the task {' or '.join(tasks)}", got=f"one of the task {task}",
                              mend="leave it out")  # fmt: skip


def measure(model: Loaded, args: Arguments) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
    """(how many examples, the metrics, what else there is to report) of a model on the data that was named."""
    if model.task in ("language-model", "masked-lm"):
        from regard.cli.on_documents import evaluate_documents

        return evaluate_documents(model, args)
    if model.task == "tagging":
        from regard.cli.on_tags import evaluate_tags

        return evaluate_tags(model, args)
    if model.task == "classification":
        from regard.cli.on_labels import evaluate_labels

        return evaluate_labels(model, args)
    if model.task == "question-answering":
        from regard.cli.on_questions import evaluate_questions

        return evaluate_questions(model, args)
    if model.task != "translation":
        from regard.loaded import DOES

        raise ConfigError("this model has nothing to evaluate", where=model.path,
                          expected="a model of a task with scores",
                          got=f"one of the task {model.task}: it can {' and '.join(DOES[model.task])}")  # fmt: skip
    pairs = read_data(args.data, args.columns, args.to)
    outputs, metrics = evaluate(model, pairs, beam=args.beam, quiet=args.quiet)
    if args.out:
        with open_output(args.out, *args.data) as stream:
            stream.writelines(re.sub(r"[\r\n]+", " ", output) + "\n" for output in outputs)
    return len(pairs), metrics, {"beam": args.beam}


def read_data(data: Sequence[Path], columns: str | None, to: str | None) -> Pairs:
    """The pairs of the files, and the language of each target, where the data or the flag says it."""
    from regard.cli.train import pair_of
    from regard.data import read_pairs

    if not data:
        raise ConfigError("no data is given", where="SRC TGT | FILE", expected="two parallel files, or one table",
                          mend="name them after the model")  # fmt: skip
    pairs = read_pairs(data, columns=pair_of("columns", columns))
    empty = [i for i, pair in enumerate(zip(pairs.source, pairs.target, strict=True)) if not all(map(str.strip, pair))]
    if empty:
        what = "pair has" if len(empty) == 1 else "pairs have"
        err_console.print(f"{len(empty):,} {what} an empty side, and count all the same: {pairs.where(empty[0])}")
    return pairs if to is None else replace(pairs, to=[to] * len(pairs))


def evaluate(model: Loaded, pairs: Pairs, *, beam: int, quiet: bool) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The translations of all sources, and the metrics.

    name -> {"score", "signature"} for BLEU and chrF, {"score"} for the loss on the references (nats a target token,
    ends included) and its perplexity. Pairs with a side longer than the model reads have no loss, which is told.
    Of several target languages each is scored apart (`bleu_de`), since they differ in what a word is; `bleu` is their
    mean.
    """
    from regard.tasks.metrics import translation_metrics

    outputs = translations(model, pairs, beam=beam, quiet=quiet)
    codes: Sequence[str | None] = pairs.to or [model.languages[1]] * len(pairs)
    metrics: dict[str, dict[str, Any]] = {}
    for code in sorted({*codes}, key=str):
        rows = [i for i, own in enumerate(codes) if own == code]
        own = translation_metrics([outputs[i] for i in rows], [pairs.target[i] for i in rows], code)
        metrics |= own if len({*codes}) == 1 else {f"{name}_{code}": metric for name, metric in own.items()}
    for name in ("bleu", "chrf") if len({*codes}) > 1 else ():
        scores = [metric["score"] for own, metric in metrics.items() if own.startswith(name)]
        metrics[name] = {"score": sum(scores) / len(scores)}
    return outputs, metrics | _loss(model, pairs)


def translations(model: Loaded, pairs: Pairs, *, beam: int, quiet: bool) -> list[str]:
    """The translation of each source, with progress on stderr."""
    from regard.api import TOGETHER

    outputs: list[str] = []
    with progress("translating", len(pairs), quiet=quiet) as advance, warnings.catch_warnings(action="ignore"):
        for start in range(0, len(pairs), TOGETHER):
            some = slice(start, start + TOGETHER)
            found = model.translate(pairs.source[some], to=pairs.to and pairs.to[some], beam=beam)
            outputs += [translation.text for translation in found]
            advance(len(found), "")
    return outputs


def _loss(model: Loaded, pairs: Pairs) -> dict[str, dict[str, Any]]:
    long = model.too_long(pairs.source, pairs.target, to=pairs.to)
    if long:
        reads = f"the {model.longest_source:,} tokens that the model reads"
        err_console.print(f"{len(long):,} pairs are longer than {reads}: translated in parts, and left out of the loss")
    fitting = pairs.take(sorted({*range(len(pairs))} - {*long}))
    scores = [score for own in model.token_scores(fitting.source, fitting.target, to=fitting.to) for _, score in own]
    loss = -sum(scores) / len(scores) if scores else math.nan
    return {"loss": {"score": loss}, "perplexity": {"score": math.exp(loss)}}


def show(metrics: dict[str, dict[str, Any]], digits: int = 2) -> None:
    """The scores as a table, each with its signature or its interval."""

    def more(metric: dict[str, Any]) -> str:
        if "low" in metric:
            return f"{metric['low']:.{digits}f} to {metric['high']:.{digits}f} (95 %)"
        return str(metric.get("signature", ""))

    rows = [(name, f"{metric['score']:.{digits}f}", more(metric)) for name, metric in metrics.items()]
    table(["metric", "score", "interval" if any("low" in m for m in metrics.values()) else "signature"], rows)


def show_classes(classes: Sequence[dict[str, Any]]) -> None:
    """A row for each class; of more than a hundred for those with the most examples."""
    shown = sorted(classes, key=lambda row: -row["support"])[:TABLE] if len(classes) > TABLE else classes
    table(["class", "precision", "recall", "F1", "support"],
          [(str(row["label"]), *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1")),
            f"{row['support']:,}") for row in shown])  # fmt: skip
    if more := len(classes) - len(shown):
        print(f"and {more:,} more class{'es' * (more > 1)}: --json has all")


def write_errors(folder: Path, rows: Iterable[dict[str, Any]]) -> list[str]:
    """Write what was got wrong into errors.jsonl of the folder of a report, which is made; the names of what it holds.

    Raises ConfigError where the folder is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError("the report is a folder", where="--out", expected="a folder", got=f"the file {folder}",
                          mend="choose another name")  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with open_output(folder / "errors.jsonl") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return ["errors.jsonl"]
