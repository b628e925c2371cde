"""RunRows: the row statistics of all sets that one run was evaluated on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from weft.errors import WeftError
from weft.metrics.rows import Units
from weft.tasks.task import ALSO


@dataclass(frozen=True)
class SetRows:
    """The row statistics of one evaluated set.

    Attributes:
        rows: the number of its examples, N.
        units: what is resampled: the examples, or groups of them.
        gold: a fingerprint of the gold answers and groups. Runs can be compared row by row if it is equal.
        scores: the metrics of the set, in the task's order.
        arrays: the stored arrays of each metric that declares row statistics, by metric and name.
    """

    rows: int
    units: Units
    gold: str
    scores: dict[str, float]
    arrays: dict[str, dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class RunRows:
    """The row statistics of one run.

    Attributes:
        sets: one entry per evaluated set, under `TASK`, or `TASK:SET` for a further set such as `mnli:mm`.
    """

    sets: dict[str, SetRows] = field(default_factory=dict)

    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of each task, as in `Scores["tasks"]`; those of a further set end with its name."""
        metrics: dict[str, dict[str, float]] = {}
        for name, rows in self.sets.items():
            task, _, further = name.partition(ALSO)
            suffix = f"_{further}" if further else ""
            metrics.setdefault(task, {}).update(
                {f"{metric}{suffix}": value for metric, value in rows.scores.items()}
            )
        return metrics

    def merged(self, *others: RunRows) -> RunRows:
        """Return the sets of several runs as those of one: one model per task counts as one variant."""
        sets: dict[str, SetRows] = dict(self.sets)
        for other in others:
            if twice := sorted(sets.keys() & other.sets.keys()):
                raise WeftError(f"{', '.join(twice)}: two runs of one variant and seed have it; expected one")
            sets |= other.sets
        return RunRows(sets)

    def only(self, tasks: Mapping[str, object] | set[str]) -> RunRows:
        """Return the sets of some tasks."""
        return RunRows({name: rows for name, rows in self.sets.items() if name.partition(ALSO)[0] in tasks})
