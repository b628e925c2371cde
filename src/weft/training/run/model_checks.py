"""Checks of a model against the settings of `train`, before rows are tokenized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import WeftError, words
from weft.evaluation.selection import PER_TASK
from weft.training.run.best import check_per_task
from weft.training.run.plan import plan_of
from weft.training.settings import Training
from weft.training.step.trunk_cache import check_trunk
from weft.training.uncertainty import chooser_of

if TYPE_CHECKING:
    from weft.model.model import Model


def check_model(model: Model, training: Training, names: Sequence[str], sizes: Sequence[int]) -> None:
    """Raise WeftError if the model cannot be trained with these settings, before rows are tokenized.

    Args:
        model: the model.
        training: the settings of `train`.
        names: the names of the tasks that train, [T].
        sizes: the number of training examples of each, [T].
    """
    check_trains(model)
    if training.trunk_cache:
        check_trunk(model)
    if training.best == PER_TASK:
        check_per_task(model)
    if training.conflict is not None:
        from weft.training.conflict import build_conflict
        from weft.training.conflict.gradients import TaskGradients

        ids = [model.task_id(name) for name in names]
        TaskGradients(model, build_conflict(training.conflict), names, ids)
    chooser_of(model, names, sizes, plan_of(training, names, sizes, None))


def check_trains(model: Model) -> None:
    """Raise WeftError if nothing trains: a frozen encoder, and heads without parameters (cosine)."""
    if not any(p.requires_grad for p in model.parameters()):
        names = ", ".join(task.name for task in model.tasks)
        raise WeftError(
            f"nothing trains: method {model.method.name!r} does not train the encoder, and the heads of "
            f"{names} have no parameters (similarity by cosine has none); choose a different method, or set "
            f"{words('compare: head', 'compare=' + repr('head'))}"
        )
