"""The rows that a new task is trained and evaluated on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.data.splits.split import Split
from weft.data.splits.splits import SplitRules, prepare
from weft.data.splits.subset import share_of, without_rows
from weft.data.splits.task_rows import further_rows
from weft.errors import WeftError
from weft.growing.settings import GrowSettings
from weft.tasks.task import Task


@dataclass(frozen=True)
class TaskRows:
    """The rows that a task is trained and evaluated on.

    Attributes:
        train: the training rows.
        validation: the validation rows.
        available: the number of training rows before `fraction`.
        cut: whether the validation rows were taken from the training rows.
        notes: facts that may matter to the user.
        further: further sets to evaluate, by their names `TASK:SET`.
    """

    train: Split
    validation: Split
    available: int
    cut: bool
    notes: tuple[str, ...]
    further: dict[str, Split] = field(default_factory=dict)

    def as_dict(self) -> dict[str, int | bool]:
        """The numbers of rows."""
        return {
            "train": len(self.train),
            "train_given": self.available,
            "validation": len(self.validation),
            "validation_is_cut": self.cut,
        }


def task_rows(task: Task, grow: GrowSettings, seed: int) -> TaskRows:
    """Read a task's rows.

    If the task has no validation file, a share of its training rows is used instead, whatever `fraction` is.

    Args:
        task: the task, with its files.
        grow: `fraction` and `validation`.
        seed: the seed of both selections.
    """
    if task.fraction != 1 and grow.fraction != 1:
        raise WeftError(
            f"task {task.name!r}: fraction {task.fraction:g} and grow.fraction {grow.fraction:g}; set only "
            "one of them"
        )
    # a dataset of the hub has its splits; files may exist for some splits only
    is_cut = bool(task.files) and "validation" not in task.files
    has_cut = task.cut is not None
    rules = SplitRules(
        task.fraction, task.cut or grow.validation, task.halves, task.split_seed if has_cut else seed
    )
    prepared = prepare(task, rules=rules)
    candidates, validation = prepared["train"], prepared["validation"]
    whole = prepared.parts["train"].given
    train = share_of(candidates, grow.fraction, seed)
    # the cut is reported below, under the names of the grow section
    notes = [note for note in prepared.notes if has_cut or "validation file:" not in note]
    if is_cut and not has_cut:
        notes.append(
            f"task {task.name!r} has no validation file: {len(validation)} of {whole} training rows are "
            f"used for validation (grow.validation {rules.cut:g}, train.seed {rules.seed})"
        )
    if missing := without_rows(train):
        notes.append(
            f"no training row of task {task.name!r} has the label {', '.join(map(repr, missing))}: "
            f"{len(train)} of {len(candidates)} rows are used"
        )
    further = {name: rows for (name, _), rows in further_rows(task, ["validation"]).items()}
    return TaskRows(train, validation, len(candidates), is_cut, tuple(notes), further)


def rows_as(rows: TaskRows, task: Task) -> TaskRows:
    """Return the rows as rows of the bundle's task, whose metrics apply.

    Class weights and the stride of windows are those of the task file.
    """
    file_task = rows.train.task
    task = replace(task, class_weights=file_task.class_weights, stride=file_task.stride)
    further = {name: replace(split, task=task) for name, split in rows.further.items()}
    train, validation = (replace(split, task=task) for split in (rows.train, rows.validation))
    return replace(rows, train=train, validation=validation, further=further)
