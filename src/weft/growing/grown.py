"""What growing a model gives."""

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
        start: where what is its own began: a task's name, `average`, `random`, `xavier`; or in words,
            where it was trained again.
        head: where its head began, in words.
        zero_shot: what `start: auto` found; None if it was not asked for.
        rows: how many rows there were.
        scores: of the task, over all its validation rows.
        majority: what the most frequent training label, or the mean, gets on them.
        unchanged: the sha256 of every file that is what it was, by its path in the bundle.
        notes: what was decided and could matter.
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
        """JSON-able."""
        return {**asdict(self), "folder": str(self.folder)}
