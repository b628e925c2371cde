"""`weft show spread`: the spread of a run's metrics over tasks, and a comparison with reference runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among
from weft.cli.options import Json, MetricsSplit, Plot
from weft.cli.output import print_json, print_notes, print_table, print_text, print_written
from weft.cli.paths import check_plot
from weft.cli.show.matrices import can_print
from weft.errors import WeftError
from weft.evaluation.averages import AVERAGES
from weft.evaluation.scores import shown_metric

if TYPE_CHECKING:
    from weft.analysis.spread import Comparison, Spread
    from weft.evaluation.run_metrics import RunMetrics


def spread(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="folder of a finished run")],
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="reference: folder of a run to compare with, such as a single-task run; may be repeated; "
            "default: none",
        ),
    ] = None,
    ddof: Annotated[
        int,
        typer.Option(
            help="degrees of freedom to subtract in σ: 1 for the sample standard deviation, 0 for the "
            "population's"
        ),
    ] = 1,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK.METRIC",
            help="metric to leave out of σ, such as cola.accuracy; may be repeated; default: none",
        ),
    ] = None,
    average: Annotated[
        str | None,
        typer.Option(
            metavar="AVERAGE",
            help="compare the values of this average, such as glue9, instead of the first metric of each "
            "task; default: none",
            autocompletion=among(*AVERAGES),
        ),
    ] = None,
    split: MetricsSplit = "validation",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Show how much the scores differ between tasks.

    Prints task σ: the standard deviation, in percentage points, of the metrics of all tasks around their
    mean. A small σ means that all tasks are solved about equally well.

    With --against it also compares the first metric of each task with that of a reference run: positive
    differences, in percentage points, mean that this run is better. If several references have a task, the
    best of them counts. Scores are compared without rounding. If the run has all values of an average of the
    papers (see weft show averages), they are counted too: glue9 has MNLI's two sets separately.

    Example: weft show spread runs/all --against runs/rte --against runs/cola

    Example: weft show spread runs/all --against runs/separate --average glue9
    """
    check_plot(plot)
    folder = _only(folders)
    from weft.analysis.spread import compare, comparison_dict, complete_averages, counts, spread_of
    from weft.evaluation.run_metrics import read_metrics

    if average is not None and not against:
        raise WeftError(f"--average {average} compares with a reference: add --against RUN")
    run = read_metrics(folder, split)
    references = {str(reference): read_metrics(reference, split) for reference in against or ()}
    spread = spread_of(run.tasks, ddof, without or ())
    their_tasks = {name: metrics.tasks for name, metrics in references.items()}
    compared = compare(run.tasks, their_tasks, average)
    if average is not None and not compared:
        raise WeftError(f"{folder} has no value of the average {average!r}; leave out --average")
    listed = [name for name in complete_averages(run.tasks) if name != average] if references else []
    papers = {name: counts(compare(run.tasks, their_tasks, name)) for name in listed}
    of = "first metric of each task" if average is None else f"the values of {average}"
    print_notes((*spread.notes, *_different_rows(run, references, compared)))
    # the file first: the reader of a pipe may close it before everything is printed
    if plot is not None:
        from weft.analysis.plots.spread import write_differences, write_metrics

        if references:
            verdict = _verdict(*counts(compared), len(compared), average)
            title = f"{folder}, compared with {_reference(references)}\n{verdict}"
            write_differences(compared, plot, title)
        else:
            write_metrics(spread, plot, f"{folder}: {run.split} scores in percent\n{_sigma(spread)}")
    if as_json:
        more = comparison_dict(compared) if references else {}
        if references:
            more["average"] = average
            more["averages"] = {
                name: {"at_or_above": above, "compared": count} for name, (above, count) in papers.items()
            }
        print_json({"split": run.split, **spread.as_dict(), "metrics": run.tasks, **more})
    else:
        title = f"{folder}: {run.split} scores in percent"
        if references:
            _print_comparison(f"{title}, {of}", compared, list(references))
            print(_verdict(*counts(compared), len(compared), average))
            for name, (above, count) in papers.items():
                print(_verdict(above, count, len(AVERAGES[name]), name))
        else:
            rows = [[v.task, v.metric, f"{100 * v.value:.1f}"] for v in spread.values]
            print_table(title, ["task", "metric", "score"], rows)
        text = _sigma(spread)
        print(text if can_print(text) else text.replace("σ", "sigma"))
    print_written(plot, as_json)


def _only(folders: list[Path]) -> Path:
    if len(folders) > 1:
        again = " ".join(f"--against {folder}" for folder in folders[1:])
        raise WeftError(
            f"expected one run; found {len(folders)}: {', '.join(map(str, folders))}; write --against before "
            f"each reference: weft show spread {folders[0]} {again}"
        )
    return folders[0]


def _different_rows(
    run: RunMetrics, references: Mapping[str, RunMetrics], compared: list[Comparison]
) -> Iterator[str]:
    """Notes on scores that are compared although they were computed on different rows."""
    for comparison in compared:
        task, source = comparison.task, comparison.source
        if source is None:
            continue
        reference = references[source]
        if run.split != reference.split:
            yield f"task {task!r}: split {run.split} here, {reference.split} in {source}"
        here, there = run.rows.get(task), reference.rows.get(task)
        if here != there:
            yield f"task {task!r}: {here} rows here, {there} in {source}"


def _sigma(spread: Spread) -> str:
    over = f"over {len(spread.values)} metrics (ddof {spread.ddof})"
    if spread.sigma != spread.sigma:
        return f"task σ: not defined {over}"
    return (
        f"mean {spread.mean:.1f}%; task σ (standard deviation): {spread.sigma:.1f} percentage points {over}"
    )


def _reference(references: Collection[str]) -> str:
    """The reference in words."""
    return next(iter(references)) if len(references) == 1 else f"the best of {len(references)} runs"


def _verdict(above: int, count: int, values: int, average: str | None) -> str:
    """How many values are at or above the reference.

    Args:
        above: their number.
        count: how many were compared.
        values: how many there are.
        average: the average that they belong to; None: the first metric of each task.
    """
    noun = "tasks" if average is None else f"values of {average}"
    rest = f"; {values - count} not compared" if values > count else ""
    return f"{above} of {count} {noun} at or above the reference{rest}"


def _print_comparison(title: str, compared: list[Comparison], references: list[str]) -> None:
    columns = ["task", "metric", "this run", "reference", "difference", "at or above"]
    print_table(title, columns, [_row(c) for c in compared])
    # outside the table, which would truncate a long path
    if len(references) == 1:
        print_text(f"reference: {references[0]}")
    else:
        for comparison in compared:
            print_text(f"reference of {comparison.task}: {comparison.source or 'none'}")
    errors = any(comparison.is_error for comparison in compared)
    unscaled = "; errors such as mse are unscaled" if errors else ""
    print(f"difference: this run minus the reference, in percentage points{unscaled}")


def _row(comparison: Comparison) -> list[str]:
    metric, reference, difference = comparison.metric, comparison.reference, comparison.difference
    this = shown_metric(metric, comparison.this)
    if reference is None or difference is None:
        return [comparison.task, metric, this, "-", "-", "not compared"]
    return [
        comparison.task,
        metric,
        this,
        shown_metric(metric, reference),
        f"{difference:+.3f}" if comparison.is_error else f"{100 * difference:+.1f}",
        "yes" if comparison.at_or_above else "no",
    ]
