"""Covariance similarity against scores (Figure 3.6 of the CA-MTL thesis), if a grid has measured it."""

from __future__ import annotations

from weft.analysis.spread import change_percent
from weft.reporting.comparison_data import ComparisonData, mean_of
from weft.reporting.covariance_scatter import TaskPoint, covariance_scatter
from weft.reporting.page import Section, figure, legend
from weft.utils.markup import join, tag


def covariance_section(data: ComparisonData, key: str) -> Section | None:
    """CovSim of each task with the others, and the change of its score against the baseline."""
    baseline = data.results.get("baseline")
    points = [
        TaskPoint(variant, task, similarity, change_percent(score, reference))
        for variant in data.names
        if variant != baseline
        for task, similarity in _means(data, variant).items()
        if (score := data.mean(variant, task)) is not None
        and (reference := data.mean(str(baseline), task)) is not None
    ]
    points = [point for point in points if point.gain == point.gain]
    if not points:
        return None
    picture, description, table = covariance_scatter(points, f"{key}-0", f"against {baseline}")
    names = list(dict.fromkeys(point.model for point in points))
    caption = f"CovSim and change of the score against {baseline}"
    shown = figure(caption, join([legend(names, dots=True), picture]), table, "fill narrow", [description])
    text = tag(
        "p", "Means over seeds. The more similar the covariances of inputs, the less tasks should disturb."
    )
    return Section(key, "Covariance and scores", join([text, shown]))


def _means(data: ComparisonData, variant: str) -> dict[str, float]:
    """The mean CovSim of each task over seeds."""
    values: dict[str, list[float]] = {}
    for record in data.records.get(variant, {}).values():
        measured = record.measures.get("covariance")
        for task, value in measured.items() if isinstance(measured, dict) else ():
            values.setdefault(task, []).append(float(value))
    return {task: mean for task, of in values.items() if (mean := mean_of(of)) is not None}
