"""Scoring classifiers, for `regard evaluate`: scores with their intervals, a table by class, pictures, worst errors.

What is unusual: each score comes with the middle 95 % of what it would be on other such examples (bootstrap), and
beside it stands what the commonest class, and on request a bag of words, would score.
What it does not know: how the scores are defined (`regard.tasks.scores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.cli.console import err_console
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.cli.compare import Arguments as ComparedArguments
    from regard.cli.compare import Compared
    from regard.cli.evaluate import Arguments
    from regard.data.labelled import Labelled
    from regard.loaded import Loaded
    from regard.tasks.classification import Labels

Metrics = dict[str, dict[str, Any]]


def evaluate_labels(model: Loaded, args: Arguments) -> tuple[int, Metrics, dict[str, Any]]:
    """(how many examples, the metrics, what else there is to report) of the labelled examples that were named."""
    from regard.data.label_checks import clean_labelled, refuse_unseen

    classifier = model.classifier
    labels = classifier.labels
    examples = clean_labelled(_read(args.data, model, args.columns))
    refuse_unseen(examples, labels.names)
    logits, cut = classifier.logits(examples.texts)
    if left := sum(map(bool, cut)):
        what = "text is longer than the model reads; its end was" if left == 1 else (
            "texts are longer than the model reads; their ends were")  # fmt: skip
        err_console.print(f"{left:,} {what} not looked at")
    targets = labels.targets(examples.labels)
    metrics = _scored(labels, targets, logits)
    more: dict[str, Any] = {"kind": labels.kind}
    if labels.kind != "number":
        more["classes"] = _by_class(labels, targets, logits)
    if labels.kind == "one":
        common = int(np.bincount(targets, minlength=len(labels.names)).argmax())
        metrics["majority_accuracy"] = {"score": float((targets == common).mean())}
    if args.baseline is not None:
        metrics |= _baseline(labels, _read([args.baseline], model, args.columns), examples, targets)
    if args.out is not None:
        more["written"] = write_report(args.out, labels, examples, targets, logits)
    return len(examples), metrics, more


def compare_labels(args: ComparedArguments) -> Compared:
    """What two classifiers say of the same examples, by the first two scores of their kind, in percent."""
    from regard.api import load
    from regard.cli.compare import Compared
    from regard.data.label_checks import clean_labelled, refuse_unseen
    from regard.tasks.scores import paired_p

    models = [load(path, device=args.named_device) for path in (args.one, args.two)]
    labels = [model.classifier.labels for model in models]
    if (labels[0].kind, labels[0].names) != (labels[1].kind, labels[1].names):
        raise ConfigError("the two models do not tell the same classes apart", where=args.two,
                          expected=", ".join(labels[0].names[:10]), got=", ".join(labels[1].names[:10]))  # fmt: skip
    examples = clean_labelled(_read(args.data, models[0], args.columns))
    refuse_unseen(examples, labels[0].names)
    logits = [model.classifier.logits(examples.texts)[0] for model in models]
    scored = [own.scored(own.targets(examples.labels), rows) for own, rows in zip(labels, logits, strict=True)]
    n, metrics = len(examples), Metrics()
    for name in list(scored[0])[:2]:
        one, two = scored[0][name], scored[1][name]
        first, second = (100 * score(np.arange(n)) for score in (one, two))
        metrics[name] = {"one": first, "two": second, "difference": second - first,
                         "p": paired_p(one, two, n, seed=args.seed or 0), "signature": ""}  # fmt: skip
    said = [own.decided(rows).reshape(n, -1) for own, rows in zip(labels, logits, strict=True)]
    return Compared(what="labels", examples=n, same=int((said[0] == said[1]).all(1).sum()), metrics=metrics,
                    twice=models[0].path.samefile(models[1].path))  # fmt: skip


def _read(paths: Sequence[Path], model: Loaded, columns: str | None) -> Labelled:
    from regard.data.labelled import read_labelled

    if not paths:
        raise DataError("no data is given", where="FILE", expected="labelled texts", mend="name it after the model")
    names = columns.split(",") if columns else None
    found = read_labelled(paths, kind=model.classifier.labels.kind, columns=names, until=model.about.get("label_until"))
    for header in found.headers:
        err_console.print(f"note: {header}", markup=False)
    if len(found.texts[0]) != (model.classifier.parts or len(found.texts[0])):
        said = {1: "one text and a label", 2: "two texts and a label"}
        got = f"{len(found.texts[0])} texts and a label"
        raise DataError("the examples are not what the model was trained on", where=found.where(0),
                        expected=said[model.classifier.parts or 1], got=said.get(len(found.texts[0]), got),
                        mend="choose the columns by --columns")  # fmt: skip
    return found


def _scored(labels: Labels, targets: np.ndarray, logits: np.ndarray) -> Metrics:
    """Every score of the kind with its interval; of one class also the loss and the calibration error."""
    import torch

    from regard.tasks.classification import ClassificationTask, probabilities
    from regard.tasks.scores import calibration_error, interval

    n, metrics = len(targets), Metrics()
    for name, score in labels.scored(targets, logits).items():
        low, high = interval(score, n)
        metrics[name] = {"score": score(np.arange(n)), "low": low, "high": high}
    loss = ClassificationTask(labels.kind).of(torch.from_numpy(logits), torch.from_numpy(targets))
    metrics["loss"] = {"score": float(loss) / n}
    if labels.kind == "one":
        sure = probabilities("one", logits).max(1)
        metrics["calibration_error"] = {"score": calibration_error(sure, logits.argmax(1) == targets)}
    return metrics


def _by_class(labels: Labels, targets: np.ndarray, logits: np.ndarray) -> list[dict[str, Any]]:
    """Precision, recall, F1 and support of each class that any example has or was given."""
    from regard.tasks.scores import table_of

    actual = targets > 0 if labels.kind == "several" else targets
    table = table_of(actual, labels.decided(logits), len(labels.names))
    there = np.flatnonzero(table.support + table.predicted)
    return [
        {"label": labels.names[i], "precision": float(table.precision[i]), "recall": float(table.recall[i]),
         "f1": float(table.f1[i]), "support": int(table.support[i])}
        for i in there
    ]  # fmt: skip


def _baseline(labels: Labels, train: Labelled, examples: Labelled, targets: np.ndarray) -> Metrics:
    """The scores of a bag of words after the training examples, under names of their own."""
    from regard.data.label_checks import clean_labelled, refuse_unseen
    from regard.tasks.bag_of_words import bag_of_words

    train = clean_labelled(train)
    refuse_unseen(train, labels.names)
    scores = labels.scored(targets, bag_of_words(labels, train, examples.texts))
    every = np.arange(len(targets))
    return {f"bag_of_words_{name}": {"score": score(every)} for name, score in scores.items()}


def write_report(
    folder: Path, labels: Labels, examples: Labelled, targets: np.ndarray, logits: np.ndarray
) -> list[str]:
    """Write errors.jsonl, the surest mistakes first, and of one class confusion.svg and reliability.svg."""
    from regard.cli.evaluate import write_errors
    from regard.inspect.calibration import draw_confusion, draw_reliability
    from regard.tasks.classification import probabilities
    from regard.tasks.scores import calibration_error, confusion, reliability

    written = write_errors(folder, _errors(labels, examples, logits))
    if labels.kind != "one":
        return written
    said, sure = logits.argmax(1), probabilities("one", logits).max(1)
    present = np.unique(np.concatenate([targets, said]))  # ten thousand classes make no matrix, those met here do
    place = np.zeros(len(labels.names), dtype=np.int64)
    place[present] = np.arange(len(present))
    counts = confusion(place[targets], place[said], len(present))
    draw_confusion(counts, [labels.names[i] for i in present], folder / "confusion.svg")
    right = said == targets
    draw_reliability(reliability(sure, right), calibration_error(sure, right), folder / "reliability.svg")
    return [*written, "confusion.svg", "reliability.svg"]


def _errors(labels: Labels, examples: Labelled, logits: np.ndarray) -> list[dict[str, Any]]:
    """The examples that were got wrong, the surest first; of numbers all, the furthest off first.

    Of several classes each has its own probability; the surest are those whose classes all hold the likeliest.
    """
    from regard.data.labelled import classes_of
    from regard.tasks.classifier import label_of

    rows, several = list[tuple[float, dict[str, Any]]](), labels.kind == "several"
    for i, said in enumerate(label_of(labels, row, len(labels.names) if several else 1, 0) for row in logits):
        true = examples.labels[i]
        if said.label == true or (classes_of(true) and {*classes_of(said.label)} == {*classes_of(true)}):
            continue
        off = abs(said.label - true) if isinstance(said.label, float) and isinstance(true, float) else None
        worst = off if off is not None else said.probability or 0.0
        own = dict(said.likeliest)
        sure = [own[name] for name in classes_of(said.label)] if several else said.probability
        row = {"where": examples.where(i), "true": true, "said": said.label, "probability": sure,
               "text": list(examples.texts[i]) if examples.paired else examples.texts[i][0]}  # fmt: skip
        rows.append((worst, row))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
