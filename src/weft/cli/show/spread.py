"""`weft show spread`: how evenly a run's scores are spread, and which tasks are at or above a reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Json, Plot
from weft.cli.output import print_json, print_notes, print_table, print_written
from weft.cli.paths import check_plot
from weft.cli.show.matrices import can_print
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.analysis.spread import Comparison, Spread
    from weft.evaluation.run_metrics import RunMetrics


def spread(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="folder of a finished run")],
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="reference, such as a single-task run; may be repeated"),
    ] = None,
    ddof: Annotated[int, typer.Option(help="the sum of squares is divided by n − ddof")] = 1,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK.METRIC", help="metric to leave out of σ, such as cola.accuracy; may be repeated"
        ),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Task σ, the standard deviation over all tasks' metrics; with --against, which tasks reach a reference.

    A task that several references have takes the best of them; scores are compared without rounding.
    """
    check_plot(plot)
    folder = _only(folders)
    from weft.analysis.spread import compare, comparison_dict, spread_of
    from weft.evaluation.run_metrics import read_metrics

    run = read_metrics(folder)
    references = {str(place): read_metrics(place) for place in against or ()}
    found = spread_of(run.tasks, ddof, without or ())
    compared = compare(run.tasks, {name: one.tasks for name, one in references.items()})
    print_notes((*found.notes, *_other_rows(run, references, compared)))
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.plots.spread import write_differences, write_metrics

        if references:
            write_differences(compared, plot, f"{folder}: {_verdict(compared)}")
        else:
            write_metrics(found, plot, f"{folder}: {_sigma(found)}")
    if as_json:
        more = comparison_dict(compared) if references else {}
        print_json({"split": run.split, **found.as_dict(), "metrics": run.tasks, **more})
    else:
        _print(folder, found, compared if references else None)
    print_written(plot, as_json)


def _only(folders: list[Path]) -> Path:
    if len(folders) > 1:
        again = " ".join(f"--against {place}" for place in folders[1:])
        raise WeftError(
            f"expected one run; found {len(folders)}: {', '.join(map(str, folders))}; write --against before "
            f"each reference: weft show spread {folders[0]} {again}"
        )
    return folders[0]


def _other_rows(
    run: RunMetrics, references: Mapping[str, RunMetrics], compared: list[Comparison]
) -> Iterator[str]:
    """Scores of other rows can be put side by side, but not without a word."""
    for one in compared:
        if one.source is None:
            continue
        theirs = references[one.source]
        if run.split != theirs.split:
            yield f"task {one.task!r}: split {run.split} here, {theirs.split} in {one.source}"
        here, there = run.rows.get(one.task), theirs.rows.get(one.task)
        if here != there:
            yield f"task {one.task!r}: {here} rows here, {there} in {one.source}"


def _sigma(found: Spread) -> str:
    sigma = f"{found.sigma:.2f}" if found.sigma == found.sigma else "not defined"
    return f"task σ {sigma} over {len(found.values)} metrics (ddof {found.ddof})"


def _verdict(compared: list[Comparison]) -> str:
    from weft.analysis.spread import counts

    above, count = counts(compared)
    rest = len(compared) - count
    return f"{above} of {count} at or above" + (f"; {rest} not compared" if rest else "")


def _print(folder: Path, found: Spread, compared: list[Comparison] | None) -> None:
    # titles not as the tables' own, which would be broken to the width of a narrow table
    if compared is None:
        rows = [[v.task, v.metric, f"{100 * v.value:.2f}"] for v in found.values]
        print(f"{folder}: metrics in percent")
        print_table("", ["task", "metric", "this"], rows)
    else:
        columns = ["task", "metric", "this", "reference", "difference", "at or above"]
        print(f"{folder}: main metrics in percent")
        print_table("", columns, [_row(one) for one in compared])
        # outside the table, which would cut a long path
        if len({one.source for one in compared} - {None}) > 1:
            for one in compared:
                print(f"reference of {one.task}: {one.source or 'none'}")
        print(_verdict(compared))
    text = _sigma(found)
    print(text if can_print(text) else text.replace("σ", "sigma"))


def _row(one: Comparison) -> list[str]:
    # an error is no percent
    scale, digits = (1, 4) if one.is_error else (100, 2)
    this = f"{scale * one.this:.{digits}f}"
    if one.reference is None or one.difference is None:
        return [one.task, one.metric, this, "-", "-", "not compared"]
    return [
        one.task,
        one.metric,
        this,
        f"{scale * one.reference:.{digits}f}",
        f"{scale * one.difference:+.{digits}f}",
        "yes" if one.at_or_above else "no",
    ]
