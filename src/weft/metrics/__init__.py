"""The metrics, each over all answers of a split: never averaged over batches. One family a file.

Every metric is `f(gold, found, groups) -> float`, a share of 1 but for errors (`LOWER_IS_BETTER`); most leave
`groups` alone. What `gold` and `found` are, the families say. No metric is ever nan: where a share has
nothing below its line, it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from weft.metrics.entities import entity_f1, entity_precision, entity_recall, surface_f1, token_accuracy
from weft.metrics.groups import f1a, question_em
from weft.metrics.labels import accuracy, exact, f1, macro_f1, matthews, micro_f1
from weft.metrics.numbers import mse, pearson, spearman
from weft.metrics.ranking import mrr, ndcg, p_at_1
from weft.metrics.spans import exact_match, token_f1

Metric = Callable[[Any, Any, Sequence[Hashable] | None], float]

METRICS: Mapping[str, Metric] = {
    metric.__name__: metric
    for metric in (
        *(accuracy, f1, macro_f1, micro_f1, matthews, exact),
        *(f1a, question_em),
        *(pearson, spearman, mse),
        *(exact_match, token_f1),
        *(entity_f1, entity_precision, entity_recall, surface_f1, token_accuracy),
        *(mrr, ndcg, p_at_1),
    )
}
LOWER_IS_BETTER = ("mse",)


def is_error(name: str) -> bool:
    """Whether less of the metric is better; of a further set (`mse_mm`) as of the task's own."""
    return any(name == error or name.startswith(f"{error}_") for error in LOWER_IS_BETTER)


__all__ = ["LOWER_IS_BETTER", "METRICS", "Metric", "is_error", "score", *METRICS]


def score(
    names: Sequence[str], gold: Any, found: Any, groups: Sequence[Hashable] | None = None
) -> dict[str, float]:
    """Each metric by name.

    Args:
        names: some of `METRICS`.
        gold: the right answers of the whole split, N of them, as the metrics' family says.
        found: the model's answers, N of them.
        groups: which examples are judged together, N hashables; None: each by itself.
    """
    return {name: METRICS[name](gold, found, groups) for name in names}
