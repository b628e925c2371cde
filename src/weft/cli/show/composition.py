"""`weft show composition`: what a run was trained on, over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import HandDrawnPlot, Json
from weft.cli.output import print_json, print_table, print_written
from weft.cli.paths import check_hand_drawn
from weft.errors import WeftError


def composition(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="folder of a run")],
    plot: HandDrawnPlot = None,
    as_json: Json = False,
) -> None:
    """Show which tasks a run was trained on, over time.

    Prints the share of each task in the examples of the whole run, of its beginning and of its end, from the
    log. With the sampler mt_uncertainty these are the examples that the model chose. weft show plan shows
    what a run would sample.

    Example: weft show composition runs/first --plot composition.svg
    """
    check_hand_drawn(plot)
    from weft.reporting.run.sampling import composition_of
    from weft.reporting.run_data import read_run

    run = read_run(folder)
    found = composition_of(run)
    if found is None:
        raise WeftError(
            f"{folder}: the log does not count the examples of each task; train with train.evaluate_every set"
        )
    if plot is not None:
        from weft.reporting.single_picture import write_composition

        write_composition(found, plot, f"What {run.name} was trained on")
    if as_json:
        print_json(
            {
                "tasks": list(found.tasks),
                "chosen_by_model": found.chosen,
                "mean": found.mean(),
                "intervals": [
                    {"start": start, "stop": stop, "share": list(share)}
                    for start, stop, share in zip(found.starts, found.stops, found.shares, strict=True)
                ],
            }
        )
    else:
        rows = [
            [task, *(f"{100 * share[t]:.1f}%" for share in (found.mean(), found.shares[0], found.shares[-1]))]
            for t, task in enumerate(found.tasks)
        ]
        first = f"steps {found.starts[0]:,} to {found.stops[0]:,}"
        last = f"steps {found.starts[-1]:,} to {found.stops[-1]:,}"
        who = "examples that the model chose" if found.chosen else "examples"
        print_table(f"{folder}: share of the {who}", ["task", "all steps", first, last], rows)
    print_written(plot, as_json)
