"""The averages that papers report, by name, computed from the metrics of tasks.

`pals_dev` is the mean of the eight values of the PALs paper's development tables, `glue9` that of nine values
(MNLI's two sets separately, without WNLI) as the papers report them from the GLUE server, `superglue` the
mean over eight tasks, where a task with two metrics counts by their mean. If a value is missing, the average
is not reported; the mean of the values that are there is `partial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from weft.errors import WeftError, did_you_mean


class Part(NamedTuple):
    """One value of an average: a metric of a task, or the mean of several of its metrics."""

    task: str
    metrics: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that is shown, such as `cb (accuracy + macro_f1)/2`."""
        if len(self.metrics) == 1:
            return f"{self.task} {self.metrics[0]}"
        return f"{self.task} ({' + '.join(self.metrics)})/{len(self.metrics)}"


def _parts(*rows: tuple[str, ...]) -> tuple[Part, ...]:
    return tuple(Part(task, tuple(metrics)) for task, *metrics in rows)


AVERAGES: Mapping[str, tuple[Part, ...]] = {
    "pals_dev": _parts(
        ("mnli", "accuracy"),
        ("qqp", "accuracy"),
        ("qnli", "accuracy"),
        ("sst2", "accuracy"),
        ("cola", "matthews"),
        ("stsb", "pearson"),
        ("mrpc", "accuracy"),
        ("rte", "accuracy"),
    ),
    "glue9": _parts(
        ("mnli", "accuracy"),
        ("mnli", "accuracy_mm"),
        ("qqp", "f1"),
        ("qnli", "accuracy"),
        ("sst2", "accuracy"),
        ("cola", "matthews"),
        ("stsb", "spearman"),
        ("mrpc", "f1"),
        ("rte", "accuracy"),
    ),
    "superglue": _parts(
        ("boolq", "accuracy"),
        ("cb", "accuracy", "macro_f1"),
        ("copa", "accuracy"),
        ("multirc", "f1a", "question_em"),
        ("record", "token_f1", "exact_match"),
        ("rte", "accuracy"),
        ("wic", "accuracy"),
        ("wsc", "accuracy"),
    ),
}

VALIDATION_ROWS: Mapping[str, int] = {
    "cola": 1043,
    "mnli": 9815,
    "mrpc": 408,
    "qnli": 5463,
    "qqp": 40430,
    "rte": 277,
    "sst2": 872,
    "stsb": 1500,
    "boolq": 3270,
    "cb": 56,
    "copa": 100,
    "multirc": 4848,
    "record": 10000,
    "wic": 638,
    "wsc": 104,
}
"""The number of examples of each task's official validation set (for MNLI the matched one)."""


@dataclass(frozen=True)
class Average:
    """An average, possibly with missing values.

    Attributes:
        name: as in `AVERAGES`.
        value: the average, between 0 and 1; None if a value is missing.
        values: the values that are there, by part.
        missing: the parts without a value.
    """

    name: str
    value: float | None
    values: Mapping[Part, float]
    missing: tuple[Part, ...]

    @property
    def count(self) -> int:
        """The number of values of the complete average."""
        return len(self.values) + len(self.missing)

    @property
    def partial(self) -> float | None:
        """The mean of the values that are there; None if there are none."""
        return fsum(self.values.values()) / len(self.values) if self.values else None


def average(name: str, tasks: Mapping[str, Mapping[str, float]]) -> Average:
    """Compute one of `AVERAGES`.

    Args:
        name: one of `AVERAGES`.
        tasks: the metrics of each task by name, between 0 and 1, as under `tasks` in a run's `metrics.json`.
    """
    if name not in AVERAGES:
        raise WeftError(f"average {name!r} does not exist; {did_you_mean(name, AVERAGES)}")
    values, missing = {}, []
    for part in AVERAGES[name]:
        scores = tasks.get(part.task, {})
        if all(metric in scores for metric in part.metrics):
            values[part] = fsum(scores[metric] for metric in part.metrics) / len(part.metrics)
        else:
            missing.append(part)
    made = Average(name, None, values, tuple(missing))
    return made if missing else Average(name, made.partial, values, ())
