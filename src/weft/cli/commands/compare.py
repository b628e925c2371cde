"""`weft compare`: train the runs of a grid, and compare them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Address, Device, Json, On
from weft.cli.output import print_json, print_notes, print_table, print_text
from weft.errors import WeftError
from weft.utils.ray_start import refuse_without_ray

if TYPE_CHECKING:
    from weft.experiments.on_ray import OnRay
    from weft.experiments.plan import Plan
    from weft.experiments.results import Results


def compare(
    source: Annotated[
        str,
        typer.Argument(
            metavar="GRID.yaml|recipe:NAME", help="grid: a base run file and what varies; or a recipe"
        ),
    ],
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE|GRID",
            help="settings of the grids, such as seeds=3, or of all their runs, such as train.steps=500; "
            "further grids or recipes, which run together with the first",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="folder of the records, the logs and the tables")
    ] = Path("runs/compare"),
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="how many runs are trained at once on this machine; default: 1"
        ),
    ] = None,
    on: On = None,
    address: Address = None,
    cpus_per_cell: Annotated[
        float | None,
        typer.Option(metavar="N", help="with --on ray: CPU cores of each run; default: 1"),
    ] = None,
    gpus_per_cell: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="with --on ray: GPUs of each run, such as 0.25; default: 1 if the cluster has any, else 0",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="list the runs and the estimated time, and train nothing")
    ] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate/--no-estimate", help="with --dry-run: estimate the time")
    ] = True,
    keep: Annotated[bool, typer.Option("--keep", help="keep the weights of all runs")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="M", help="begin no run after M minutes; those that have begun end"),
    ] = None,
    again: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="train N finished runs of each grid once more: the page says whether they agree",
        ),
    ] = None,
    pack: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="write the records of the grids into one file, after every run; if the file exists, its "
            "records are taken over first",
        ),
    ] = None,
    unpack: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="first take over the records of such a file; may be repeated"),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="make the tables from such a file alone: trains nothing, and needs neither data nor encoder",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="write the results as a Markdown page, too, and a web page beside it"
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="with --page: a text that begins the page; docs/comparing.md says how it names numbers",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="exit code 1 unless every claim of the grid is held")
    ] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train and compare many runs that differ in a few settings.

    Tables have intervals and verdicts, from the variation of seeds and of rows.

    A run that is done is never trained again: repeat the command after it was stopped, or after the grid was
    extended. Writes tables.md, tables.csv and tables.json to --out. The exit code is 1 if a run failed.

    Example: weft compare grid.yaml --out runs/grid --jobs 2

    Example: weft compare grid.yaml seeds=3 train.steps=200 --out runs/small --dry-run

    Example: weft compare grid.yaml --out /shared/grid --on ray --gpus-per-cell 0.25

    Example: weft compare recipe:sampling --records sampling.records --page sampling.md

    Example: weft compare recipe:pals-table3 recipe:pals-curves tasks.root=DATA --out runs/pals --jobs 7
    """
    from weft.experiments.call import Call
    from weft.experiments.claims import all_held
    from weft.experiments.claims.of_records import RecordedData
    from weft.experiments.compare import all_written, load_all
    from weft.experiments.compared import halved
    from weft.experiments.packing import pack as pack_records
    from weft.experiments.packing import unpacked
    from weft.experiments.plan import Plan
    from weft.experiments.records import Records
    from weft.experiments.run_grid import Stopped, run_grids
    from weft.experiments.summary_text import read_summary
    from weft.reporting.results_page import web_page_of, write_results_page

    cluster = _cluster(on, jobs, address, cpus_per_cell, gpus_per_cell)
    further, overrides = _separated(more or [])
    grids = load_all([source, *further], overrides)
    if records is not None and (dry_run or unpack or pack is not None):
        raise WeftError("--records makes tables alone; leave out --dry-run, --pack and --unpack")
    if again is not None and (dry_run or records is not None or cluster is not None):
        raise WeftError("--again trains runs on this machine; leave out --dry-run, --records and --on")
    if page is not None:
        web_page_of(page)  # a wrong name is reported before anything is trained
    elif summary is not None:
        raise WeftError("--summary begins a page; add --page FILE")
    for option, file in (("--page", page), ("--pack", pack)):
        if file is not None and not file.absolute().parent.is_dir():
            raise WeftError(f"{option} {file}: there is no folder {file.parent}; create it first")
    text = None if summary is None else read_summary(summary, grids)
    taken = [*(unpack or ()), *([pack] if pack is not None and pack.exists() and not dry_run else [])]
    for file in taken:
        new, known = Records(out).unpack(file)
        print_notes([f"{file}: {new} new records, {known} that were there already"])
    if dry_run:
        plans = [Plan(halved(grid), out) for grid in grids]
        _print_plans(plans, jobs or 1, device, estimate and cluster is None, as_json)
        return
    kept = None if pack is None else (lambda plans: pack_records(plans, pack))
    try:
        if records is not None:
            compared = [unpacked(grid, records, out) for grid in grids]
        else:
            compared = run_grids(
                grids,
                out,
                jobs=jobs or 1,
                device=device,
                keep=keep,
                minutes=minutes,
                kept=kept,
                on=cluster,
                again=again or 0,
            )
    except Stopped as stopped:
        print(f"{stopped}\n  to continue, repeat the command", file=sys.stderr)
        raise typer.Exit(128 + stopped.signal) from None
    named = {"records": records, "page": page, "summary": summary}
    files = {name: None if file is None else str(file) for name, file in named.items()}
    call = Call(source, tuple(overrides), **files, more=tuple(further), again=again or 0)
    results = all_written(compared, out, call)
    if pack is not None:
        count = pack_records([each.plan for each in compared], pack)
        if count == 0:
            raise WeftError(f"--pack {pack}: {out} has no records of this grid yet; run it first")
        print_notes([f"{pack}: {count} records"])
    if page is not None:
        data = {
            each.plan.grid.name: RecordedData(each.plan.grid, each.records, of.statistics)
            for each, of in zip(compared, results, strict=True)
        }
        words, title = (text.filled(data), text.title) if text else ("", "")
        pages = write_results_page(page, results, call, out, words, title)
        print_notes([f"{file}: written" for file in pages])
    _print_results(results, out, as_json)
    broken = any(each.failed or each.not_repeated for each in compared)
    if broken or (strict and not all(all_held(each.claims) for each in results)):
        raise typer.Exit(1)


