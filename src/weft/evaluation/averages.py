"""The averages that papers report, by name, computed from the metrics of tasks.

`pals_dev` is the mean of the eight values of the PALs paper's development tables, `glue9` that of nine values
(MNLI's two sets separately, without WNLI) as the papers report them from the GLUE server, `superglue` the
mean over eight tasks, where a task with two metrics counts by their mean, `mrqa` that of the F1 of six sets
and `ner` the F1 of entities of WNUT17. `ca_mtl24` is the mean over the 24 values of these last four, as in
Table 3.4 of the CA-MTL thesis. If a value is missing, the average is not reported; the mean of the values
that are there is `partial`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from weft.errors import WeftError, did_you_mean
from weft.suites.overlaps import twin_name


class Part(NamedTuple):
    """One value of an average: a metric of a task, or the mean of several of its metrics.

    Attributes:
        suite: the suite of the task.
        task: its name in the suite.
        metrics: one metric, or several whose mean is the value.
    """

    suite: str
    task: str
    metrics: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that is shown, such as `cb (accuracy + macro_f1)/2`."""
        return f"{self.task} {self.metric}"

    @property
    def metric(self) -> str:
        """The metric, or the mean of several: `(accuracy + macro_f1)/2`."""
        if len(self.metrics) == 1:
            return self.metrics[0]
        return f"({' + '.join(self.metrics)})/{len(self.metrics)}"

    def task_in(self, tasks: Iterable[str]) -> str:
        """The task's name in a run, which is `SUITE_TASK` for a task that two suites have (`twins`)."""
        apart = twin_name(self.suite, self.task)
        return apart if apart in tasks else self.task

    def value_in(self, tasks: Mapping[str, Mapping[str, float]]) -> float | None:
        """The value, from the metrics of a run's tasks; None if it is missing."""
        scores = tasks.get(self.task_in(tasks), {})
        if not all(metric in scores for metric in self.metrics):
            return None
        return fsum(scores[metric] for metric in self.metrics) / len(self.metrics)


def _parts(suite: str, *rows: tuple[str, ...]) -> tuple[Part, ...]:
    return tuple(Part(suite, task, tuple(metrics)) for task, *metrics in rows)


_GROUPS: Mapping[str, tuple[Part, ...]] = {
    "pals_dev": _parts(
        "glue",
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
        "glue",
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
        "superglue",
        ("boolq", "accuracy"),
        ("cb", "accuracy", "macro_f1"),
        ("copa", "accuracy"),
        ("multirc", "f1a", "question_em"),
        ("record", "token_f1", "exact_match"),
        ("rte", "accuracy"),
        ("wic", "accuracy"),
        ("wsc", "accuracy"),
    ),
    "mrqa": _parts(
        "mrqa",
        ("mrqa_squad", "token_f1"),
        ("newsqa", "token_f1"),
        ("triviaqa", "token_f1"),
        ("searchqa", "token_f1"),
        ("hotpotqa", "token_f1"),
        ("naturalquestions", "token_f1"),
    ),
    "ner": _parts("wnut17", ("wnut17", "entity_f1")),
}

JOINT: Mapping[str, tuple[str, ...]] = {"ca_mtl24": ("glue9", "superglue", "mrqa", "ner")}
"""The averages over all values of several others."""

AVERAGES: Mapping[str, tuple[Part, ...]] = {
    **_GROUPS,
    **{name: tuple(part for group in groups for part in _GROUPS[group]) for name, groups in JOINT.items()},
}
"""The values of each average, by its name. `train.best` takes these names too."""

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
    "mrqa_squad": 10507,
    "newsqa": 4212,
    "triviaqa": 7785,
    "searchqa": 16980,
    "hotpotqa": 5901,
    "naturalquestions": 12836,
    "wnut17": 1009,
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
        value = part.value_in(tasks)
        if value is None:
            missing.append(part)
        else:
            values[part] = value
    made = Average(name, None, values, tuple(missing))
    return made if missing else Average(name, made.partial, values, ())
