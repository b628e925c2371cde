"""What a trained model must beat: the majority guess and a bag of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.evaluation.metrics import score
from weft.tasks.task import Task

if TYPE_CHECKING:
    from weft.data.split import Split


def majority(task: Task, train: Split, test: Split) -> dict[str, float]:
    """The most frequent training label, or the mean, for every row."""
    gold = np.asarray(test.labels, float)
    labels = np.asarray(train.labels)
    guess = np.bincount(labels).argmax() if task.kind == "classify" else labels.mean(0)
    return score(task.metrics, gold, np.broadcast_to(np.asarray(guess, float), gold.shape))


def bag_of_words(task: Task, train: Split, test: Split) -> dict[str, float]:
    """A linear model on the words and pairs of neighbouring words, without their order.

    TF-IDF of one and two words; for a pair of texts u and v the features are [u, v, |u − v|, u∘v].
    Logistic regression, or ridge regression for numbers, both with scikit-learn's defaults. Where there is
    nothing to learn, a single label or no word, it is the majority guess.
    """
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from threadpoolctl import threadpool_limits

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    labels = np.asarray(train.labels)
    try:
        vectorizer.fit([text for texts in train.texts for text in texts])
    except ValueError:  # texts without a word
        return majority(task, train, test)
    if task.kind == "classify" and len(np.unique(labels)) < 2:
        return majority(task, train, test)

    def features(rows: Sequence[tuple[str, ...]]) -> Any:
        columns = [vectorizer.transform(column) for column in zip(*rows, strict=True)]
        if len(columns) == 2:
            u, v = columns
            columns = [u, v, abs(u - v), u.multiply(v)]
        return hstack(columns).tocsr()

    model: Any = LogisticRegression(max_iter=1000) if task.kind == "classify" else Ridge()
    with threadpool_limits(1):  # many threads on such small products wait for each other for minutes
        model.fit(features(train.texts), labels)
    return score(task.metrics, np.asarray(test.labels, float), model.predict(features(test.texts)))
