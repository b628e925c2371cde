"""The rows that a new task is trained and judged on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.data.split import Split, load_split
from weft.data.subset import cut, share_of, without_rows
from weft.grow_settings import GrowSettings
from weft.tasks.task import Task


@dataclass(frozen=True)
class TaskRows:
    """What a task is trained and judged on.

    Attributes:
        train: the training rows.
        validation: the validation rows.
        given: how many training rows there are without `fraction`.
        cut: whether the validation rows were cut off the training rows.
        notes: what could matter.
    """

    train: Split
    validation: Split
    given: int
    cut: bool
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, int | bool]:
        """How many there are."""
        return {
            "train": len(self.train),
            "train_given": self.given,
            "validation": len(self.validation),
            "validation_is_cut": self.cut,
        }


def task_rows(task: Task, grow: GrowSettings, seed: int) -> TaskRows:
    """Read a task's rows.

    Where it has no validation file a share of its training rows is cut off, whatever `fraction` is.

    Args:
        task: the task, with its files.
        grow: `fraction` and `validation`.
        seed: of both choices.
    """
    whole = load_split(task, "train")
    # a hub's data set has its splits; files may be there for some alone
    is_cut = bool(task.files) and "validation" not in task.files
    if is_cut:
        given, validation = cut(whole, grow.validation, seed)
    else:
        given, validation = whole, load_split(task, "validation")
    train = share_of(given, grow.fraction, seed)
    notes = []
    if is_cut:
        notes.append(
            f"task {task.name!r} has no validation file: {len(validation)} of {len(whole)} training rows are "
            f"cut off to validate on (grow.validation {grow.validation:g}, train.seed {seed})"
        )
    if missing := without_rows(train):
        notes.append(
            f"no training row of task {task.name!r} has the label {', '.join(map(repr, missing))}: "
            f"{len(train)} of {len(given)} rows are used"
        )
    return TaskRows(train, validation, len(given), is_cut, tuple(notes))


def rows_as(rows: TaskRows, task: Task) -> TaskRows:
    """The same rows as those of a bundle's own task, which says what they are judged by."""
    return replace(rows, train=replace(rows.train, task=task), validation=replace(rows.validation, task=task))