def _separated(more: Sequence[str]) -> tuple[list[str], list[str]]:
    """Further grids, and settings."""
    from weft.experiments.recipes import is_recipe

    grids = [text for text in more if is_recipe(text) or "=" not in text]
    for text in grids:
        if not is_recipe(text) and not Path(text).is_file():
            if Path(text).suffix in (".yaml", ".yml"):
                raise WeftError(f"there is no grid {text!r}")
            raise WeftError(
                f"{text!r} is neither a setting nor a grid; expected KEY=VALUE, such as train.steps=500, a "
                "YAML file, or recipe:NAME (to list the recipes: weft show recipes)"
            )
    return grids, [text for text in more if text not in grids]


def _cluster(
    on: str | None, jobs: int | None, address: str | None, cpus: float | None, gpus: float | None
) -> OnRay | None:
    """The settings of `--on ray`; None without it."""
    refuse_without_ray(on, {"--address": address, "--cpus-per-cell": cpus, "--gpus-per-cell": gpus})
    if on is None:
        return None
    if jobs is not None:
        raise WeftError(
            "--jobs with --on ray: Ray trains as many runs at once as the cluster has room for; leave out "
            "--jobs, or set --cpus-per-cell and --gpus-per-cell"
        )
    from weft.experiments.on_ray import OnRay

    return OnRay(address, 1.0 if cpus is None else cpus, gpus)


def _print_results(results: Sequence[Results], out: Path, as_json: bool) -> None:
    from weft.experiments.compare import folder_of
    from weft.experiments.tables import claim_lines, notes_of, tables_of

    if as_json:
        of_grids = {each.grid.name: each.to_dict() for each in results}
        print_json({"grids": of_grids} if len(results) > 1 else results[0].to_dict())
        return
    for each in results:
        for table in tables_of(each):
            print_table(table.title, list(table.columns), [list(row) for row in table.rows])
        for line in claim_lines(each):
            print_text(line)
        print_notes(notes_of(each))
        if each.statistics:
            folder = folder_of(each.grid, out, len(results))
            print_text(f"tables: {folder / 'tables.md'}, tables.csv, tables.json")


def _print_plans(plans: Sequence[Plan], jobs: int, device: str | None, estimate: bool, as_json: bool) -> None:
    """List the cells, which are done, and the estimated minutes."""
    from weft.experiments.estimate import estimate_minutes

    minutes, how = estimate_minutes(plans, jobs, device) if estimate else (None, None)
    to_do = {planned.identity for plan in plans for planned in plan.waiting}
    every = {planned.identity for plan in plans for planned in plan.cells.values()}
    rows = {
        plan.grid.name: [
            (planned.cell.name, planned.identity[:16], "to do" if planned.identity in to_do else "done")
            for planned in plan.cells.values()
        ]
        for plan in plans
    }
    if as_json:
        keys = ("grid", "run", "identity", "state")
        runs = [dict(zip(keys, (name, *row), strict=True)) for name, of in rows.items() for row in of]
        print_json({"runs": runs, "to_do": len(to_do), "minutes": minutes, "estimated_by": how})
        return
    for plan in plans:
        print_table(plan.grid.title, ["run", "identity", ""], [list(row) for row in rows[plan.grid.name]])
    time = "" if minutes is None else f"; about {minutes:.1f} minutes with --jobs {jobs} ({how})"
    print_text(f"{len(to_do)} of {len(every)} runs to do{time}")
    if any(plan.grid.tune is not None for plan in plans):
        print_text("these are the trials of tune; the runs with the chosen values follow")
