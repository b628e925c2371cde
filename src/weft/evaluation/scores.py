"""The scores of an evaluation; no torch is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from weft.metrics import is_error


class Scores(TypedDict):
    """The result of an evaluation.

    Attributes:
        tasks: each task's metrics; its first metric is its score. Those of a further set end with its name:
            `accuracy_mm`.
        rows: how many examples of each task were evaluated; a further set is under `TASK:SET`.
        of: how many examples the split has.
        average: the mean of the tasks' scores, where an error (mse) counts as 1 − error.
    """

    tasks: dict[str, dict[str, float]]
    rows: dict[str, int]
    of: dict[str, int]
    average: float


def main_score(metrics: Mapping[str, float]) -> float:
    """A task's score, the larger the better: its first metric."""
    name, value = next(iter(metrics.items()))
    return 1 - value if is_error(name) else value


def shown_metric(metric: str, value: float | None) -> str:
    """A metric as all tables and lines show it: in percent, an error unscaled, a missing value as a dash."""
    if value is None:
        return "–"
    return f"{value:.3f}" if is_error(metric) else f"{100 * value:.1f}"
