"""`regard compare`: two models on the same data, and whether the difference between them is real.

What is unusual: the answer is a sentence. The test is a paired bootstrap (Koehn 2004), sacrebleu's for translations:
the same examples are drawn anew a thousand times for both models, and p says how often a difference as large would come
of the draw alone.
What it does not know: how scores are computed (sacrebleu), nor which of two equal models is the better one for you.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from regard.cli import evaluate
from regard.cli.common import Common
from regard.cli.console import print_json, table
from regard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


SIGNIFICANT = 0.05
NAMES = {
    "bleu": "BLEU", "chrf": "chrF", "exact": "exact match", "f1": "F1", "accuracy": "accuracy", "macro_f1": "macro F1",
    "micro_f1": "micro F1", "spearman": "Spearman", "pearson": "Pearson", "span_f1": "F1 of spans",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Say of two models on the same data whether one is really better (paired bootstrap).

    Translators by BLEU and chrF; models that answer questions by exact match and F1; taggers by F1 of spans;
    classifiers by accuracy and macro F1, or micro and macro F1, or correlations.

    regard compare runs/old runs/new test.en test.de

    regard compare runs/qa-old runs/qa-new dev.json

    --seed is the seed of the bootstrap.
    """

    one: Annotated[Positional[Path], arg(metavar="MODEL_A")]
    """The folder of a model or a run: what is compared with."""
    two: Annotated[Positional[Path], arg(metavar="MODEL_B")]
    """Another one."""
    data: Annotated[Positional[tuple[Path, ...]], arg(metavar="SRC TGT | FILE", help_behavior_hint="(required)")]
    """Two parallel files, or one table of pairs."""
    to: Annotated[str | None, arg(metavar="CODE", help_behavior_hint="")] = None
    """The language of the references, for models that have several and data that does not say."""
    beam: Annotated[int, arg(metavar="N")] = 4
    """Hypotheses kept at each step of the search."""
    columns: Annotated[str | None, arg(metavar="A,B", help_behavior_hint="")] = None
    """The columns of source and reference in a table."""


def run(args: Arguments) -> None:
    """Have both models do the same, test, and say it."""
    args.apply()
    from regard.hub.folder import describe_model

    task = describe_model(args.one).about.get("task")
    if task == "classification":
        from regard.cli.on_labels import compare_labels

        _show(args, compare_labels(args))
    elif task == "question-answering":
        from regard.cli.on_questions import compare_questions

        _show(args, compare_questions(args))
    elif task == "tagging":
        from regard.cli.on_tags import compare_tags

        _show(args, compare_tags(args))
    else:
        _show(args, _translate_twice(args))


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What two models made of the same data.

    Attributes:
        what: they made, in the plural.
        examples, same: how many there are, and of how many it is the same.
        metrics: name -> "one", "two", "difference", "p" and "signature"; see `compare`.
        twice: it was one model.
        more: to be reported.
    """

    what: str
    examples: int
    same: int
    metrics: dict[str, dict[str, Any]]
    twice: bool
    more: dict[str, Any] = field(default_factory=dict)


def _translate_twice(args: Arguments) -> Compared:
    from regard.api import load

    pairs = evaluate.read_data(args.data, args.columns, args.to)
    if len(languages := sorted({*(pairs.to or ())})) > 1:  # BLEU has no one way to cut the words of several
        raise ConfigError("the references are in several languages", expected="one", got=", ".join(languages),
                          mend="compare on one of them at a time")  # fmt: skip
    models = [load(path, device=args.named_device) for path in (args.one, args.two)]
    language = pairs.to[0] if pairs.to else models[0].languages[1]
    outputs = [evaluate.translations(model, pairs, beam=args.beam, quiet=args.quiet) for model in models]
    return Compared(
        what="translations", examples=len(pairs), same=sum(one == two for one, two in zip(*outputs, strict=True)),
        metrics=compare(outputs[0], outputs[1], pairs.target, language, seed=args.seed),
        twice=models[0].path.samefile(models[1].path), more={"beam": args.beam},
    )  # fmt: skip


def _show(args: Arguments, found: Compared) -> None:
    sentences = [_sentence(NAMES[name], metric) for name, metric in found.metrics.items()]
    if found.same == found.examples:
        what = "the same model twice" if found.twice else "two models that agree"
        sentences = [f"{what}: every one of the {found.examples:,} {found.what} is the same"]
    if args.json:
        print_json({"models": [args.one, args.two], "data": list(args.data), "examples": found.examples, **found.more,
                    f"same_{found.what}": found.same, "metrics": found.metrics, "sentences": sentences})  # fmt: skip
        return
    rows = [
        (name, f"{m['one']:.2f}", f"{m['two']:.2f}", f"{m['difference']:+.2f}", f"{m['p']:.3f}", m["signature"])
        for name, m in found.metrics.items()
    ]
    table(["metric", str(args.one), str(args.two), "difference", "p", "signature"], rows)
    print("\n" + "\n".join(sentences))


def compare(
    one: Sequence[str], two: Sequence[str], references: Sequence[str], language: str | None, *, seed: int | None = None
) -> dict[str, dict[str, Any]]:
    """sacrebleu's paired bootstrap of two outputs of the same N sources.

    {"bleu": {"one", "two", "difference" (two less one, in points), "p", "signature"}, "chrf": {...}}.
    """
    from sacrebleu.significance import PairedTest

    from regard.tasks.metrics import metrics_for

    if seed is not None:
        os.environ["SACREBLEU_SEED"] = str(seed)  # the only way in that sacrebleu has
    objects = metrics_for(language)
    test = PairedTest([("one", one), ("two", two)], objects, [references], test_type="bs")
    signatures, scores = test()
    found = {}
    for name, theirs in zip(objects, signatures, strict=True):
        results: list[Any] = scores[theirs]
        a, b = results
        # Equal scores are no evidence of a difference, but sacrebleu counts draws that are strictly larger: p = 0.001.
        p = b.p_value if a.score != b.score else 1.0
        found[name] = {"one": a.score, "two": b.score, "difference": b.score - a.score, "p": p,
                       "signature": str(signatures[theirs])}  # fmt: skip
    return found


def _sentence(metric: str, found: dict[str, Any]) -> str:
    size, p = f"{abs(found['difference']):.1f} {metric}", f"p = {found['p']:.3f}"
    if found["p"] >= SIGNIFICANT:
        return f"{metric}: the two cannot be told apart on this data (a difference of {size}, {p})"
    better = "second" if found["difference"] > 0 else "first"
    return f"{metric}: the {better} model is better: the difference of {size} is real ({p})"
