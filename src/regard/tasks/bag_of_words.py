"""The baseline for classifiers: which words are in a text, weighed by how rare they are, and a linear model of them.

Words and pairs of neighbouring words, TF-IDF, and logistic regression (of numbers: ridge regression), as scikit-learn
has them; Chinese and Japanese characters count as words. Of two texts each has words of its own, and those that both
have are told apart once more, without which no linear model could compare them.
What is unusual: nothing is tuned. It is what a classifier must beat to have been worth its training.
What it does not know: files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from regard.data.labelled import Labelled
from regard.errors import MissingExtraError
from regard.tasks.classification import Labels

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]")


def bag_of_words(labels: Labels, train: Labelled, texts: Sequence[tuple[str, ...]]) -> np.ndarray:
    """What the baseline says of each text after the training examples: the logits of `Labels.decided`, (N, C).

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.multiclass import OneVsRestClassifier
    except ImportError:
        raise MissingExtraError("scikit-learn", "metrics", "the bag-of-words baseline") from None
    words = TfidfVectorizer(analyzer=_features, sublinear_tf=True)
    seen, new = words.fit_transform(train.texts), words.transform(texts)
    targets = labels.targets(train.labels)
    if labels.kind == "number":
        return np.asarray(Ridge().fit(seen, targets).predict(new)).reshape(-1, 1)
    linear = LogisticRegression(C=10.0, max_iter=1_000)
    scores = np.full((len(texts), len(labels.names)), -np.inf)
    if labels.kind == "several":
        learned = [i for i in range(len(labels.names)) if len(np.unique(targets[:, i])) == 2]  # the others are constant
        scores[:, targets.min(0) > 0] = np.inf
        if learned:
            found = OneVsRestClassifier(linear).fit(seen, targets[:, learned].astype(int)).decision_function(new)
            scores[:, learned] = found.reshape(len(texts), -1)
        return scores
    linear.fit(seen, targets)
    found = linear.decision_function(new)
    scores[:, linear.classes_] = np.stack([-found, found], 1) if found.ndim == 1 else found
    return scores


def _features(texts: tuple[str, ...]) -> list[str]:
    """What a text, or two, is counted by."""
    found = list[str]()
    words = [WORD.findall(text.lower()) for text in texts]
    for number, own in enumerate(words):
        mark = f"{number} " if len(texts) > 1 else ""
        found += [mark + word for word in own]
        found += [f"{mark}{one} {two}" for one, two in pairwise(own)]
    if len(words) > 1:
        found += [f"both {word}" for word in set(words[0]) & set(words[1])]
        found += [f"new {word}" for word in set(words[1]) - set(words[0])]
    return found
