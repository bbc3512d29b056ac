"""Scoring taggers, for `regard evaluate`: precision, recall and F1 of spans, with an interval, and of each kind.

What is unusual: a span counts where its words and its kind are right (conlleval's rule). The words are those of the
file, and what is drawn anew for the interval is whole sentences.
What it does not know: how the scores are defined (`regard.tasks.tagging`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import DataError

if TYPE_CHECKING:
    from regard.cli.evaluate import Arguments
    from regard.loaded import Loaded


def evaluate_tags(model: Loaded, args: Arguments) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
    """(how many sentences, the metrics, what else there is to report) of the tagged sentences that were named."""
    from regard.data.conll import parted, read_tagged, spans_of
    from regard.tasks.scores import interval
    from regard.tasks.tagged import refuse_unseen_names
    from regard.tasks.tagging import joined, pieces_of, span_scores, tag_words

    if not args.data:
        raise DataError("no data is given", where="FILE", expected="words and tags in columns")
    labels, sentences = list(model.about["labels"]), read_tagged(args.data)
    refuse_unseen_names(sentences, sorted({name for _, name in map(parted, labels) if name}))
    pieces = [pieces_of(model.tokenizer, *joined(words), model.model.config.max_len) for words in sentences.words]
    logits = tag_words(model.model, pieces, [len(words) for words in sentences.words], len(labels))
    said = [[labels[i] for i in rows.argmax(1)] for rows in logits]
    scores = span_scores(sentences.tags, said)
    both = [(set(spans_of(true)), set(spans_of(own))) for true, own in zip(sentences.tags, said, strict=True)]
    counts = np.array([(len(there), len(given), len(there & given)) for there, given in both])

    def f1(rows: np.ndarray) -> float:
        there, given, right = counts[rows].sum(0)
        return float(2 * right / max(1, there + given))

    low, high = interval(f1, len(sentences))
    rows = zip(sentences.tags, said, strict=True)
    right_words = [a == b for true, own in rows for a, b in zip(true, own, strict=True)]
    metrics: dict[str, dict[str, Any]] = {
        "span_f1": {"score": scores.f1, "low": low, "high": high}, "span_precision": {"score": scores.precision},
        "span_recall": {"score": scores.recall}, "word_accuracy": {"score": float(np.mean(right_words))},
    }  # fmt: skip
    kinds = [
        {"label": name, "precision": right / max(1, given), "recall": right / max(1, there),
         "f1": 2 * right / max(1, there + given), "support": there}
        for name, (there, given, right) in scores.by_kind.items()
    ]  # fmt: skip
    return len(sentences), metrics, {"words": len(right_words), "classes": kinds}
