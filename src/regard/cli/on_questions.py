"""Scoring on questions, for `regard evaluate` and `compare`: exact match and F1, as SQuAD's own scripts count them.

What is unusual: on a set where some questions have no answer, also the best that another threshold would have scored,
and that threshold; it was found on the set itself, and so is for looking at alone.
What it does not know: flags, and how results are shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.cli.console import err_console, open_output, progress
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.cli.compare import Arguments as ComparedArguments
    from regard.cli.compare import Compared
    from regard.cli.evaluate import Arguments
    from regard.data.squad import Questions
    from regard.loaded import Loaded
    from regard.tasks.extractive_qa import Answer
    from regard.tasks.squad_metrics import Scores

Metrics = dict[str, dict[str, Any]]


def evaluate_questions(model: Loaded, args: Arguments) -> tuple[int, Metrics, dict[str, Any]]:
    """(how many questions, the metrics, what else there is to report) of the questions that were named.

    With --out the answers are written too, as SQuAD's scripts read them: {"id": "answer"}; into a folder, with errors.
    """
    from regard.tasks.squad_metrics import best_threshold, score_answers

    questions = _read(args.data)
    spans, said = answers(model, questions, quiet=args.quiet)
    scores = score_answers(said, questions.items)
    metrics = scores.metrics()
    if not scores.possible.all():
        always = score_answers([span.text for span in spans], questions.items)
        odds = np.array([span.null_odds for span in spans])
        for name, values in (("exact", always.exact), ("f1", always.f1)):
            score, threshold = best_threshold(values, odds, scores.possible)
            said_of_it = f"null threshold {threshold:.3f}"
            metrics[f"best_{name}"] = {"score": score, "null_threshold": threshold, "signature": said_of_it}
    written = _write(args, questions, said, scores) if args.out else []
    return len(questions), metrics, {"written": written} if written else {}


def _write(args: Arguments, questions: Questions, said: Sequence[str], scores: Scores) -> list[str]:
    """Write the answers, into a file or into a folder with what was got wrong; the names in the folder."""
    from regard.cli.evaluate import write_errors

    out = args.out or Path("-")
    file = str(out) == "-" or (not out.is_dir() if out.exists() else bool(out.suffix))
    written = [] if file else [*write_errors(out, _errors(questions, said, scores)), "answers.json"]
    by_id = {question.id: text for question, text in zip(questions, said, strict=True)}
    with open_output(out if file else out / "answers.json", *args.data) as stream:
        stream.write(json.dumps(by_id, ensure_ascii=False, indent=1) + "\n")
    return written


def _errors(questions: Questions, said: Sequence[str], scores: Scores) -> list[dict[str, Any]]:
    """The questions whose answer is not exactly one that was expected, those of the least F1 (in per cent) first."""
    rows = [
        {"id": question.id, "where": question.where, "f1": 100 * float(f1), "question": question.question,
         "said": text, "expected": list(dict.fromkeys(reference.text for reference in question.answers))}
        for question, text, exact, f1 in zip(questions, said, scores.exact, scores.f1, strict=True) if not exact
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row["f1"])


def compare_questions(args: ComparedArguments) -> Compared:
    """What two models answer to the same questions, by exact match and F1."""
    from regard.api import load
    from regard.cli.compare import Compared
    from regard.tasks.squad_metrics import paired_p, score_answers

    questions = _read(args.data)
    models = [load(path, device=args.named_device) for path in (args.one, args.two)]
    said = [answers(model, questions, quiet=args.quiet)[1] for model in models]
    one, two = (score_answers(texts, questions.items) for texts in said)
    signature, metrics = one.metrics()["exact"]["signature"], Metrics()
    for name, a, b in (("exact", one.exact, two.exact), ("f1", one.f1, two.f1)):
        first, second = 100 * float(a.mean()), 100 * float(b.mean())
        metrics[name] = {"one": first, "two": second, "difference": second - first,
                         "p": paired_p(a, b, seed=args.seed or 0), "signature": signature}  # fmt: skip
    return Compared(
        what="answers", examples=len(questions), same=sum(a == b for a, b in zip(*said, strict=True)), metrics=metrics,
        twice=models[0].path.samefile(models[1].path),
    )  # fmt: skip


def answers(model: Loaded, questions: Questions, *, quiet: bool) -> tuple[list[Answer], list[str]]:
    """The likeliest span for each question, whatever the odds; and what the model says: it, or "" for no answer."""
    from regard.tasks.extractive_qa import Answerer

    if model.task != "question-answering":
        raise ConfigError("this model answers no questions", where=model.path, expected="one of question-answering",
                          got=model.task)  # fmt: skip
    answerer = Answerer(model.model, model.tokenizer, model.about)
    spans: list[Answer] = []
    asked, contexts = [q.question for q in questions], [q.context for q in questions]
    with progress("answering", len(questions), quiet=quiet) as advance:
        for some in answerer.in_parts(asked, contexts, null_threshold=math.inf):
            spans += some
            advance(len(some), "")
    return spans, ["" if span.null_odds > answerer.rules.threshold else span.text for span in spans]


def _read(files: Sequence[Path]) -> Questions:
    from regard.data.question_checks import check_questions
    from regard.data.squad import read_questions

    if not files:
        raise ConfigError("no data is given", where="FILE", expected="SQuAD's JSON, or a table of questions",
                          mend="name it after the model")  # fmt: skip
    questions = read_questions(files)
    nowhere = next(finding for finding in check_questions(questions) if finding.name == "nowhere")
    if nowhere.count:
        err_console.print(f"note: {nowhere.sentence}")
    return questions
