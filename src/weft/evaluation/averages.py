"""The papers' averages by name, from tasks' metrics.

`pals_dev` is the mean of the eight values of the PALs paper's development tables, `glue9` that of nine values
(MNLI's two sets apart, WNLI left out) as the papers report them from the GLUE server, `superglue` the mean
over eight tasks, a task of two metrics by their mean. An average of fewer values than its name says is
another number: it is not given; what there is makes up `partial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from weft.errors import WeftError, did_you_mean


class Part(NamedTuple):
    """What counts once in an average: a task's metric, or the mean of several of them."""

    task: str
    metrics: tuple[str, ...]

    @property
    def name(self) -> str:
        """As a reader sees it, such as `cb (accuracy + macro_f1)/2`."""
        if len(self.metrics) == 1:
            return f"{self.task} {self.metrics[0]}"
        return f"{self.task} ({' + '.join(self.metrics)})/{len(self.metrics)}"


def _parts(*given: tuple[str, ...]) -> tuple[Part, ...]:
    return tuple(Part(task, tuple(metrics)) for task, *metrics in given)


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
"""The examples of each task's official validation set (of MNLI the matched one)."""


@dataclass(frozen=True)
class Average:
    """An average, or what there is of it.

    Attributes:
        name: as in `AVERAGES`.
        value: the average, as a share of 1; None where a value is missing.
        values: the parts that there are, with their values.
        missing: the parts that are not there.
    """

    name: str
    value: float | None
    values: Mapping[Part, float]
    missing: tuple[Part, ...]

    @property
    def count(self) -> int:
        """How many values the whole average has."""
        return len(self.values) + len(self.missing)

    @property
    def partial(self) -> float | None:
        """The mean of the values that there are; None of none."""
        return fsum(self.values.values()) / len(self.values) if self.values else None


def average(name: str, tasks: Mapping[str, Mapping[str, float]]) -> Average:
    """One of the papers' averages.

    Args:
        name: one of `AVERAGES`.
        tasks: each task's metrics by name, as shares of 1; `metrics.json` of a run has them under `tasks`.
    """
    if name not in AVERAGES:
        raise WeftError(f"average {name!r} does not exist; {did_you_mean(name, AVERAGES)}")
    values, missing = {}, []
    for part in AVERAGES[name]:
        own = tasks.get(part.task, {})
        if all(metric in own for metric in part.metrics):
            values[part] = fsum(own[metric] for metric in part.metrics) / len(part.metrics)
        else:
            missing.append(part)
    made = Average(name, None, values, tuple(missing))
    return made if missing else Average(name, made.partial, values, ())
