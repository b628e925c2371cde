"""Baselines that a trained model should beat: the majority guess and a bag of words."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.readers.example import ExampleRows
from weft.data.splits.subset import rows_of
from weft.evaluation.scores import main_score
from weft.metrics import is_error
from weft.tasks.kinds import KINDS
from weft.tasks.task import Task
from weft.utils.counter_rng import draw_key
from weft.utils.permutation import permute

if TYPE_CHECKING:
    from weft.data.splits.split import Split

MAJORITY, WORDS = "majority", "bag of words"
"""The names of the baselines in tables and in metrics.json."""
ROWS, ALL_ROWS = 4_000, 16_000
"""The training rows of a quick bag of words: at most so many per task, and so many over all tasks."""
FEATURES = 200_000
"""The weights of a quick bag of words: one per feature and label."""
CHARACTERS = 2_000
"""A quick bag of words reads so many characters of a text."""
SECONDS = 10.0
"""After this time no further quick bag of words is begun."""

_ARTICLE = {MAJORITY: "a majority guess", WORDS: "a bag of words"}

Baselines = dict[str, dict[str, dict[str, float]]]
"""Baseline → task → metrics."""


def majority(task: Task, train: Split, test: Split) -> dict[str, float]:
    """Score the most frequent training label, or the mean, as a constant answer; see `Kind.guess`."""
    guess = KINDS[task.kind]().guess(train.labels or [], task, _examples(test))
    return _score(task, test, guess)


def bag_of_words(task: Task, train: Split, test: Split, quick: bool = False) -> dict[str, float] | None:
    """Score a linear model on words and word pairs.

    TF-IDF of one and two words; for a pair of texts u and v the features are [u, v, |u − v|, u∘v]. The model
    is the one that the kind declares (`Kind.bag_of_words`), with scikit-learn's defaults. If there is nothing
    to learn (a single label, or no word), the majority guess is scored. None for kinds that declare no model.
    The result is the same in every call; no random numbers are drawn.

    Args:
        task: the task.
        train: the rows to fit it on.
        test: the rows to score it on.
        quick: use fewer features, the beginnings of long texts, and fewer iterations.
    """
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    kind = KINDS[task.kind]()
    if kind.bag_of_words is None:
        return None
    most = max(1_000, FEATURES // max(10, task.size or 1)) if quick else None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=most)
    labels: Any = np.asarray(kind.gold(train.labels or [], task, ()))
    end = CHARACTERS if quick else None
    try:
        vectorizer.fit([text[:end] for texts in train.texts for text in texts])
    except ValueError:  # texts without a word
        return majority(task, train, test)
    if task.labels and len(np.unique(labels, axis=0)) < 2:
        return majority(task, train, test)

    def features(rows: Sequence[tuple[str, ...]]) -> Any:
        columns = [
            vectorizer.transform([text[:end] for text in column]) for column in zip(*rows, strict=True)
        ]
        if len(columns) == 2:
            u, v = columns
            columns = [u, v, abs(u - v), u.multiply(v)]
        return hstack(columns).tocsr()

    model = _linear_model(kind.bag_of_words, 100 if quick else 1000)
    # many threads on such small products wait for each other for minutes
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of iterations that do not converge, of labels that all rows have
        model.fit(features(train.texts), labels)
    return _score(task, test, model.predict(features(test.texts)))


def _linear_model(name: str, iterations: int) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    if name == "ridge":
        return Ridge()
    logistic = LogisticRegression(max_iter=iterations)
    return OneVsRestClassifier(logistic) if name == "logistic per label" else logistic


def quick_baselines(
    tasks: Sequence[Task], train: Mapping[str, Split], test: Mapping[str, Split], seed: int = 1
) -> Baselines:
    """Score both baselines within seconds, for the table of a run: see `ROWS` and `SECONDS`.

    Args:
        tasks: the tasks.
        train: the training rows of each task.
        test: the rows of each task that the model is scored on.
        seed: the seed that selects training rows.
    """
    began = time.monotonic()
    most = min(ROWS, ALL_ROWS // len(tasks))
    found: Baselines = {MAJORITY: {}, WORDS: {}}
    for task in tasks:
        found[MAJORITY][task.name] = majority(task, train[task.name], test[task.name])
    for task in tasks:
        rows = train[task.name]
        if len(rows) > most:
            chosen = permute(np.arange(most), len(rows), draw_key(seed, "baseline", task.name))
            rows = rows_of(rows, sorted(int(i) for i in chosen))
        scores = None
        if time.monotonic() - began < SECONDS:
            scores = bag_of_words(task, rows, test[task.name], quick=True)
        found[WORDS][task.name] = scores or {}
    return found


def not_beaten(tasks: Mapping[str, Mapping[str, float]], baselines: Baselines) -> Iterator[str]:
    """Yield a line for each task whose score is not above a baseline's, with what to try.

    Args:
        tasks: the model's metrics by task, as in `Scores`.
        baselines: the baselines' metrics on the same rows.
    """
    for name, metrics in tasks.items():
        metric = next(iter(metrics))
        peers = {peer: scores[name] for peer, scores in baselines.items() if scores.get(name)}
        above = {peer: scores for peer, scores in peers.items() if main_score(metrics) <= main_score(scores)}
        if above and not _is_perfect(metric, main_score(metrics)):
            others = " and ".join(
                f"{_ARTICLE[peer]} ({_shown(metric, x[metric])})" for peer, x in above.items()
            )
            yield (
                f"{name}: {metric} {_shown(metric, metrics[metric])} is not better than {others}: try more "
                "train.steps, a higher train.lr or a different method; weft check reports what is odd about "
                "its labels and lengths"
            )


def _is_perfect(metric: str, score: float) -> bool:
    """Whether no model can be better, so that there is nothing to try."""
    return not is_error(metric) and score >= 1


def _shown(metric: str, value: float) -> str:
    return f"{value:.3f}" if is_error(metric) else f"{100 * value:.1f}"


def _score(task: Task, test: Split, answers: Any) -> dict[str, float]:
    kind = KINDS[task.kind]()
    gold = kind.gold(test.labels or [], task, _examples(test))
    return kind.score(task.metrics, gold, answers, test.groups)


def _examples(split: Split) -> list[ExampleRows]:
    return [ExampleRows.of_texts(texts) for texts in split.texts]
