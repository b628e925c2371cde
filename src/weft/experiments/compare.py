"""Comparing methods, samplers or any settings: the function behind `weft.compare` and `weft compare`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.experiments.claims import check_claims
from weft.experiments.compared import Compared
from weft.experiments.display import Display, Silent, display_for
from weft.experiments.grid import Grid, load_grid
from weft.experiments.page import Call, page
from weft.experiments.recipes import is_recipe, load_recipe
from weft.experiments.results import Results, results_of
from weft.experiments.run_grid import run_grid
from weft.experiments.tables import to_csv
from weft.utils.files import write_json, write_text

if TYPE_CHECKING:
    from weft.experiments.on_ray import OnRay

TABLES = {"markdown": "tables.md", "csv": "tables.csv", "json": "tables.json"}
"""The files with the results, in the folder of a comparison."""


def compare(
    source: str | Path | Grid,
    overrides: Sequence[str] = (),
    out: str | Path = "runs/compare",
    *,
    jobs: int = 1,
    device: str | None = None,
    keep: bool = False,
    progress: bool = True,
    on: OnRay | None = None,
    again: int = 0,
) -> Results:
    """Train the runs of a grid that have not been made yet, and compare them.

    Example:
        >>> results = weft.compare("grid.yaml", ["seeds=3"], out="runs/grid", jobs=2)
        >>> results.statistics["contrasts"][0]["verdict"]
        'undecided'

    Args:
        source: a grid: a YAML file, or a `Grid`.
        overrides: such as `seeds=3` or `train.steps=500`; values are read as YAML.
        out: the folder of records, logs and tables.
        jobs: how many runs are trained at once.
        device: cpu, cuda, …; None: a GPU if there is one.
        keep: whether to keep the weights of all runs.
        progress: whether to show progress.
        on: the Ray cluster to train on, `weft.experiments.on_ray.OnRay(...)`; None: this machine.
        again: how many finished runs to train once more, on this machine: `results.again` has both scores.

    Returns:
        The results; `to_dict()` returns all numbers. The tables are also written to `out`.
    """
    grid = load_any(source, overrides)
    display: Callable[[int, int], Display] = display_for if progress else lambda cells, done: Silent()
    compared = run_grid(grid, out, jobs=jobs, device=device, keep=keep, display=display, on=on, again=again)
    return written(compared, Path(out))


def load_any(source: str | Path | Grid, overrides: Sequence[str] = ()) -> Grid:
    """Read a grid from a file or by the name of a recipe; a `Grid` is returned as it is."""
    if isinstance(source, Grid):
        if overrides:
            raise WeftError(f"overrides: {overrides[0]!r} cannot be applied to a grid that has been read")
        return source
    grid = load_recipe(str(source), overrides) if is_recipe(source) else load_grid(source, overrides)
    check_claims(grid)
    return grid


def written(compared: Compared, out: Path, call: Call | None = None) -> Results:
    """Compute the results and write the tables into the folder, in every format.

    Args:
        compared: the grid's cells with their records.
        out: the folder.
        call: the command, for the page; None: the page names none.
    """
    results = results_of(compared)
    if results.statistics:
        write_text(out / TABLES["markdown"], page(results, call))
        write_text(out / TABLES["csv"], to_csv(results))
        write_json(out / TABLES["json"], results.to_dict())
    return results
