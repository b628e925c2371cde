"""Metric: a function and a declaration of what it compares.

A metric declares which *answer types* it compares; a kind of task declares which answer types it decodes to.
A task may be judged by every metric whose declaration fits. Neither side lists the other's names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.registry import Registry

if TYPE_CHECKING:
    from weft.metrics.rows import Rows


@dataclass(frozen=True)
class AnswerType:
    """The form of gold answers and predictions for N examples.

    Attributes:
        gold: the form of the gold answers.
        predictions: the form of the model's answers.
        metrics: the metrics of a task that names none; the first is the task's score.
        needs: what a task must have to give such answers, in the words of an error message.
    """

    gold: str
    predictions: str
    metrics: tuple[str, ...]
    needs: str = ""


ANSWER_TYPES: Registry[AnswerType] = Registry(
    "answer type",
    {
        "labels": AnswerType("one label id per example, [N]", "one label id per example, [N]", ("accuracy",)),
        "label_sets": AnswerType(
            "0 or 1 per label, [N, C]", "0 or 1 per label, [N, C]", ("micro_f1", "macro_f1", "exact")
        ),
        "choices": AnswerType(
            "1 per example, [N]", "1 if the choice is a right one, else 0, [N]", ("accuracy",)
        ),
        "numbers": AnswerType("[N] or [N, k]", "[N] or [N, k]", ("pearson", "spearman")),
        "texts": AnswerType(
            "the right texts of each example", "one text per example", ("token_f1", "exact_match")
        ),
        "tags": AnswerType("(words, tags) of each sentence", "one tag per word", ("token_accuracy",)),
        "entities": AnswerType(
            "(words, tags) of each sentence",
            "one tag per word",
            ("entity_f1", "surface_f1"),
            "labels such as O, B-person, I-person",
        ),
        "rankings": AnswerType(
            "the relevance of each candidate", "the score of each candidate", ("mrr", "ndcg", "p_at_1")
        ),
    },
)
"""The answer types: what metrics compare and what kinds of task decode to."""


@dataclass(frozen=True)
class Metric:
    """A number over all answers of a split: a share of 1, or an error (`lower_is_better`).

    Attributes:
        function: `f(gold, predictions, groups) -> float`; never nan.
        compares: keys of `ANSWER_TYPES`.
        labels: the number of labels that a task must have; None: any number.
        needs_groups: whether it judges groups of examples; a task must then set `group`.
        lower_is_better: whether it is an error.
        rows: its row statistics, by which `weft compare` measures how much of its uncertainty comes from the
            rows; None: the intervals of this metric have no row part, and the tables say so.
    """

    function: Callable[[Any, Any, Sequence[Hashable] | None], float]
    compares: tuple[str, ...]
    labels: int | None = None
    needs_groups: bool = False
    lower_is_better: bool = False
    rows: Rows | None = None

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    def fits(self, answer_types: Sequence[str], labels: int) -> bool:
        """Whether it can judge answers of one of these types for a task with this many labels or outputs."""
        return bool(set(self.compares) & set(answer_types)) and self.labels in (None, labels)

    def __call__(self, gold: Any, predictions: Any, groups: Sequence[Hashable] | None = None) -> float:
        """Compute the metric over a whole split.

        Args:
            gold: the N correct answers, in the form of the answer type.
            predictions: the model's N answers.
            groups: N hashables; examples with equal ones are judged together. None: every example is judged
                separately.
        """
        return self.function(gold, predictions, groups)


def metric(
    *compares: str,
    labels: int | None = None,
    needs_groups: bool = False,
    lower_is_better: bool = False,
    rows: Rows | None = None,
) -> Callable[[Callable[..., float]], Metric]:
    """Turn a function `f(gold, predictions, groups)` into a metric.

    Args:
        *compares: keys of `ANSWER_TYPES`.
        labels: the number of labels that a task must have; None: any number.
        needs_groups: whether a task must set `group`: examples with equal groups are judged together.
        lower_is_better: whether it is an error.
        rows: its row statistics; `weft.metrics.rows.Mean(f)` are those of the mean of f(gold, predictions).

    Example:
        >>> from weft.metrics import METRICS, metric
        >>> @metric("numbers", lower_is_better=True)
        ... def largest_error(gold, predictions, groups=None):
        ...     "The largest absolute error."
        ...     return float(max(abs(gold - predictions), default=0))
        >>> METRICS.register("largest_error", largest_error)
    """

    def declare(function: Callable[..., float]) -> Metric:
        return Metric(function, compares, labels, needs_groups, lower_is_better, rows)

    return declare
