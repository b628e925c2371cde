"""What a comparison's folder says: tables.json, which `weft compare` writes, and the records of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.experiments.compare import TABLES
from weft.experiments.records import IDENTITY, Record, Records
from weft.experiments.tuning import average_of
from weft.reporting.run_data import evaluation_of
from weft.utils.safe_json import read_json

RESULTS = TABLES["json"]
SHOWN = 6
"""How many variants are drawn in color at first; the others are gray until a reader chooses them."""
PARTS: Mapping[str, type] = {"statistics": dict, "variants": dict, "published": dict, "claims": list}
"""What tables.json must hold, and its types."""

FACTS: Mapping[str, type] = {"seeds": list, "chosen": dict, "edges": list, "failed": dict}
"""What is known of every variant."""


@dataclass(frozen=True)
class ComparisonData:
    """What is known of a comparison.

    Attributes:
        folder: its folder.
        results: tables.json.
        records: the records by variant and seed; {} for a folder of an earlier version, whose tables do not
            name them.
        lost: how many records are named, and are not there or damaged.
    """

    folder: Path
    results: Mapping[str, Any]
    records: Mapping[str, Mapping[int, Record]] = field(default_factory=dict)
    lost: int = 0

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name or str(self.folder)

    @property
    def title(self) -> str:
        """The title of the grid."""
        return str(self.results.get("title") or self.name)

    @property
    def statistics(self) -> Mapping[str, Any]:
        """Estimates, contrasts and notes; see `weft.experiments.statistics.results`."""
        statistics: Mapping[str, Any] = self.results["statistics"]
        return statistics

    @property
    def variants(self) -> Mapping[str, Mapping[str, Any]]:
        """Facts of each variant."""
        variants: Mapping[str, Mapping[str, Any]] = self.results["variants"]
        return variants

    @property
    def names(self) -> list[str]:
        """The variants, in the order of the grid."""
        return list(self.variants)

    @property
    def tasks(self) -> list[str]:
        """The tasks that tables report."""
        return [str(task) for task in self.statistics.get("tasks", ())]

    @property
    def average(self) -> str:
        """The name of the average."""
        return str(self.statistics.get("average", "average"))

    @property
    def average_name(self) -> str:
        """The average in a sentence: `the average`, `the average pals_dev`, or `the score of rte`."""
        if self.average in self.tasks:
            return f"the score of {self.average}"
        return "the average" if self.average == "average" else f"the average {self.average}"

    def estimate(self, variant: str, target: str) -> Mapping[str, Any] | None:
        """The estimate of a variant's score on a task, or of its average; None: there is none."""
        of_variant = self.statistics.get("variants", {}).get(variant, {})
        found: Mapping[str, Any] | None = of_variant.get(target)
        return found

    def mean(self, variant: str, target: str | None = None) -> float | None:
        """A mean over seeds, from 0 to 1; by default of the average."""
        estimate = self.estimate(variant, target or self.average)
        return None if estimate is None else float(estimate["mean"])

    @cached_property
    def points(self) -> dict[str, dict[int, dict[str, dict[int, float]]]]:
        """The curves in points: variant → seed → task, or the average under "" → step → score."""
        return {
            variant: {
                seed: _points(record, self.average, self.tasks)
                for seed, record in seeds.items()
                if record.curve
            }
            for variant, seeds in self.records.items()
        }

    @cached_property
    def looks(self) -> dict[str, int]:
        """The number of each variant's look; those that are shown first have different colors."""
        shown = self.shown_first
        order = [*shown, *(name for name in self.names if name not in shown)]
        return {name: place for place, name in enumerate(order)}

    @cached_property
    def shown_first(self) -> list[str]:
        """The variants that are drawn in color at first: all if they are few, else baseline and best."""
        return self.foremost(self.names, SHOWN)

    def foremost(self, names: Sequence[str], count: int) -> list[str]:
        """Some variants: all if they are few, else the baseline and the best.

        Args:
            names: the variants to choose from, in the order of the grid.
            count: how many.
        """
        if len(names) <= count:
            return list(names)
        ranked = sorted(names, key=lambda name: -(self.mean(name) or -1.0))
        first = [name for name in names if name == self.results.get("baseline")]
        return [*first, *(name for name in ranked if name not in first)][:count]

    def first(self, variant: str) -> Record | None:
        """The record of a variant's first seed."""
        return next(iter(self.records.get(variant, {}).values()), None)


def _points(record: Record, average: str, every: Sequence[str]) -> dict[str, dict[int, float]]:
    """The score of each task at each evaluation, and the average under "", if the run has `every` task."""
    points: dict[str, dict[int, float]] = {}
    for line in record.curve:
        evaluation = evaluation_of(line)
        if evaluation is None or not evaluation.tasks:
            continue
        for task in evaluation.tasks:
            points.setdefault(task, {})[evaluation.step] = 100 * evaluation.score(task)
        score = average_of(average, evaluation.tasks, every)
        if score is not None:
            points.setdefault("", {})[evaluation.step] = 100 * score
    return points


def is_comparison(folder: Path) -> bool:
    """Whether a folder holds a comparison, with tables or not yet."""
    return has_tables(folder) or (folder / "records").is_dir()


def has_tables(folder: Path) -> bool:
    """Whether a folder holds the tables of a comparison."""
    return (folder / RESULTS).is_file()


def read_comparison(folder: Path) -> ComparisonData:
    """Read a comparison's folder.

    Args:
        folder: the folder that `weft compare --out` names.
    """
    again = (
        f"to write it, repeat the command: weft compare GRID.yaml --out {folder} (it trains nothing twice)"
    )
    results = read_json(folder / RESULTS, again)
    for part, kind in PARTS.items():
        if not isinstance(results.get(part), kind):
            raise WeftError(f"{folder / RESULTS}: {part} is not what weft compare writes; {again}")
    for name, facts in results["variants"].items():
        if not isinstance(facts, dict) or not all(isinstance(facts.get(k), t) for k, t in FACTS.items()):
            raise WeftError(f"{folder / RESULTS}: variants.{name} is not what weft compare writes; {again}")
    runs = results.get("runs")
    # of several grids in one comparison each has a folder for its tables, beside that of all records
    stored = Records(folder if (folder / "records").is_dir() else folder.parent)
    records: dict[str, dict[int, Record]] = {}
    lost = 0
    for variant, seeds in runs.items() if isinstance(runs, dict) else ():
        for seed, identity in seeds.items() if isinstance(seeds, dict) else ():
            record = _record(stored, str(identity))
            if record is None:
                lost += 1
            else:
                records.setdefault(str(variant), {})[int(seed)] = record
    return ComparisonData(folder, results, records, lost)


def _record(stored: Records, identity: str) -> Record | None:
    """A record; None if it is missing or damaged."""
    if not IDENTITY.fullmatch(identity):  # it becomes the name of a file
        return None
    try:
        return stored.read(identity)
    except WeftError:
        return None


def mean_of(values: list[float]) -> float | None:
    """The mean; None of nothing."""
    return fsum(values) / len(values) if values else None
