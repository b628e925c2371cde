"""`weft compare`: train the runs of a grid, and compare them."""

from __future__ import annotations

import sys
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
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="settings of the grid, such as seeds=3, or of all its runs, such as train.steps=500",
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
            min=1, metavar="N", help="train N finished runs once more: the page says whether they agree"
        ),
    ] = None,
    pack: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the records of the grid into one file, after every run"),
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
    """
    from weft.experiments.claims import all_held
    from weft.experiments.claims.of_records import RecordedData
    from weft.experiments.compare import load_any, written
    from weft.experiments.compared import halved
    from weft.experiments.packing import pack as pack_records
    from weft.experiments.packing import unpacked
    from weft.experiments.page import Call
    from weft.experiments.plan import Plan
    from weft.experiments.records import Records
    from weft.experiments.run_grid import Stopped, run_grid
    from weft.experiments.summary_text import read_summary
    from weft.reporting.results_page import web_page_of, write_results_page

    cluster = _cluster(on, jobs, address, cpus_per_cell, gpus_per_cell)
    grid = load_any(source, overrides or [])
    if records is not None and (dry_run or unpack or pack is not None):
        raise WeftError("--records makes tables alone; leave out --dry-run, --pack and --unpack")
    if again is not None and (dry_run or records is not None or cluster is not None):
        raise WeftError("--again trains runs on this machine; leave out --dry-run, --records and --on")
    if page is not None:
        web_page_of(page)  # a wrong name is reported before anything is trained
    elif summary is not None:
        raise WeftError("--summary begins a page; add --page FILE")
    text = None if summary is None else read_summary(summary, grid)
    for file in unpack or ():
        new, known = Records(out).unpack(file)
        print_notes([f"{file}: {new} new records, {known} that were there already"])
    if dry_run:
        _print_plan(Plan(halved(grid), out), jobs or 1, device, estimate and cluster is None, as_json)
        return
    kept = None if pack is None else (lambda plans: pack_records(plans[0], pack))
    try:
        if records is not None:
            compared = unpacked(grid, records, out)
        else:
            compared = run_grid(
                grid,
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
    files = (None if f is None else str(f) for f in (records, page, summary))
    call = Call(source, tuple(overrides or ()), *files)
    results = written(compared, out, call)
    if pack is not None:
        count = pack_records(compared.plan, pack)
        if count == 0:
            raise WeftError(f"--pack {pack}: {out} has no records of this grid yet; run it first")
        print_notes([f"{pack}: {count} records"])
    if page is not None:
        words = text.filled(RecordedData(grid, compared.records, results.statistics)) if text else ""
        print_notes([f"{file}: written" for file in write_results_page(page, results, call, out, words)])
    if as_json:
        print_json(results.to_dict())
    else:
        _print_results(results, out)
    if compared.failed or compared.not_repeated or (strict and not all_held(results.claims)):
        raise typer.Exit(1)


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


def _print_results(results: Results, out: Path) -> None:
    from weft.experiments.tables import claim_lines, notes_of, tables_of

    for table in tables_of(results):
        print_table(table.title, list(table.columns), [list(row) for row in table.rows])
    for line in claim_lines(results):
        print_text(line)
    print_notes(notes_of(results))
    if results.statistics:
        print_text(f"tables: {out / 'tables.md'}, tables.csv, tables.json")


def _print_plan(plan: Plan, jobs: int, device: str | None, estimate: bool, as_json: bool) -> None:
    """List the cells, which are done, and the estimated minutes."""
    from weft.experiments.estimate import estimate_minutes

    waiting = {planned.cell.name for planned in plan.waiting}
    minutes, how = estimate_minutes(plan, jobs, device) if estimate else (None, None)
    rows = [
        (planned.cell.name, planned.identity[:16], "to do" if planned.cell.name in waiting else "done")
        for planned in plan.cells.values()
    ]
    if as_json:
        facts = [dict(zip(("run", "identity", "state"), row, strict=True)) for row in rows]
        print_json({"runs": facts, "to_do": len(waiting), "minutes": minutes, "estimated_by": how})
        return
    print_table(plan.grid.title, ["run", "identity", ""], [list(row) for row in rows])
    time = "" if minutes is None else f"; about {minutes:.1f} minutes with --jobs {jobs} ({how})"
    print_text(f"{len(waiting)} of {len(rows)} runs to do{time}")
    if plan.grid.tune is not None:
        print_text("these are the trials of tune; the runs with the chosen values follow")
