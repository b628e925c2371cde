"""The metrics, each over all answers of a split: never averaged over batches.

A new metric is one function in one file and one line in `METRICS`. Which tasks it can judge follows from what
it declares (`weft.metrics.metric`). No metric is ever nan: where a share has nothing below its line, it is 0.
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
    """The metrics by name (`weft.metrics.accuracy`), imported when first used."""
    if name in METRICS:
        return METRICS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_error(name: str) -> bool:
    """Whether less of the metric is better; of a further set (`mse_mm`) as of the task's own."""
    known = [metric for metric in METRICS if name == metric or name.startswith(f"{metric}_")]
    return bool(known) and METRICS[max(known, key=len)].lower_is_better


def fitting(answer_types: Sequence[str], labels: int) -> list[str]:
    """The metrics that can judge answers of one of these types.

    Args:
        answer_types: some of `ANSWER_TYPES`.
        labels: the task's number of labels or outputs.
    """
    return [name for name in METRICS if METRICS[name].fits(answer_types, labels)]


def score(
    names: Sequence[str], gold: Any, found: Any, groups: Sequence[Hashable] | None = None
) -> dict[str, float]:
    """Each metric by name.

    Args:
        names: some of `METRICS`.
        gold: the right answers of the whole split, N of them, as the metrics' answer type says.
        found: the model's answers, N of them.
        groups: which examples are judged together, N hashables; None: each by itself.
    """
    return {name: METRICS[name](gold, found, groups) for name in names}
