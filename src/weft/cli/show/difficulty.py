"""`weft show difficulty`: how difficult classification tasks are, estimated from their data alone."""

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
    """Estimate how difficult the classification tasks are.

    The difficulty (EDM) is the sum of five measures of the texts and labels; no model is trained. The two
    texts of a pair are joined by a space. Tasks of other kinds than classify have no difficulty.

    Example: weft show difficulty quickstart --plot difficulty.svg
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
    # the file first: the reader of a pipe may close it before everything is printed
    if plot is not None:
        write_picture(done.difficulties, plot, title)
    if as_json:
        print_json({"split": split, "order": order, "tasks": done.as_dict(), "without": done.without})
    else:
        _print(title, order, done)
    print_written(plot, as_json)


def _print(title: str, order: list[str], done: TaskDifficulties) -> None:
    from weft.analysis.difficulty import PARTS

    rows = []
    for task in order:
        scores = done.difficulties[task]
        values = [*scores.parts().values(), scores.total]
        rows.append([task, done.rows[task], *(f"{value:.4f}" for value in values)])
    print_table(title, ["task", "rows", *PARTS.values(), "difficulty"], rows)
