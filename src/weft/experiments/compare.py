"""Comparing methods, samplers or any settings: the function behind `weft.compare` and `weft compare`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from weft.errors import WeftError
from weft.experiments.call import Call
from weft.experiments.claims import check_claims
from weft.experiments.compared import Compared
from weft.experiments.display import Display, Silent, display_for
from weft.experiments.grid import Grid, load_grid
from weft.experiments.page import page
from weft.experiments.recipes import is_recipe, load_recipe
from weft.experiments.results import Results, results_of
from weft.experiments.run_grid import run_grids
from weft.experiments.tables import to_csv
from weft.utils.files import write_json, write_text

if TYPE_CHECKING:
    from weft.experiments.on_ray import OnRay

TABLES = {"markdown": "tables.md", "csv": "tables.csv", "json": "tables.json"}
"""The files with the results, in the folder of a comparison."""


Source = str | Path | Grid
"""A grid: a YAML file, `recipe:NAME`, or a `Grid`."""


@overload
def compare(
    source: Source,
    overrides: Sequence[str] = ...,
    out: str | Path = ...,
    *,
    jobs: int = ...,
    device: str | None = ...,
    keep: bool = ...,
    progress: bool = ...,
    on: OnRay | None = ...,
    again: int = ...,
) -> Results: ...


@overload
def compare(
    source: list[Source] | tuple[Source, ...],
    overrides: Sequence[str] = ...,
    out: str | Path = ...,
    *,
    jobs: int = ...,
    device: str | None = ...,
    keep: bool = ...,
    progress: bool = ...,
    on: OnRay | None = ...,
    again: int = ...,
) -> list[Results]: ...


def compare(
    source: Source | list[Source] | tuple[Source, ...],
    overrides: Sequence[str] = (),
    out: str | Path = "runs/compare",
    *,
    jobs: int = 1,
    device: str | None = None,
    keep: bool = False,
    progress: bool = True,
    on: OnRay | None = None,
    again: int = 0,
) -> Results | list[Results]:
    """Train the runs of a grid that have not been made yet, and compare them.

    Example:
        >>> results = weft.compare("grid.yaml", ["seeds=3"], out="runs/grid", jobs=2)
        >>> results.statistics["contrasts"][0]["verdict"]
        'undecided'

    Args:
        source: a grid: a YAML file, `recipe:NAME`, or a `Grid`; or a list of grids, which run together: a run
            that several of them have is trained once.
        overrides: such as `seeds=3` or `train.steps=500`; values are read as YAML.
        out: the folder of records, logs and tables; of several grids each has a folder in it for its tables.
        jobs: how many runs are trained at once.
        device: cpu, cuda, …; None: a GPU if there is one.
        keep: whether to keep the weights of all runs.
        progress: whether to show progress.
        on: the Ray cluster to train on, `weft.experiments.on_ray.OnRay(...)`; None: this machine.
        again: how many finished runs to train once more, on this machine: `results.again` has both scores.

    Returns:
        The results; `to_dict()` returns all numbers. The tables are also written to `out`. Of a list of grids
        a list.
    """
    several = isinstance(source, list | tuple)
    grids = load_all(source if isinstance(source, list | tuple) else [source], overrides)
    display: Callable[[int, int], Display] = display_for if progress else lambda cells, done: Silent()
    compared = run_grids(grids, out, jobs=jobs, device=device, keep=keep, display=display, on=on, again=again)
    results = all_written(compared, Path(out))
    return results if several else results[0]


def load_all(sources: Sequence[str | Path | Grid], overrides: Sequence[str] = ()) -> list[Grid]:
    """Read several grids, each with the overrides; their names must differ.

    Args:
        sources: at least one.
        overrides: `key=value` settings; see `load_any`.
    """
    grids = [load_any(source, overrides) for source in sources]
    first: dict[str, str] = {}
    for grid in grids:
        if (other := first.get(grid.name)) == grid.source:
            raise WeftError(f"{grid.source} is named twice")
        if other is not None:
            raise WeftError(
                f"{other} and {grid.source} are both called {grid.name!r}, which names their chapters and "
                "folders; rename one of the files"
            )
        first[grid.name] = grid.source
    return grids


def folder_of(grid: Grid, out: Path, grids: int) -> Path:
    """The folder of a grid's tables: that of the comparison, or if it has several grids one in it.

    Args:
        grid: the grid.
        out: the folder of the comparison, which has the records.
        grids: how many grids it has.
    """
    return out if grids == 1 else out / grid.name


def load_any(source: str | Path | Grid, overrides: Sequence[str] = ()) -> Grid:
    """Read a grid from a file or by the name of a recipe; a `Grid` is returned as it is."""
    if isinstance(source, Grid):
        if overrides:
            raise WeftError(f"overrides: {overrides[0]!r} cannot be applied to a grid that has been read")
        return source
    grid = load_recipe(str(source), overrides) if is_recipe(source) else load_grid(source, overrides)
    check_claims(grid)
    return grid


def all_written(compared: Sequence[Compared], out: Path, call: Call | None = None) -> list[Results]:
    """Compute the results of grids and write the tables of each, in every format; see `written`."""
    results, mistakes = [], []
    for each in compared:
        try:
            results.append(written(each, folder_of(each.plan.grid, out, len(compared)), call))
        except WeftError as wrong:
            mistakes.append(str(wrong))
    if mistakes:  # the tables of the other grids are written all the same
        others = f"; the tables of the other grids are in {out}" if results else ""
        raise WeftError("\n".join(mistakes) + others)
    return results


def written(compared: Compared, out: Path, call: Call | None = None) -> Results:
    """Compute the results and write the tables into the folder, in every format.

    Args:
        compared: the grid's cells with their records.
        out: the folder.
        call: the command, for the page; None: the page names none.
    """
    if compared.records:
        out.mkdir(parents=True, exist_ok=True)
    results = results_of(compared, folder=out)
    if results.statistics:
        write_text(out / TABLES["markdown"], page(results, call))
        write_text(out / TABLES["csv"], to_csv(results))
        write_json(out / TABLES["json"], results.to_dict())
    return results
