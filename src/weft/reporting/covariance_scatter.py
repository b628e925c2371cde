"""The scatter of Figure 3.6 of the CA-MTL thesis: covariance similarity against the change of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.reporting.pictures.scatter import Point, scatter
from weft.reporting.tables import Table
from weft.utils.markup import Html


@dataclass(frozen=True)
class TaskPoint:
    """A task of a model.

    Attributes:
        model: the model's name.
        task: the task.
        similarity: CovSim_i, the mean CovSim with the other tasks (eq. 3.7).
        gain: the change of the score against a reference, in percent of the reference.
    """

    model: str
    task: str
    similarity: float
    gain: float


def covariance_scatter(points: Sequence[TaskPoint], key: str, against: str) -> tuple[Html, str, Html]:
    """The picture, its description and the table of its numbers.

    Args:
        points: at least one; all numbers are finite.
        key: unique in its page.
        against: what scores are compared with, such as `against separate`.
    """
    models = list(dict.fromkeys(point.model for point in points))
    several = len(models) > 1
    drawn = [
        Point(point.task, point.similarity, point.gain, number=models.index(point.model), group=point.model)
        for point in points
    ]
    correlation = pearson([point.similarity for point in points], [point.gain for point in points])
    known = f" Correlation of the two: {correlation:+.2f}." if math.isfinite(correlation) else ""
    above = sum(point.gain >= 0 for point in points)
    whose = f" of {len(models)} models" if several else ""
    description = f"{len(points)} tasks{whose}; {above} at or above the reference.{known}"
    picture = scatter(
        drawn,
        key=key,
        title="Covariance similarity and change of scores",
        description=description,
        x_name="CovSim: mean with the other tasks",
        y_name=f"change of the score in percent, {against}",
        front=False,
        zero=True,
    )
    rows = [[p.task, p.model, f"{p.similarity:.3f}", f"{p.gain:+.2f}"] for p in points]
    columns = ("task", "model", "CovSim", "change in percent")
    return picture, description, Table("CovSim and change of scores", columns, rows, texts=(1,)).html(True)


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The correlation of two lists; nan with fewer than three pairs or without variation."""
    if len(xs) < 3:
        return math.nan
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return across / math.sqrt(spread) if spread > 0 else math.nan
