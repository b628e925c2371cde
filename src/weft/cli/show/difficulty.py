"""`weft show difficulty`: how difficult the classification tasks of a run are, by their data alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.paths import check_plot
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.analysis.difficulty import Difficulty
    from weft.tasks.task import Task


def difficulty(
    source: Annotated[str, typer.Argument(metavar="RUN.yaml", help="a run file, or a preset by name")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="key=value", help="such as tasks.only=[cola,rte]")
    ] = None,
    split: Annotated[str, typer.Option(help="train, validation or test")] = "train",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|FILE.png", help="draw stacked bars here")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """How difficult the classification tasks are by their texts and labels (EDM), with its five parts.

    Two texts of a row are joined by a space. Tasks of other kinds have no classes, and no difficulty.
    """
    check_plot(plot)
    from weft.config import load_run
    from weft.tasks.kinds import KINDS

    tasks = load_run(source, overrides or []).tasks
    found: dict[str, Difficulty] = {}
    rows: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for task in tasks:
        if not KINDS[task.kind].has_classes:
            reasons[task.name] = f"kind {task.kind!r} has no classes, which a difficulty needs"
            continue
        try:
            rows[task.name], found[task.name] = _measured(task, split)
        except Undefined as wrong:
            reasons[task.name] = str(wrong)
        except WeftError as wrong:
            raise WeftError(f"{source}: {wrong}") from None
    for task_name, reason in reasons.items():
        print(f"note: task {task_name!r} has no difficulty: {reason}", file=sys.stderr)
    if not found:
        raise WeftError(
            f"{source}: no task has a difficulty; expected at least one of kind 'classify', with two classes"
        )
    from weft.analysis.plots.difficulty import by_difficulty, write_picture

    order = by_difficulty(found)
    title = f"{source}: difficulty (EDM) of the split {split}"
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        write_picture(found, plot, title)
    if as_json:
        told = {name: _as_dict(rows[name], found[name]) for name in found}
        print(json.dumps({"split": split, "order": order, "tasks": told, "without": reasons}))
    else:
        _print(title, order, rows, found)
    if plot is not None:
        print(f"written: {plot}", file=sys.stderr if as_json else sys.stdout)


class Undefined(WeftError):
    """A task has no difficulty by its data; others may."""


def _measured(task: Task, split: str) -> tuple[int, Difficulty]:
    """The number of rows, and the difficulty."""
    from weft.analysis.difficulty import difficulty as difficulty_of
    from weft.data.splits.splits import load_rows

    loaded = load_rows(task, split)
    if loaded.labels is None:
        raise WeftError(
            f"split {split!r} of task {task.name!r} ({loaded.source}) has no labels, which a difficulty "
            "needs; take another: --split train"
        )
    labels: list[Any] = loaded.labels
    try:
        return len(loaded), difficulty_of((" ".join(texts) for texts in loaded.texts), labels)
    except WeftError as wrong:
        raise Undefined(f"split {split!r} ({loaded.source}): {wrong}") from None


def _as_dict(rows: int, found: Difficulty) -> dict[str, Any]:
    return {"rows": rows, "difficulty": found.total, **found.parts()}


def _print(title: str, order: list[str], rows: dict[str, int], found: dict[str, Difficulty]) -> None:
    from weft.analysis.difficulty import PARTS
    from weft.cli.tables import print_table

    # not as the table's own title, which would be broken to its width
    print(title)
    print_table(
        "",
        ["task", "rows", *PARTS.values(), "difficulty"],
        [
            [
                task,
                rows[task],
                *(f"{value:.4f}" for value in found[task].parts().values()),
                f"{found[task].total:.4f}",
            ]
            for task in order
        ],
    )
