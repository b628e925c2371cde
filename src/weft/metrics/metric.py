"""What a metric is: a function, and a declaration of what it compares.

A metric declares which *answer types* it compares; a kind of task declares which answer types it decodes to.
A task may be judged by every metric whose declaration fits: neither side lists the names of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.registry import Registry


@dataclass(frozen=True)
class AnswerType:
    """What gold answers and a model's answers may be, for N examples.

    Attributes:
        gold: the right answers.
        found: the model's answers.
        metrics: those that judge a task that names none; the first is its score.
        needs: what a task must have to give such answers, as a message says it.
    """

    gold: str
    found: str
    metrics: tuple[str, ...]
    needs: str = ""


ANSWER_TYPES: Registry[AnswerType] = Registry(
    "answer type",
    {
        "labels": AnswerType("one label id per example, [N]", "one label id per example, [N]", ("accuracy",)),
        "label_sets": AnswerType(
            "0 or 1 per label, [N, C]", "0 or 1 per label, [N, C]", ("micro_f1", "macro_f1", "exact")
        ),
        "choices": AnswerType("1 per example, [N]", "1 where the choice is a right one, [N]", ("accuracy",)),
        "numbers": AnswerType("[N] or [N, k]", "[N] or [N, k]", ("pearson", "spearman")),
        "texts": AnswerType("the right texts of each example", "one text each", ("token_f1", "exact_match")),
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
"""What metrics compare and kinds decode to."""


@dataclass(frozen=True)
class Metric:
    """A number over all answers of a split: a share of 1, but for errors (`lower_is_better`).

    Attributes:
        function: `f(gold, found, groups) -> float`; never nan.
        compares: some of `ANSWER_TYPES`.
        labels: the number of labels that a task must have; None: any.
        needs_groups: whether it judges groups of examples, so that a task must say which (`group`).
        lower_is_better: whether it is an error.
    """

    function: Callable[[Any, Any, Sequence[Hashable] | None], float]
    compares: tuple[str, ...]
    labels: int | None = None
    needs_groups: bool = False
    lower_is_better: bool = False

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    def fits(self, answer_types: Sequence[str], labels: int) -> bool:
        """Whether it can judge answers of one of these types, of a task with so many labels or outputs."""
        return bool(set(self.compares) & set(answer_types)) and self.labels in (None, labels)

    def __call__(self, gold: Any, found: Any, groups: Sequence[Hashable] | None = None) -> float:
        """The metric of a whole split.

        Args:
            gold: the right answers, N of them, as the answer type says.
            found: the model's answers, N of them.
            groups: which examples are judged together, N hashables; None: each by itself.
        """
        return self.function(gold, found, groups)


def metric(
    *compares: str, labels: int | None = None, needs_groups: bool = False, lower_is_better: bool = False
) -> Callable[[Callable[..., float]], Metric]:
    """Make a function `f(gold, found, groups)` a metric.

    Args:
        *compares: some of `ANSWER_TYPES`.
        labels: the number of labels that a task must have.
        needs_groups: whether a task must say which examples are judged together.
        lower_is_better: whether it is an error.

    Example:
        >>> from weft.metrics import METRICS, metric
        >>> @metric("numbers", lower_is_better=True)
        ... def largest_error(gold, found, groups=None):
        ...     "The largest absolute error."
        ...     return float(max(abs(gold - found), default=0))
        >>> METRICS.register("largest_error", largest_error)
    """

    def declared(function: Callable[..., float]) -> Metric:
        return Metric(function, compares, labels, needs_groups, lower_is_better)

    return declared
