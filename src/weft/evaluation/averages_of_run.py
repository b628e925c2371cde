"""The averages of a finished run, and notes on how they differ from those of the papers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.evaluation.averages import AVERAGES, JOINT, VALIDATION_ROWS, Average, average
from weft.evaluation.run_metrics import VALIDATION, RunMetrics, read_metrics


@dataclass(frozen=True)
class RunAverages:
    """The averages of one run.

    Attributes:
        folder: the run's folder.
        run: its metrics.
        averages: each of `AVERAGES` by name.
    """

    folder: str
    run: RunMetrics
    averages: dict[str, Average]

    @property
    def official_rows(self) -> dict[str, int]:
        """The number of rows of the official validation set of each task in an average."""
        parts = [part for average in self.averages.values() for part in average.values]
        return {part.task_in(self.run.tasks): VALIDATION_ROWS[part.task] for part in parts}

    @property
    def unofficial_rows(self) -> dict[str, tuple[int, int]]:
        """(rows, official rows) of each task in an average whose number of rows is not the official one."""
        rows = self.run.rows
        return {
            task: (rows[task], official)
            for task, official in self.official_rows.items()
            if task in rows and rows[task] != official
        }

    @property
    def halved(self) -> list[str]:
        """The tasks evaluated on half of the rows of the official validation set (`halves: true`)."""
        return [task for task, (rows, official) in self.unofficial_rows.items() if rows in _halves(official)]

    def groups_with_tasks(self, joint: str) -> int:
        """How many groups of a joint average have a task that is not in a group before; `rte` is in two."""
        seen: set[str] = set()
        count = 0
        for group in JOINT[joint]:
            tasks = {part.task_in(self.run.tasks) for part in self.averages[group].values}
            count += bool(tasks - seen)
            seen |= tasks
        return count

    @property
    def all_tasks(self) -> dict[str, float]:
        """The first metric of each task, by the names of both: `{"reviews accuracy": 0.9}`."""
        first = {task: next(iter(metrics.items())) for task, metrics in self.run.tasks.items()}
        return {f"{task} {metric}": value for task, (metric, value) in first.items()}

    @property
    def has_other_tasks(self) -> bool:
        """Whether some task is in none of the papers' averages."""
        known = {
            part.task_in(self.run.tasks) for average in self.averages.values() for part in average.values
        }
        return not self.run.tasks.keys() <= known

    @property
    def notes(self) -> Iterator[str]:
        """Differences from the numbers of the papers: the split, its rows, and missing values."""
        halved = self.halved
        if self.run.split not in (None, "validation"):
            only_halves = halved and len(halved) == len(self.official_rows)
            yield f"{self.folder}: scores of the split {self.run.split!r}" + (
                "" if only_halves else "; the papers report validation sets"
            )
        if halved:
            yield (
                f"{self.folder}: {', '.join(halved)}: half of the official validation set, as in MORRIS's "
                "Table 2"
            )
        for task, (rows, official) in self.unofficial_rows.items():
            if task not in halved:
                yield f"{self.folder}: {task} has {rows:,} rows; the official validation set has {official:,}"
        for named in self.averages.values():
            if named.values and named.missing and named.name not in JOINT:
                lacking = ", ".join(part.name for part in named.missing)
                yield f"{self.folder}: {named.name} is not reported: {lacking} is missing"

    def as_dict(self) -> dict[str, Any]:
        """The averages as JSON values, between 0 and 1 as in metrics.json."""
        return {
            "split": self.run.split,
            "all_tasks": {
                "value": sum(self.all_tasks.values()) / len(self.all_tasks),
                "parts": self.all_tasks,
            },
            "other_rows": {
                task: {"rows": rows, "official": official}
                for task, (rows, official) in self.unofficial_rows.items()
            },
            "averages": {
                average.name: {
                    "value": average.value,
                    "partial": average.partial,
                    "values": len(average.values),
                    "of": average.count,
                    "parts": {part.name: value for part, value in average.values.items()},
                    "missing": [part.name for part in average.missing],
                }
                for average in self.averages.values()
            },
        }


def _halves(rows: int) -> tuple[int, int]:
    """The sizes of the two halves of a split without groups."""
    return rows // 2, rows - rows // 2


def averages_of_run(folder: str | Path, split: str = VALIDATION) -> RunAverages:
    """Compute the averages of a finished run.

    Args:
        folder: the run's folder.
        split: `validation`: the scores of the last evaluation in training (metrics.json); `test`: those that
            `weft evaluate --split test` has written (metrics.test.json).
    """
    run = read_metrics(Path(folder), split)
    return RunAverages(str(folder), run, {kind: average(kind, run.tasks) for kind in AVERAGES})
