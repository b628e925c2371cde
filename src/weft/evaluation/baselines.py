"""Baselines that a trained model should beat: the majority guess and a bag of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.readers.example import ExampleRows
from weft.tasks.kinds import KINDS
from weft.tasks.task import Task

if TYPE_CHECKING:
    from weft.data.splits.split import Split


def majority(task: Task, train: Split, test: Split) -> dict[str, float]:
    """Score the most frequent training label, or the mean, as a constant answer; see `Kind.guess`."""
    guess = KINDS[task.kind]().guess(train.labels or [], task, _examples(test))
    return _score(task, test, guess)


def bag_of_words(task: Task, train: Split, test: Split) -> dict[str, float] | None:
    """Score a linear model on words and word pairs.

    TF-IDF of one and two words; for a pair of texts u and v the features are [u, v, |u − v|, u∘v].
    Logistic regression, or ridge regression for numbers, both with scikit-learn's defaults. If there is
    nothing to learn (a single label, or no word), the majority guess is scored. None for kinds whose answer
    is neither one label nor a number.
    """
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from threadpoolctl import threadpool_limits

    kind = KINDS[task.kind]
    if not (kind.has_classes or kind.has_range):
        return None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    labels: Any = np.asarray(train.labels)
    try:
        vectorizer.fit([text for texts in train.texts for text in texts])
    except ValueError:  # texts without a word
        return majority(task, train, test)
    if task.labels and len(np.unique(labels)) < 2:
        return majority(task, train, test)

    def features(rows: Sequence[tuple[str, ...]]) -> Any:
        columns = [vectorizer.transform(column) for column in zip(*rows, strict=True)]
        if len(columns) == 2:
            u, v = columns
            columns = [u, v, abs(u - v), u.multiply(v)]
        return hstack(columns).tocsr()

    model: Any = LogisticRegression(max_iter=1000) if task.labels else Ridge()
    with threadpool_limits(1):  # many threads on such small products wait for each other for minutes
        model.fit(features(train.texts), labels)
    return _score(task, test, model.predict(features(test.texts)))


def _score(task: Task, test: Split, answers: Any) -> dict[str, float]:
    kind = KINDS[task.kind]()
    gold = kind.gold(test.labels or [], task, _examples(test))
    return kind.score(task.metrics, gold, answers, test.groups)


def _examples(split: Split) -> list[ExampleRows]:
    return [ExampleRows.of_texts(texts) for texts in split.texts]
