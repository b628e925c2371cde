"""The result of adding or retraining a task."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.evaluation.scores import Scores
from weft.growing.zero_shot import ZeroShot


@dataclass(frozen=True)
class Grown:
    """A bundle in which one task was trained.

    Attributes:
        folder: the bundle.
        task: the task.
        only: what trained: `task`, `head` or `all`.
        start: the initial values of the task's parameters: a task's name, `average`, `random`, `xavier`; for
            a retrained task a description.
        head: a description of the head's initial values.
        zero_shot: the result of `start: auto`; None if it was not requested.
        rows: the numbers of rows.
        scores: the scores of the task, over all its validation rows.
        majority: the scores of the most frequent training label, or of the mean, on the same rows.
        unchanged: the sha256 of every file that did not change, by its path in the bundle.
        notes: decisions that may matter to the user.
    """

    folder: Path
    task: str
    only: str
    start: str
    head: str
    zero_shot: ZeroShot | None
    rows: dict[str, int | bool]
    scores: Scores
    majority: dict[str, float]
    unchanged: dict[str, str]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**asdict(self), "folder": str(self.folder)}
