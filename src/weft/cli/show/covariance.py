"""`weft show covariance`: how similar the covariances of the tasks' inputs are."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.completion import among
from weft.cli.options import Device, EncoderOption, Json, Plot, Split, TaskFiles
from weft.cli.output import print_json, print_notes, print_table, print_written
from weft.cli.paths import check_hand_drawn, check_plot
from weft.cli.show.matrices import can_print, print_matrix
from weft.errors import WeftError

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
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="reference: folder of a run whose scores the models' are compared with, such as one "
            "single-task run per task; may be repeated; default: none",
        ),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Compare tasks by the covariance of their inputs.

    CovSim (CA-MTL, eq. 3.7) is the similarity of the covariances of X, the tasks' inputs to the first block.
    The paper does not say what a row of X is: choose with --pool. A task's CovSim with itself is in general
    not 1: it is √(Σ D²) / Σ D, with D its leading singular values. To compare models that were trained on one
    task each, list all of them.

    With --against, each folder is a model of several tasks: prints the CovSim of each task with the model's
    other tasks beside the change of its score, in percent of the best reference. --plot FILE.svg draws the
    scatter of the paper's figure 3.6.

    Example: weft show covariance runs/first --rows 200 --plot covsim.svg

    Example: weft show covariance runs/mtl runs/ca --against runs/separate --plot figure3.6.svg
    """
    if against:
        settings = {"files": tasks, "rows": rows, "pool": pool, "share": share}
        _against(folders, against, split, {**settings, "encoder": encoder, "device": device}, plot, as_json)
        return
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


def _against(
    folders: list[Path],
    references: list[Path],
    split: str,
    settings: dict[str, Any],
    plot: Path | None,
    as_json: bool,
) -> None:
    """CovSim beside the change of scores."""
    check_hand_drawn(plot)
    if split == "train":
        raise WeftError("--split train: no scores of it are stored; expected validation or test")
    from weft.workflows.covariance import covariance_against

    rows = covariance_against(folders, references, split=split, **settings)
    drawn = [row for row in rows if isfinite(row.similarity) and isfinite(row.gain)]
    left = [f"{row.task} of {row.model}" for row in rows if row not in drawn]
    print_notes([f"not drawn, for want of a reference or of a CovSim: {', '.join(left)}"] if left else [])
    if plot is not None:
        from weft.reporting.covariance_scatter import TaskPoint
        from weft.reporting.single_picture import write_covariance

        points = [TaskPoint(row.model, row.task, row.similarity, row.gain) for row in drawn]
        write_covariance(points, plot, "against the reference")
    if as_json:
        print_json(
            {"split": split, "references": [str(r) for r in references], "tasks": [r.as_dict() for r in rows]}
        )
    else:
        undefined = "–" if can_print("–") else "-"
        print_table(
            f"CovSim with the model's other tasks, and scores in percent, {split}",
            ["model", "task", "CovSim", "score", "reference", "change in percent"],
            [
                [
                    row.model,
                    row.task,
                    f"{row.similarity:.3f}" if isfinite(row.similarity) else undefined,
                    f"{100 * row.score:.1f}",
                    undefined if row.reference is None else f"{100 * row.reference:.1f}",
                    f"{row.gain:+.1f}" if isfinite(row.gain) else undefined,
                ]
                for row in rows
            ],
        )
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
