"""The `heads` section of a run file. No torch is imported to check it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PositiveInt

from weft.settings import Settings
from weft.tasks.checks import WIDEST

if TYPE_CHECKING:
    from weft.tasks.task import Task


class HeadSettings(Settings):
    """The `heads` section of a run file."""

    what = "heads"

    pool: Literal["auto", "pooler", "cls", "mean", "task_pooler"] = Field(
        "auto",
        description="what heads read: the encoder's pooler, its first token, the mean of its tokens, or one "
        "pooler per task; auto: mean for a sentence encoder whose files say so (minilm), else the pooler, "
        "else the first token",
    )
    dropout: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="dropout probability of the heads' input and between their layers, in training",
    )
    layers: int = Field(1, ge=1, le=3, description="layers of a head, with ReLU and dropout between them")
    hidden: PositiveInt | None = Field(
        None, le=WIDEST, description="the width between layers; default: the encoder's"
    )
    start: Literal["random", "zero", "probe"] = Field(
        "probe",
        description="initial values of the last layer: drawn from N(0, 0.02²); zero; or probe: logistic or "
        "ridge regression on the model's features, fitted to some training rows before the first step",
    )

    def applied(self, task: Task) -> Task:
        """Return the task with these settings for its head, where the task itself has none."""
        changes: dict[str, Any] = {}
        if self.layers > 1 and task.layers is None:
            changes["layers"] = self.layers
        if self.hidden is not None and task.hidden is None and (changes or (task.layers or 1) > 1):
            changes["hidden"] = self.hidden
        return replace(task, **changes) if changes else task
