"""The papers' averages of a finished run, and what keeps them from being the papers' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.evaluation.averages import AVERAGES, VALIDATION_ROWS, Average, average
from weft.evaluation.run_metrics import RunMetrics, read_metrics


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
    def other_rows(self) -> dict[str, tuple[int, int]]:
        """The tasks in an average whose number of rows is not the official one: (theirs, the official)."""
        parts = [part.task for one in self.averages.values() for part in one.values]
        rows = self.run.rows
        return {
            task: (rows[task], VALIDATION_ROWS[task])
            for task in dict.fromkeys(parts)
            if task in rows and rows[task] != VALIDATION_ROWS[task]
        }

    @property
    def notes(self) -> Iterator[str]:
        """What keeps the numbers from being the papers': the split, its rows, and values that are missing."""
        if self.run.split not in (None, "validation"):
            yield f"{self.folder}: of the split {self.run.split!r}; the papers' are of validation sets"
        for task, (rows, official) in self.other_rows.items():
            yield f"{self.folder}: {task} is of {rows:,} rows; the official validation set has {official:,}"
        for one in self.averages.values():
            if one.values and one.missing:
                lacking = ", ".join(part.name for part in one.missing)
                yield f"{self.folder}: {one.name} is not given, without {lacking}"

    def as_dict(self) -> dict[str, Any]:
        """Values as shares of 1, as in metrics.json."""
        return {
            "split": self.run.split,
            "other_rows": {
                task: {"rows": rows, "official": official}
                for task, (rows, official) in self.other_rows.items()
            },
            "averages": {
                one.name: {
                    "value": one.value,
                    "partial": one.partial,
                    "values": len(one.values),
                    "of": one.count,
                    "parts": {part.name: value for part, value in one.values.items()},
                    "missing": [part.name for part in one.missing],
                }
                for one in self.averages.values()
            },
        }


def averages_of_run(folder: str | Path) -> RunAverages:
    """The papers' averages of a finished run, from its metrics.json."""
    run = read_metrics(Path(folder))
    return RunAverages(str(folder), run, {kind: average(kind, run.tasks) for kind in AVERAGES})
