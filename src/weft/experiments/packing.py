"""Packed records: all records of one or several grids in one file, and tables from such a file alone.

The file lists the grid's cells with the settings of their runs. `unpacked` compares these with the settings
of the grid, so that records of different settings are refused. Left out are the encoder and the folder of the
data: they may have other names, or be absent, where the tables are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import WeftError, words
from weft.experiments.cells import Cell, cells_of, trials_of, variants_of
from weft.experiments.compared import Compared, halved, recorded
from weft.experiments.grid import Grid
from weft.experiments.plan import Plan
from weft.experiments.records import AGAIN, ENDING, Records, packed_cells, packed_records, without_paths


def pack(plans: Plan | Sequence[Plan], file: Path) -> int:
    """Write the records of grids into one file; returns how many. Without any record no file is written.

    Args:
        plans: the cells with their records; those of several grids have one folder.
        file: the file.
    """
    several = [plans] if isinstance(plans, Plan) else list(plans)
    cells = {plan.grid.name: _listed(plan) for plan in several}
    identities = [facts["identity"] for of_grid in cells.values() for facts in of_grid.values()]
    if not identities:
        return 0
    _check_kept(file, identities)
    listed = {"grids": cells} if len(cells) > 1 else {"cells": cells[several[0].grid.name]}
    return several[0].records.pack(identities, file, listed)


def _check_kept(file: Path, identities: Iterable[str]) -> None:
    """Refuse to write over a file that has further records: they may be nowhere else."""
    if not file.exists():
        return
    names = [name for name, _ in packed_records(file)]
    before = {name.removesuffix(ENDING) for name in names if not name.startswith(AGAIN)}
    if lost := before - {*identities}:
        raise WeftError(
            f"{words('--pack', 'pack')} {file}: the file holds {len(lost)} records of other runs, and would "
            "lose them; name another file, or repeat the grids and settings of the call that wrote it"
        )


def _listed(plan: Plan) -> dict[str, dict[str, Any]]:
    """The finished cells of a plan: identity and settings of each."""
    return {
        name: {"identity": planned.identity, "settings": settings_of(planned.cell)}
        for name, planned in plan.cells.items()
        if planned.record is not None
    }


def unpacked(grid: Grid, file: Path, out: Path) -> Compared:
    """The finished cells of a grid by a packed file alone: no data, no encoder, and nothing is trained.

    Args:
        grid: the grid.
        file: the packed file.
        out: the folder that the records are written to.
    """
    listed = packed_cells(file, grid.name)
    cells = {cell.name: cell for cell in _all_cells(halved(grid))}
    if listed and not any(name in cells for name in listed):
        raise WeftError(f"{file} has no run of {grid.source}: its first one is {next(iter(listed))!r}")
    for name, cell in cells.items():
        if name in listed:
            _check(grid, name, settings_of(cell), listed[name].get("settings"), file)
    Records(out).unpack(file)
    identities = {name: str(facts["identity"]) for name, facts in listed.items()}
    return recorded(grid, out, identities)


def settings_of(cell: Cell) -> dict[str, Any]:
    """The settings of a cell's run, without the encoder and without folders."""
    sections = {key: value for key, value in cell.raw.items() if key != "encoder"}
    return without_paths(_without_root({**sections, **cell.action}))


def _without_root(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_root(item) for key, item in value.items() if key != "root"}
    return [_without_root(item) for item in value] if isinstance(value, list) else value


def _all_cells(grid: Grid) -> list[Cell]:
    """The cells of a grid; with `tune` its trials, since what they have chosen is not known yet."""
    if grid.tune is None:
        return cells_of(grid)
    first = {variant.name: trials_of(grid, variant)[0] for variant in variants_of(grid)}
    return [cell for cell in cells_of(grid, first) if cell.trial]


def _check(grid: Grid, name: str, wanted: Mapping[str, Any], packed: Any, file: Path) -> None:
    differing = _difference(wanted, packed if isinstance(packed, dict) else {})
    if differing is not None:
        key, here, there = differing
        raise WeftError(
            f"{file}: the run {name!r} has {key} {there}, and {grid.source} has {here}; "
            f"repeat the settings of the call that wrote the file{words(f', such as {key}={there}', '')}"
        )


def _difference(wanted: Mapping[str, Any], packed: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first key whose values differ, and the values; None: all are equal."""
    for key in {**wanted, **packed}:
        here, there = wanted.get(key), packed.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            inside = _difference(here, there)
            if inside is not None:
                return f"{key}.{inside[0]}", inside[1], inside[2]
        elif here != there:
            return str(key), "none" if here is None else str(here), "none" if there is None else str(there)
    return None
