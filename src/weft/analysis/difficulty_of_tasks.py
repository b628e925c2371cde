"""The difficulty of tasks from their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.analysis.difficulty import Difficulty, difficulty
from weft.data.splits.splits import load_rows
from weft.errors import WeftError, words
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.tasks.task import Task


@dataclass
class TaskDifficulties:
    """The difficulties of some tasks.

    Attributes:
        rows: the number of rows, by task.
        difficulties: the difficulty, by task.
        without: the reason why a task has no difficulty, by task.
    """

    rows: dict[str, int] = field(default_factory=dict)
    difficulties: dict[str, Difficulty] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The rows, difficulty and parts of each task, as JSON values."""
        return {
            name: {"rows": self.rows[name], "difficulty": value.total, **value.parts()}
            for name, value in self.difficulties.items()
        }


def difficulty_of_tasks(tasks: Sequence[Task], split: str = "train") -> TaskDifficulties:
    """Compute the difficulty of classification tasks from their texts and labels; see
    `weft.analysis.difficulty`.

    Two texts of a row are joined by a space. Tasks of other kinds have no classes, and no difficulty.

    Args:
        tasks: the tasks, with their files.
        split: `train`, `validation` or `test`.
    """
    done = TaskDifficulties()
    for task in tasks:
        if not KINDS[task.kind].has_classes:
            done.without[task.name] = f"kind {task.kind!r} has no classes, which a difficulty needs"
            continue
        loaded = load_rows(task, split)
        if loaded.labels is None:
            raise WeftError(
                f"split {split!r} of task {task.name!r} ({loaded.source}) has no labels, which a difficulty "
                f"needs; use a different split: {words('--split train', 'split=' + repr('train'))}"
            )
        labels: list[Any] = loaded.labels
        try:
            done.difficulties[task.name] = difficulty((" ".join(texts) for texts in loaded.texts), labels)
        except WeftError as wrong:  # concerns the data of this task only
            done.without[task.name] = f"split {split!r} ({loaded.source}): {wrong}"
            continue
        done.rows[task.name] = len(loaded)
    return done
