"""Scoring taggers, for `regard evaluate` and `compare`: precision, recall and F1 of spans, and of each kind.

What is unusual: a span counts where its words and its kind are right (conlleval's rule). The words are those of the
file, and what is drawn anew for the interval is whole sentences.
What it does not know: how the scores are defined (`regard.tasks.tagging`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.cli.compare import Arguments as ComparedArguments
    from regard.cli.compare import Compared
    from regard.cli.evaluate import Arguments
    from regard.data.conll import Tagged
    from regard.loaded import Loaded


def evaluate_tags(model: Loaded, args: Arguments) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
    """(how many sentences, the metrics, what else there is to report) of the tagged sentences that were named."""
    from regard.tasks.scores import interval
    from regard.tasks.tagging import span_scores

    sentences = _read(args.data, model)
    said = _said(model, sentences)
    scores, counts = span_scores(sentences.tags, said), _counts(sentences, said)
    low, high = interval(lambda rows: _f1(counts[rows]), len(sentences))
    right_words = [a == b for true, own in zip(sentences.tags, said, strict=True)
                   for a, b in zip(true, own, strict=True)]  # fmt: skip
    metrics: dict[str, dict[str, Any]] = {
        "span_f1": {"score": scores.f1, "low": low, "high": high}, "span_precision": {"score": scores.precision},
        "span_recall": {"score": scores.recall}, "word_accuracy": {"score": float(np.mean(right_words))},
    }  # fmt: skip
    kinds = [
        {"label": name, "precision": right / max(1, given), "recall": right / max(1, there),
         "f1": 2 * right / max(1, there + given), "support": there}
        for name, (there, given, right) in scores.by_kind.items()
    ]  # fmt: skip
    more: dict[str, Any] = {"words": len(right_words), "classes": kinds}
    if args.out is not None:
        from regard.cli.evaluate import write_errors

        more["written"] = write_errors(args.out, _errors(sentences, said))
    return len(sentences), metrics, more


def compare_tags(args: ComparedArguments) -> Compared:
    """What two taggers say of the same sentences, by F1 of spans, in percent; they must find the same kinds."""
    from regard.api import load
    from regard.cli.compare import Compared
    from regard.tasks.scores import paired_p

    models = [load(path, device=args.named_device) for path in (args.one, args.two)]
    for path, model in zip((args.one, args.two), models, strict=True):
        if model.task != "tagging":
            raise ConfigError("this model tags nothing", where=path, expected="one of tagging", got=model.task)
    if _kinds(models[0]) != _kinds(models[1]):
        raise ConfigError("the two models do not find the same kinds of spans", where=args.two,
                          expected=", ".join(_kinds(models[0])), got=", ".join(_kinds(models[1])))  # fmt: skip
    sentences = _read(args.data, models[0])
    said = [_said(model, sentences) for model in models]
    one, two = (_counts(sentences, own) for own in said)
    first, second = 100 * _f1(one), 100 * _f1(two)
    p = paired_p(lambda rows: _f1(one[rows]), lambda rows: _f1(two[rows]), len(sentences), seed=args.seed or 0)
    metrics = {"span_f1": {"one": first, "two": second, "difference": second - first, "p": p, "signature": ""}}
    return Compared(what="sentences", examples=len(sentences), same=sum(a == b for a, b in zip(*said, strict=True)),
                    metrics=metrics, twice=models[0].path.samefile(models[1].path))  # fmt: skip


def _read(files: Sequence[Path], model: Loaded) -> Tagged:
    """The tagged sentences of the files, all of whose kinds of spans the model knows."""
    from regard.data.conll import read_tagged
    from regard.tasks.tagged import refuse_unseen_names

    if not files:
        raise DataError("no data is given", where="FILE", expected="words and tags in columns",
                        mend="name it after the model")  # fmt: skip
    sentences = read_tagged(files)
    refuse_unseen_names(sentences, _kinds(model))
    return sentences


def _kinds(model: Loaded) -> list[str]:
    from regard.data.conll import parted

    return sorted({name for _, name in map(parted, model.about["labels"]) if name})


def _said(model: Loaded, sentences: Tagged) -> list[list[str]]:
    """The tag that the model gives each word."""
    from regard.tasks.tagging import joined, pieces_of, tag_words

    labels, most = list(model.about["labels"]), model.model.config.max_len
    pieces = [pieces_of(model.tokenizer, *joined(words), most) for words in sentences.words]
    logits = tag_words(model.model, pieces, [len(words) for words in sentences.words], len(labels))
    return [[labels[i] for i in rows.argmax(1)] for rows in logits]


def _counts(sentences: Tagged, said: Sequence[Sequence[str]]) -> np.ndarray:
    """(N, 3): how many spans each sentence has, was given, and how many of these are right."""
    from regard.data.conll import spans_of

    both = [(set(spans_of(true)), set(spans_of(own))) for true, own in zip(sentences.tags, said, strict=True)]
    return np.array([(len(there), len(given), len(there & given)) for there, given in both])


def _errors(sentences: Tagged, said: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The sentences with a span that was missed, or given and not there, those with the most such spans first.

    Start and stop are characters of the words with a space between, as `regard tag` has them.
    """
    from regard.data.conll import spans_of
    from regard.tasks.tagging import joined

    rows = list[dict[str, Any]]()
    for i, (words, true, own) in enumerate(zip(sentences.words, sentences.tags, said, strict=True)):
        there, given = spans_of(true), spans_of(own)
        if not (wrong := len({*there} ^ {*given})):
            continue
        text, places = joined(words)
        shown = [
            [{"start": places[first][0], "stop": places[stop - 1][1], "label": name,
              "text": text[places[first][0] : places[stop - 1][1]]} for first, stop, name in spans]
            for spans in (there, given)
        ]  # fmt: skip
        rows.append({"where": sentences.where(i), "wrong": wrong, "true": shown[0], "said": shown[1], "text": text})
    return sorted(rows, key=lambda row: -row["wrong"])


def _f1(counts: np.ndarray) -> float:
    there, given, right = counts.sum(0)
    return float(2 * right / max(1, there + given))
