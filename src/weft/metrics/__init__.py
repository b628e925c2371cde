"""Metrics. Each is computed over all answers of a split and never averaged over batches.

A new metric is one function in one file and one line in `METRICS`. Its declaration decides which tasks it can
judge (`weft.metrics.metric`). No metric is ever nan: a ratio with an empty denominator is 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from weft.metrics.metric import ANSWER_TYPES, AnswerType, Metric, metric
from weft.registry import Registry

if TYPE_CHECKING:
    from weft.metrics.entities import entity_f1, entity_precision, entity_recall, surface_f1, token_accuracy
    from weft.metrics.groups import f1a, question_em
    from weft.metrics.labels import accuracy, exact, f1, macro_f1, matthews, micro_f1
    from weft.metrics.numbers import mse, pearson, spearman
    from weft.metrics.ranking import mrr, ndcg, p_at_1
    from weft.metrics.spans import exact_match, token_f1

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "accuracy": "weft.metrics.labels:accuracy",
        "entity_f1": "weft.metrics.entities:entity_f1",
        "entity_precision": "weft.metrics.entities:entity_precision",
        "entity_recall": "weft.metrics.entities:entity_recall",
        "exact": "weft.metrics.labels:exact",
        "exact_match": "weft.metrics.spans:exact_match",
        "f1": "weft.metrics.labels:f1",
        "f1a": "weft.metrics.groups:f1a",
        "macro_f1": "weft.metrics.labels:macro_f1",
        "matthews": "weft.metrics.labels:matthews",
        "micro_f1": "weft.metrics.labels:micro_f1",
        "mrr": "weft.metrics.ranking:mrr",
        "mse": "weft.metrics.numbers:mse",
        "ndcg": "weft.metrics.ranking:ndcg",
        "p_at_1": "weft.metrics.ranking:p_at_1",
        "pearson": "weft.metrics.numbers:pearson",
        "question_em": "weft.metrics.groups:question_em",
        "spearman": "weft.metrics.numbers:spearman",
        "surface_f1": "weft.metrics.entities:surface_f1",
        "token_accuracy": "weft.metrics.entities:token_accuracy",
        "token_f1": "weft.metrics.spans:token_f1",
    },
)

__all__ = [
    "ANSWER_TYPES",
    "METRICS",
    "AnswerType",
    "Metric",
    "accuracy",
    "entity_f1",
    "entity_precision",
    "entity_recall",
    "exact",
    "exact_match",
    "f1",
    "f1a",
    "fitting",
    "is_error",
    "macro_f1",
    "matthews",
    "metric",
    "micro_f1",
    "mrr",
    "mse",
    "ndcg",
    "p_at_1",
    "pearson",
    "question_em",
    "score",
    "spearman",
    "surface_f1",
    "token_accuracy",
    "token_f1",
]


def __getattr__(name: str) -> object:
    """Return a metric by name (`weft.metrics.accuracy`); its module is imported on first use."""
    if name in METRICS:
        return METRICS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_error(name: str) -> bool:
    """Whether lower values are better. `mse_mm`, the metric of a further set `mm`, counts as `mse`."""
    known = [metric for metric in METRICS if name == metric or name.startswith(f"{metric}_")]
    return bool(known) and METRICS[max(known, key=len)].lower_is_better


def fitting(answer_types: Sequence[str], labels: int) -> list[str]:
    """Return the names of the metrics that can judge answers of one of these types.

    Args:
        answer_types: keys of `ANSWER_TYPES`.
        labels: the task's number of labels or outputs.
    """
    return [name for name in METRICS if METRICS[name].fits(answer_types, labels)]


def score(
    names: Sequence[str], gold: Any, predictions: Any, groups: Sequence[Hashable] | None = None
) -> dict[str, float]:
    """Compute several metrics and return them by name.

    Args:
        names: keys of `METRICS`.
        gold: the N correct answers of the whole split, in the form of the metrics' answer type.
        predictions: the model's N answers.
        groups: N hashables; examples with equal ones are judged together. None: every example is judged
            separately.
    """
    return {name: METRICS[name](gold, predictions, groups) for name in names}
