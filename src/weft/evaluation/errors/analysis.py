"""The base class of error analyses, and what they return: tables and confusion matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from weft.data.readers.example import ExampleRows
    from weft.tasks.kinds.decisions import Decisions
    from weft.tasks.task import Task

MOST_ROWS = 1_000
"""A table has at most so many rows in errors.json."""
WIDEST = 50
"""A confusion matrix has at most so many rows; with more labels, there is none."""
TEXT, COUNT, SHARE, NUMBER = "text", "count", "share", "number"
"""How the cells of a column are shown; a share is from 0 to 1."""


@dataclass(frozen=True)
class Table:
    """A table: `columns` are (name, form), `rows` the cells; see docs/reference/errors.md."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: Sequence[Sequence[Any]]

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON values, with at most `MOST_ROWS` rows."""
        return {
            "name": self.name,
            "title": self.title,
            "columns": [{"name": name, "form": form} for name, form in self.columns],
            "rows": [list(row) for row in self.rows[:MOST_ROWS]],
            "left_out": max(0, len(self.rows) - MOST_ROWS),
        }


@dataclass(frozen=True, eq=False)
class Matrix:
    """A confusion matrix: `counts[i, j]` of gold `gold[i]` were predicted as `predicted[j]`."""

    name: str
    title: str
    gold: Sequence[str]
    predicted: Sequence[str]
    counts: NDArray[np.int64]

    def as_dict(self) -> dict[str, Any]:
        """The matrix as JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "gold": list(self.gold),
            "predicted": list(self.predicted),
            "counts": self.counts.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers to N examples of a task, beside their gold answers.

    Attributes:
        task: the task.
        examples: the examples, [N].
        gold: the gold answers, as metrics of this answer type compare them.
        predictions: the model's answers in the same form.
        decisions: the choices among labels or candidates that the answers consist of; None if there are none.
        probability: the probability of each answer, [N]; None if the model has none.
    """

    task: Task
    examples: Sequence[ExampleRows]
    gold: Any
    predictions: Any
    decisions: Decisions | None = None
    probability: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.examples)


class Analysis(ABC):
    """The errors in the answers to one split of a task.

    Args:
        answered: the answers.

    Attributes:
        kinds: the names of the kinds of errors, in the order in which they are reported.
        counts_errors: whether an answer is either right or wrong; numbers are not.
        measure: what `severity` is, in words.
    """

    kinds: ClassVar[tuple[str, ...]]
    counts_errors: ClassVar[bool] = True
    measure: ClassVar[str] = "probability of the wrong answer"

    def __init__(self, answered: Answered) -> None:
        self.answered, self.task = answered, answered.task

    @abstractmethod
    def errors(self) -> list[list[str]]:
        """The kind of each error of each example, [N] lists; a right example has none."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """The tables, the most important one first."""

    def matrices(self) -> list[Matrix]:
        """The confusion matrices."""
        return []

    def severity(self) -> NDArray[np.float64]:
        """How wrong each example is, [N]: the largest probability that the model gives to a wrong choice.

        Only those of wrong examples are read.
        """
        decisions, probability = self.answered.decisions, self.answered.probability
        if decisions is not None:
            return decisions.wrong_confidence(len(self.answered), self.task.temperature or 1.0)
        return np.zeros(len(self.answered)) if probability is None else probability

    @abstractmethod
    def gold(self, i: int) -> Any:
        """The gold answer of example i for a reader, JSON-serializable."""

    @abstractmethod
    def predicted(self, i: int) -> Any:
        """The model's answer to example i for a reader, JSON-serializable."""

    def details(self, i: int) -> list[dict[str, Any]]:
        """The errors of example i one by one, where the two answers alone do not show them."""
        return []


def ratio(part: float, whole: float) -> float:
    """part / whole; 0 if there is nothing, as all metrics of weft have it."""
    return part / whole if whole else 0.0


BY_LABEL = (
    *(("gold", COUNT), ("predicted", COUNT), ("right", COUNT)),
    *(("precision", SHARE), ("recall", SHARE), ("F1", SHARE)),
)
"""The columns of precision and recall, after the one that names the label."""


def label_cells(gold: int, predicted: int, right: int) -> tuple[Any, ...]:
    """The cells of `BY_LABEL`, from counts."""
    return (
        *(int(gold), int(predicted), int(right)),
        *(ratio(right, predicted), ratio(right, gold), ratio(2 * right, gold + predicted)),
    )
