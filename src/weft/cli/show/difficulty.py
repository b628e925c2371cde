"""`weft show difficulty`: how difficult the classification tasks of a run are, by their data alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.options import Json, Overrides, Plot, RunFileArgument, Split
from weft.cli.output import print_json, print_note, print_table, print_written
from weft.cli.paths import check_plot
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.analysis.difficulty_of_tasks import TaskDifficulties


def difficulty(
    source: RunFileArgument,
    overrides: Overrides = None,
    split: Split = "train",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """How difficult the classification tasks are by their texts and labels (EDM), with its five parts.

    Two texts of a row are joined by a space. Tasks of other kinds have no classes, and no difficulty.
    """
    check_plot(plot)
    from weft.analysis.difficulty_of_tasks import difficulty_of_tasks
    from weft.config import load_run

    tasks = load_run(source, overrides or []).tasks
    try:
        done = difficulty_of_tasks(tasks, split)
    except WeftError as wrong:
        raise WeftError(f"{source}: {wrong}") from None
    for name, reason in done.without.items():
        print_note(f"task {name!r} has no difficulty: {reason}")
    if not done.difficulties:
        raise WeftError(
            f"{source}: no task has a difficulty; expected at least one of kind 'classify', with two classes"
        )
    from weft.analysis.plots.difficulty import by_difficulty, write_picture

    order = by_difficulty(done.difficulties)
    title = f"{source}: difficulty (EDM) of the split {split}"
    # the file first: a reader of the pipe may leave before all is printed
    if plot is not None:
        write_picture(done.difficulties, plot, title)
    if as_json:
        print_json({"split": split, "order": order, "tasks": done.as_dict(), "without": done.without})
    else:
        _print(title, order, done)
    print_written(plot, as_json)


def _print(title: str, order: list[str], done: TaskDifficulties) -> None:
    from weft.analysis.difficulty import PARTS

    # not as the table's own title, which would be broken to its width
    print(title)
    rows = []
    for task in order:
        one = done.difficulties[task]
        values = [*one.parts().values(), one.total]
        rows.append([task, done.rows[task], *(f"{value:.4f}" for value in values)])
    print_table("", ["task", "rows", *PARTS.values(), "difficulty"], rows)
