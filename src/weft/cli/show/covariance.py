"""`weft show covariance`: how similar the covariances of the tasks' inputs are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Device, EncoderOption, Json, Plot, Split, TaskFiles
from weft.cli.output import print_json, print_notes, print_table, print_written
from weft.cli.paths import check_plot
from weft.cli.show.matrices import can_print, print_matrix

if TYPE_CHECKING:
    from weft.analysis.covariance import CovarianceSimilarity


def covariance(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|BUNDLE", help="folders of runs or bundles, whose tasks are compared"),
    ],
    split: Split = "validation",
    rows: Annotated[int, typer.Option(help="number of rows per task, the same for every model")] = 500,
    pool: Annotated[
        str, typer.Option(metavar="mean|cls|tokens", help="what a row of X is: see above")
    ] = "mean",
    share: Annotated[
        float, typer.Option(help="fraction of the sum of singular values that a rank must hold")
    ] = 0.99,
    tasks: TaskFiles = None,
    encoder: EncoderOption = None,
    device: Device = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """How similar the covariances of the tasks' inputs to the first block are (CovSim, CA-MTL eq. 3.7).

    A row of X is the mean of a row's tokens, its first token (cls), or every token by itself (tokens); the
    paper does not say which. A task's CovSim with itself is not 1 in general: √(Σ D²) / Σ D, D its leading
    singular values. Models trained on one task each, as in the paper's figure 3.6, are given one by one.
    """
    check_plot(plot)
    from weft.workflows.covariance import covariance_of_runs

    found = covariance_of_runs(
        folders, tasks, split=split, rows=rows, pool=pool, share=share, encoder=encoder, device=device
    )
    from weft.analysis.covariance import POOLS

    print_notes(_notes(found, pool))
    title = f"CovSim, {split}; a row of X: {POOLS[pool]} ({pool})"
    title += f"; ranks hold {100 * share:g}% of the singular values"
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.plots.covariance import write_picture

        write_picture(found, plot, title.replace("; ", "\n", 1))
    if as_json:
        print_json({"split": split, "pool": pool, "share": share, **found.as_dict()})
    else:
        _print(found, title)
    print_written(plot, as_json)


def _notes(found: CovarianceSimilarity, pool: str) -> Iterator[str]:
    if pool == "cls":
        yield (
            "before the first block the first token has seen no other: it is the same in all rows of a task, "
            "and X has rank 1; --pool mean or tokens says more"
        )
    if len(found.tasks) == 1:
        yield f"there is one task, {found.tasks[0]}: there are no others to average over"
    if found.zero:
        yield f"all inputs of {', '.join(found.zero)} are zero, so that no similarity to it is defined"


def _print(found: CovarianceSimilarity, title: str) -> None:
    from weft.analysis.plots.heat_map import two_decimals

    print_matrix(title, found.tasks, found.matrix)
    print()
    undefined = "–" if can_print("–") else "-"
    print_table(
        "",
        ["task", "rows of X", "rank", "with itself", "average over the others"],
        [
            [
                task,
                found.counts[n],
                found.ranks[n],
                two_decimals(float(found.matrix[n, n]), undefined),
                two_decimals(float(found.averages[n]), undefined),
            ]
            for n, task in enumerate(found.tasks)
        ],
    )
