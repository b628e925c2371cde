"""`weft show covariance`: how alike the covariances of the tasks' inputs are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.data_of_model import check_same_tasks, find_tasks
from weft.cli.devices import device_of
from weft.cli.matrices import can_print, number, numbers, print_matrix
from weft.cli.places import check_plot

if TYPE_CHECKING:
    from weft.analysis.covariance import CovarianceSimilarity


def covariance(
    folder: Annotated[Path, typer.Argument(metavar="RUN|BUNDLE", help="a run's folder, or a bundle")],
    split: Annotated[str, typer.Option(help="train, validation or test")] = "validation",
    rows: Annotated[int, typer.Option(help="so many rows of each task, the same for every model")] = 500,
    pool: Annotated[
        str, typer.Option(metavar="mean|cls|tokens", help="what a row of X is: see above")
    ] = "mean",
    share: Annotated[
        float, typer.Option(help="of the sum of the singular values that a rank must hold")
    ] = 0.99,
    tasks: Annotated[str | None, typer.Option(metavar="RUN.yaml", help="where a bundle's data is")] = None,
    encoder: Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|FILE.png", help="draw the heat map here")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """How alike the covariances of the tasks' inputs to the first block are (CovSim, CA-MTL eq. 3.7).

    A row of X is the mean of a row's tokens, its first token (cls), or every token by itself (tokens); the
    paper does not say which. A task's CovSim with itself is not 1 in general: √(Σ D²) / Σ D, D its leading
    singular values.
    """
    check_plot(plot)
    from weft.analysis.covariance import POOLS, check_settings

    check_settings(rows, pool, share)
    run_file, known = find_tasks(folder, tasks)
    from weft.analysis.covariance_of_model import model_covariances
    from weft.bundle.load import load
    from weft.data.split import load_split
    from weft.data.tokens import tokenise

    model = load(folder, encoder=encoder, device=device_of(device))
    check_same_tasks(model, folder, run_file, known)
    splits = {task.name: load_split(known[task.name], split) for task in model.tasks}
    data = {name: tokenise(s, model.source.tokenizer, model.max_length) for name, s in splits.items()}
    found = model_covariances(model, data, rows, pool, share)
    for note in _notes(found, pool):
        print(f"note: {note}", file=sys.stderr)
    title = f"CovSim, {split}; a row of X: {POOLS[pool]} ({pool})"
    title += f"; ranks hold {100 * share:g}% of the singular values"
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.covariance_picture import write_picture

        write_picture(found, plot, title.replace("; ", "\n", 1))
    if as_json:
        print(json.dumps({"split": split, "pool": pool, "share": share, **_as_dict(found)}))
    else:
        _print(found, title)
    if plot is not None:
        print(f"written: {plot}", file=sys.stderr if as_json else sys.stdout)


def _notes(found: CovarianceSimilarity, pool: str) -> Iterator[str]:
    if pool == "cls":
        yield (
            "before the first block the first token has seen no other: it is the same in all rows of a task, "
            "and X has rank 1; --pool mean or tokens says more"
        )
    if len(found.tasks) == 1:
        yield f"this model has one task, {found.tasks[0]}: there are no others to average over"
    if found.zero:
        yield f"all inputs of {', '.join(found.zero)} are zero, so that no similarity to it is defined"


def _as_dict(found: CovarianceSimilarity) -> dict[str, Any]:
    """Numbers that are not defined are null."""
    return {
        "tasks": list(found.tasks),
        "rows": list(found.counts),
        "ranks": list(found.ranks),
        "covsim": numbers(found.matrix),
        "average": [number(x) for x in found.averages.tolist()],
    }


def _print(found: CovarianceSimilarity, title: str) -> None:
    from weft.analysis.heat_map import two_decimals
    from weft.cli.tables import print_table

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
