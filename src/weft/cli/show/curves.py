"""`weft show curves`: the learning curves of runs, or of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import HandDrawnPlot, Json
from weft.cli.output import print_json, print_table, print_written
from weft.cli.paths import check_hand_drawn
from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.reporting.curve_sets import CurveSet


def curves(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|DIR", help="folders of runs, or the folder of one comparison"),
    ],
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK", help="show only this task; may be repeated; default: all, and the average"
        ),
    ] = None,
    plot: HandDrawnPlot = None,
    as_json: Json = False,
) -> None:
    """Show the learning curves of runs.

    Prints the first, the best and the last score of each task at the evaluations during training, and the
    step whose weights were kept. --plot draws one chart per task. Of a comparison (weft compare --out) it
    shows the median over seeds, and draws the range from the lowest to the highest seed.

    Example: weft show curves runs/first runs/second --plot curves.svg
    """
    check_hand_drawn(plot)
    from weft.reporting.comparison_data import ComparisonData
    from weft.reporting.curve_sets import curves_of_comparison, curves_of_runs
    from weft.reporting.report import read_source
    from weft.reporting.run_data import RunData

    sources = [read_source(folder) for folder in folders]
    runs = [source for source in sources if isinstance(source, RunData)]
    first = sources[0]
    if isinstance(first, ComparisonData) and len(sources) == 1:
        shown, title = curves_of_comparison(first), first.title
    elif len(runs) == len(sources):
        shown, title = curves_of_runs(runs), f"Learning curves of {', '.join(run.name for run in runs)}"
    else:
        raise WeftError("expected runs, or one comparison; found both: show the comparison by itself")
    shown = _only(shown, task)
    if plot is not None:
        from weft.reporting.single_picture import write_curves

        write_curves(shown, plot, title)
    if as_json:
        print_json({"title": title, "tasks": shown.as_dict()})
    else:
        _print(shown, title)
    print_written(plot, as_json)


def _only(curves: CurveSet, tasks: list[str] | None) -> CurveSet:
    """The curves of the tasks that --task names."""
    from dataclasses import replace

    if not curves.curves:
        raise WeftError("there is no evaluation in these folders; train with train.evaluate_every set")
    if not tasks:
        return curves
    known = {curves.title(task): task for task in curves.curves}
    for task in tasks:
        if task not in known:
            raise WeftError(f"--task {task!r}: {did_you_mean(task, list(known))}")
    return replace(curves, curves={known[task]: curves.curves[known[task]] for task in tasks})


def _print(curves: CurveSet, title: str) -> None:
    rows: list[list[object]] = []
    for task, of_task in curves.curves.items():
        for name, curve in of_task.items():
            best = max(range(len(curve.steps)), key=lambda i: curve.middle[i])
            kept = curves.kept.get((name, task))
            rows.append(
                [
                    curves.title(task),
                    name,
                    f"{curve.middle[0]:.1f}",
                    f"{curve.middle[best]:.1f}",
                    curve.steps[best],
                    f"{curve.middle[-1]:.1f}",
                    curve.steps[-1],
                    "" if kept is None else f"{kept:,}",
                ]
            )
    columns = ["task", "series", "first", "best", "at step", "last", "at step", "kept step"]
    print_table(f"{title}: scores in percent at the evaluations", columns, rows)
