"""What a call of `weft compare` has done: the cells of a grid with their records, and the tuned values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.experiments.grid import Grid
from weft.experiments.plan import Plan
from weft.experiments.records import Record
from weft.experiments.tuning import Choice, choices_of


@dataclass(frozen=True)
class Compared:
    """A grid after a call of `weft compare`.

    Attributes:
        plan: the cells, with their records.
        choices: the tuned values of each variant; {} without `tune`.
        failed: why cells failed, by name.
        not_repeated: why cells could not be run once more, by name.
        ran: how many of its cells this call has run.
        steps: how many optimizer steps they have taken.
    """

    plan: Plan
    choices: Mapping[str, Choice] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    ran: int = 0
    steps: int = 0
    not_repeated: Mapping[str, str] = field(default_factory=dict)

    @property
    def records(self) -> dict[str, dict[int, Record]]:
        """The records by variant and seed, without trials."""
        records: dict[str, dict[int, Record]] = {}
        for planned in self.plan.cells.values():
            cell = planned.cell
            if planned.record is not None and not cell.trial:
                records.setdefault(cell.variant, {})[cell.seed] = planned.record
        return records


def recorded(grid: Grid, out: str | Path, identities: Mapping[str, str] | None = None) -> Compared:
    """The finished cells of a grid, by their records alone; nothing is run.

    Args:
        grid: the grid.
        out: the folder of the records.
        identities: the identity of each cell by its name, as a file of packed records has them: data files
            and encoder are not needed then. None: they are computed from these.
    """
    plan = Plan(halved(grid), Path(out), identities=identities)
    choices = choices_of(plan)
    plan.choose({name: choice.labels for name, choice in choices.items()})
    return Compared(plan, choices)


def halved(grid: Grid) -> Grid:
    """With `tune`, tables report the other half of validation, which is the test split; see `cells_of`."""
    return grid if grid.tune is None else replace(grid, report="test")
