"""`weft show covariance`: how similar the covariances of the tasks' inputs are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among
from weft.cli.options import Device, EncoderOption, Json, Plot, Split, TaskFiles
from weft.cli.output import print_json, print_notes, print_table, print_written
from weft.cli.paths import check_plot
from weft.cli.show.matrices import can_print, print_matrix

if TYPE_CHECKING:
    from weft.analysis.covariance import CovarianceSimilarity


def covariance(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|BUNDLE", help="folders of runs or saved models (bundles) whose tasks are compared"
        ),
    ],
    split: Split = "validation",
    rows: Annotated[
        int, typer.Option(help="number of examples per task, the same ones for every model")
    ] = 500,
    pool: Annotated[
        str,
        typer.Option(
            metavar="mean|cls|tokens",
            autocompletion=among("mean", "cls", "tokens"),
            help="vectors whose covariance is computed: the mean of an example's tokens, its first token "
            "(cls), or every token",
        ),
    ] = "mean",
    share: Annotated[
        float,
        typer.Option(
            help="keep as many leading singular values as hold this fraction of their sum, above 0 and "
            "up to 1"
        ),
    ] = 0.99,
    tasks: TaskFiles = None,
    encoder: EncoderOption = None,
    device: Device = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Compare tasks by the covariance of their inputs.

    CovSim (CA-MTL, eq. 3.7) is the similarity of the covariances of X, the tasks' inputs to the first block.
    The paper does not say what a row of X is: choose with --pool. A task's CovSim with itself is in general
    not 1: it is √(Σ D²) / Σ D, with D its leading singular values. To compare models that were trained on one
    task each, as in the paper's figure 3.6, list all of them.

    Example: weft show covariance runs/first --rows 200 --plot covsim.svg
    """
    check_plot(plot)
    from weft.workflows.covariance import covariance_of_runs

    similarity = covariance_of_runs(
        folders, tasks, split=split, rows=rows, pool=pool, share=share, encoder=encoder, device=device
    )
    from weft.analysis.covariance import POOLS

    print_notes(_notes(similarity, pool))
    title = f"CovSim, {split}; a row of X: {POOLS[pool]} ({pool})"
    title += f"; ranks hold {100 * share:g}% of the singular values"
    # the file first: the reader of a pipe may close it before everything is printed
    if plot is not None:
        from weft.analysis.plots.covariance import write_picture

        write_picture(similarity, plot, title.replace("; ", "\n", 1))
    if as_json:
        print_json({"split": split, "pool": pool, "share": share, **similarity.as_dict()})
    else:
        _print(similarity, title)
    print_written(plot, as_json)


def _notes(similarity: CovarianceSimilarity, pool: str) -> Iterator[str]:
    if pool == "cls":
        yield (
            "before the first block the first token does not depend on the text: it is the same in all "
            "rows of a task, and X has rank 1; --pool mean or --pool tokens tells more"
        )
    if len(similarity.tasks) == 1:
        yield f"there is only one task, {similarity.tasks[0]}: there is no average over the others"
    if similarity.zero:
        yield f"all inputs of {', '.join(similarity.zero)} are zero: no similarity to it is defined"


def _print(similarity: CovarianceSimilarity, title: str) -> None:
    from weft.analysis.plots.heat_map import two_decimals

    print_matrix(title, similarity.tasks, similarity.matrix)
    print()
    undefined = "–" if can_print("–") else "-"
    print_table(
        "",
        ["task", "rows of X", "rank kept", "with itself", "mean with the others"],
        [
            [
                task,
                similarity.counts[n],
                similarity.ranks[n],
                two_decimals(float(similarity.matrix[n, n]), undefined),
                two_decimals(float(similarity.averages[n]), undefined),
            ]
            for n, task in enumerate(similarity.tasks)
        ],
    )
