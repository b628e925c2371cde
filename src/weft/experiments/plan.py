"""The plan of a comparison: every cell with its checked run file, its identity, and whether it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.config.run_file import RunFile
from weft.errors import WeftError, did_you_mean
from weft.evaluation.averages import AVERAGES
from weft.evaluation.selection import AVERAGE
from weft.experiments.cells import Cell, cells_of, in_order
from weft.experiments.grid import Grid
from weft.experiments.identity import digest, identity_of, identity_of_action, tasks_of_action
from weft.experiments.job import Job, checked_run, run_folder
from weft.experiments.measures import applies, measured, not_measured
from weft.experiments.records import Record, Records
from weft.suites import suites_found_once

OF_MODELS = ("grow", "assemble")
"""Actions that change models of other cells, and do not read the sections of a run file."""


@dataclass(frozen=True)
class Planned:
    """A cell of a plan.

    Attributes:
        cell: the cell.
        run_file: its checked run file; None for an action that has none.
        identity: its identity.
        record: its record; None: it is to be run.
    """

    cell: Cell
    run_file: RunFile | None
    identity: str
    record: Record | None


class Plan:
    """The cells of a grid in an order in which they can run.

    Args:
        grid: the grid.
        out: the folder of the comparison.
        chosen: with `tune`, the chosen labels by variant.
        identities: the identity of each cell by its name, if they are known; run files are not checked then,
            and neither data nor encoder is needed. None: they are computed.
    """

    def __init__(
        self,
        grid: Grid,
        out: Path,
        chosen: Mapping[str, Mapping[str, str]] | None = None,
        identities: Mapping[str, str] | None = None,
    ) -> None:
        self.grid, self.out = grid, out
        self._identities = identities
        self._chosen: dict[str, Mapping[str, str]] = {}
        self.records = Records(out)
        self.cells: dict[str, Planned] = {}
        self._add(chosen or {})
        if identities is None:
            self._check_average()

    @property
    def waiting(self) -> list[Planned]:
        """The cells that are to be run: those without a record, and those whose weights they need."""
        wanted = [planned for planned in self.cells.values() if planned.record is None]
        needed = {name for planned in wanted for name in self._all_needs(planned.cell)}
        return [
            planned
            for planned in self.cells.values()
            if planned.record is None or (planned.cell.name in needed and not self.has_weights(planned))
        ]

    def choose(self, chosen: Mapping[str, Mapping[str, str]]) -> None:
        """Add the runs of variants whose tuned values have been chosen.

        Args:
            chosen: the chosen labels by variant.
        """
        if new := {name: labels for name, labels in chosen.items() if name not in self._chosen}:
            self._add(new)

    def only(self, names: Iterable[str]) -> Plan:
        """Leave out all other cells; returns this plan."""
        self.cells = {name: self.cells[name] for name in names}
        return self

    def has_weights(self, planned: Planned) -> bool:
        """Whether the weights of a cell are there."""
        return (run_folder(self.out, planned.identity) / "bundle" / "bundle.json").is_file()

    def job(self, planned: Planned, device: str | None, keep: bool) -> Job:
        """What a worker needs to run a cell.

        Args:
            planned: the cell.
            device: cpu, cuda, …; None: a GPU if there is one.
            keep: whether all weights are kept; those that other cells need are kept for them.
        """
        cell = planned.cell
        needs = [run_folder(self.out, self.cells[name].identity) for name in cell.needs]
        used = any(cell.name in other.cell.needs for other in self.cells.values())
        return Job(
            name=cell.name,
            identity=planned.identity,
            kind=digest({"method": cell.raw.get("method"), "action": list(cell.action)})[:16],
            source=self.grid.source,
            folder=str(self.grid.folder.resolve()),
            raw=cell.raw,
            action=cell.action,
            report=self.grid.report,
            chosen_by=cell.trial or self.grid.report != "validation",
            out=str(self.out.resolve()),
            needs=tuple(str(folder) for folder in needs),
            keep=keep or used,
            device=device,
            measures=self.measures(planned),
        )

    def refresh(self, identity: str) -> None:
        """Read the record of a cell that has just ended."""
        record = self.records.read(identity)
        for name, planned in self.cells.items():
            if planned.identity == identity:
                self.cells[name] = Planned(planned.cell, planned.run_file, identity, record)

    def _add(self, chosen: Mapping[str, Mapping[str, str]]) -> None:
        """Plan all cells that are not there yet, and put them in order."""
        self._chosen |= chosen
        before, self.cells = self.cells, {}
        mistakes: dict[str, list[str]] = {}
        with suites_found_once():
            for cell in in_order(cells_of(self.grid, self._chosen or None)):
                try:
                    self.cells[cell.name] = before.get(cell.name) or self._planned(cell)
                except WeftError as wrong:
                    mistakes.setdefault(str(wrong), []).append(cell.name)
        if mistakes:
            raise WeftError("\n".join(_explained(self.grid, text, names) for text, names in mistakes.items()))

    def _planned(self, cell: Cell) -> Planned:
        if self._identities is not None:
            identity = self._identities.get(cell.name, "")
            return Planned(cell, None, identity, self.records.read(identity) if identity else None)
        uses = [self.cells[name].identity for name in cell.needs if name in self.cells]
        if len(uses) < len(cell.needs):  # reported with the cell that it needs
            return Planned(cell, None, "", None)
        grid = self.grid
        splits = list(dict.fromkeys(("train", "validation", grid.report)))
        run_file = None
        if any(name in cell.action for name in OF_MODELS):
            identity = identity_of_action(cell.action, cell.seed, uses, splits, grid.source, grid.folder)
        else:
            run_file = checked_run(cell.raw, grid.source, grid.folder)
            identity = identity_of(run_file, splits, uses, report=grid.report, action=dict(cell.action))
        record = self.records.read(identity)
        if record is not None:
            # a measure that failed once would fail again, after another training
            settled = {*measured(record.measures), *not_measured(record.measures)}
            if not set(self._wanted(cell, run_file)) <= settled:
                record = None  # it is run again, and what was measured before is measured again
        return Planned(cell, run_file, identity, record)

    def _check_average(self) -> None:
        """A task whose score is reported as the average must be one that some cell evaluates."""
        grid = self.grid
        if grid.average in (AVERAGE, *AVERAGES):
            return
        tasks: dict[str, None] = {}
        for planned in self.cells.values():
            added = [
                task
                for settings in planned.cell.action.values()
                if isinstance(settings, dict) and "tasks" in settings
                for task in tasks_of_action(settings, grid.source, grid.folder)
            ]
            tasks |= dict.fromkeys(
                task.name for task in (*(planned.run_file.tasks if planned.run_file else ()), *added)
            )
            if grid.average in tasks:
                return
        known = (AVERAGE, *AVERAGES, *tasks)
        raise WeftError(
            f"{grid.source}: average: {grid.average!r} is neither an average nor a task of the grid; "
            f"{did_you_mean(grid.average, known)}"
        )

    def _wanted(self, cell: Cell, run_file: RunFile | None) -> tuple[str, ...]:
        """What the grid measures of a cell: nothing of models that other cells or libraries have trained."""
        if run_file is None or "peer" in cell.action:
            return ()
        return tuple(name for name in self.grid.measures if applies(name, run_file))

    def measures(self, planned: Planned) -> tuple[str, ...]:
        """What is measured when a cell runs: also what a record of it holds, which another grid may need."""
        record = self.records.read(planned.identity)
        before = measured(record.measures) if record is not None else ()
        return tuple(dict.fromkeys((*self._wanted(planned.cell, planned.run_file), *before)))

    def _all_needs(self, cell: Cell) -> list[str]:
        """The names of all cells that a cell needs, directly or not, as far as their weights are missing."""
        names: list[str] = []
        for name in cell.needs:
            names.append(name)
            if not self.has_weights(self.cells[name]):
                names += self._all_needs(self.cells[name].cell)
        return names


def _explained(grid: Grid, text: str, names: Sequence[str]) -> str:
    """A mistake of some cells, with their names."""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{grid.source}: these runs cannot be made: {shown}\n{text}"
