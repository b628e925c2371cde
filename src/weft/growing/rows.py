"""The rows that a new task is trained and judged on."""

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
    """What a task is trained and judged on.

    Attributes:
        train: the training rows.
        validation: the validation rows.
        given: how many training rows there are without `fraction`.
        cut: whether the validation rows were cut off the training rows.
        notes: what could matter.
        further: further sets that it is judged on, by their names `TASK:SET`.
    """

    train: Split
    validation: Split
    given: int
    cut: bool
    notes: tuple[str, ...]
    further: dict[str, Split] = field(default_factory=dict)

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
    if task.fraction != 1 and grow.fraction != 1:
        raise WeftError(
            f"task {task.name!r}: fraction {task.fraction:g} and grow.fraction {grow.fraction:g}; give one"
        )
    # a hub's data set has its splits; files may be there for some alone
    is_cut = bool(task.files) and "validation" not in task.files
    own = task.cut is not None
    rules = SplitRules(
        task.fraction, task.cut or grow.validation, task.halves, task.split_seed if own else seed
    )
    prepared = prepare(task, rules=rules)
    given, validation = prepared["train"], prepared["validation"]
    whole = prepared.parts["train"].given
    train = share_of(given, grow.fraction, seed)
    # of the cut it is told below, by the names that it has here
    notes = [note for note in prepared.notes if own or "validation file:" not in note]
    if is_cut and not own:
        notes.append(
            f"task {task.name!r} has no validation file: {len(validation)} of {whole} training rows are "
            f"cut off to validate on (grow.validation {rules.cut:g}, train.seed {rules.seed})"
        )
    if missing := without_rows(train):
        notes.append(
            f"no training row of task {task.name!r} has the label {', '.join(map(repr, missing))}: "
            f"{len(train)} of {len(given)} rows are used"
        )
    further = {name: rows for (name, _), rows in further_rows(task, ["validation"]).items()}
    return TaskRows(train, validation, len(given), is_cut, tuple(notes), further)


def rows_as(rows: TaskRows, task: Task) -> TaskRows:
    """The same rows as those of a bundle's own task, which says what they are judged by.

    How they are weighted and windowed is said by the task file.
    """
    given = rows.train.task
    task = replace(task, class_weights=given.class_weights, stride=given.stride)
    further = {name: replace(own, task=task) for name, own in rows.further.items()}
    train, validation = (replace(own, task=task) for own in (rows.train, rows.validation))
    return replace(rows, train=train, validation=validation, further=further)
