"""`weft show covariance`: how alike the covariances of the tasks' inputs are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.devices import device_of
from weft.cli.paths import check_plot
from weft.cli.show.matrices import can_print, number, numbers, print_matrix
from weft.config.model_data import find_tasks, tasks_with_data
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.analysis.covariance import Covariance, CovarianceSimilarity


def covariance(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|BUNDLE", help="a run's folder, or a bundle; several: the tasks of all"),
    ],
    split: Annotated[str, typer.Option(help="train, validation or test")] = "validation",
    rows: Annotated[int, typer.Option(help="so many rows of each task, the same for every model")] = 500,
    pool: Annotated[
        str, typer.Option(metavar="mean|cls|tokens", help="what a row of X is: see above")
    ] = "mean",
    share: Annotated[
        float, typer.Option(help="of the sum of the singular values that a rank must hold")
    ] = 0.99,
    tasks: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN.yaml", help="where a bundle's data is; may be given repeatedly"),
    ] = None,
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
    singular values. Models trained on one task each, as in the paper's figure 3.6, are given one by one.
    """
    check_plot(plot)
    from weft.analysis.covariance import POOLS, check_settings

    check_settings(rows, pool, share)
    known = [find_tasks(folder, tasks) for folder in folders]
    from weft.analysis.covariance import covariance_similarity
    from weft.analysis.covariance_of_model import covariances_of
    from weft.bundle.load import load
    from weft.data.splits.splits import load_rows
    from weft.data.tokens.tokens import tokenize

    by_folder: list[dict[str, Covariance]] = []
    for folder, there in zip(folders, known, strict=True):
        model = load(folder, encoder=encoder, device=device_of(device))
        splits = {task.name: load_rows(task, split) for task in tasks_with_data(model, folder, there)}
        data = {name: tokenize(s, model.tokenizer, model.max_length) for name, s in splits.items()}
        by_folder.append(covariances_of(model, data, rows, pool))
    together = _together(folders, by_folder)
    found = covariance_similarity(list(together), list(together.values()), share)
    for note in _notes(found, pool):
        print(f"note: {note}", file=sys.stderr)
    title = f"CovSim, {split}; a row of X: {POOLS[pool]} ({pool})"
    title += f"; ranks hold {100 * share:g}% of the singular values"
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        from weft.analysis.plots.covariance import write_picture

        write_picture(found, plot, title.replace("; ", "\n", 1))
    if as_json:
        print(json.dumps({"split": split, "pool": pool, "share": share, **_as_dict(found)}))
    else:
        _print(found, title)
    if plot is not None:
        print(f"written: {plot}", file=sys.stderr if as_json else sys.stdout)


def _together(folders: list[Path], by_folder: list[dict[str, Covariance]]) -> dict[str, Covariance]:
    """The tasks of all folders; one that several have is called after its folder too."""
    names = [name for found in by_folder for name in found]
    together: dict[str, Covariance] = {}
    for folder, found in zip(folders, by_folder, strict=True):
        for name, one in found.items():
            full = f"{folder}:{name}" if names.count(name) > 1 else name
            if full in together:
                raise WeftError(f"{folder} is given twice")
            together[full] = one
    widths = {
        folder: len(one.matrix) for folder, f in zip(folders, by_folder, strict=True) for one in f.values()
    }
    if len(set(widths.values())) > 1:
        told = ", ".join(f"{folder}: {width}" for folder, width in widths.items())
        raise WeftError(f"the encoders' widths differ ({told}); expected models of one width")
    return together


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
    from weft.analysis.plots.heat_map import two_decimals
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
