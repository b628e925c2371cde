"""Training one task of a model on its rows, while what it may not move stays still."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.stacked import task_owner
from weft.errors import WeftError
from weft.evaluation.scores import Scores
from weft.growing.rows import TaskRows
from weft.methods import METHODS
from weft.model.ownership import Owned, owned
from weft.training.optim.l0 import gates_of
from weft.training.optim.owners import owners_of_tasks
from weft.training.optim.trainable import trainable
from weft.training.run.run import train
from weft.training.settings import Training
from weft.utils import launch_env as launched

if TYPE_CHECKING:
    from weft.model.model import Model


def check_trainable(model: Model, bundle: Path, training: Training) -> None:
    """Refuse gates that are not taken out, and rows longer than the bundle's: they would be cut later."""
    if gates_of(model):
        raise WeftError(
            f"{bundle}: the components of method {model.method.name!r} still have gates (l0), which a "
            f"run of all tasks finds; expected a bundle without: weft compact {bundle} --out SMALL"
        )
    if training.max_length != model.max_length:
        raise WeftError(
            f"train.max_length: {training.max_length}; {bundle} cuts the texts of all its tasks to "
            f"{model.max_length} tokens: leave it out, or give {model.max_length}"
        )


def check_run(run: Path | None, bundle: Path, out: Path) -> None:
    """Refuse a folder for the training that something stands in, or that the bundle or the result needs."""
    if run is None:
        return
    if run.is_file() or (run.is_dir() and any(run.iterdir())):
        raise WeftError(f"--run {run}: something is there already; give a new folder")
    mine = run.resolve()
    for other, what in ((bundle, "the bundle"), (out, "--out")):
        place = other.resolve()
        if mine == place or place in mine.parents or mine in place.parents:
            raise WeftError(
                f"--run {run}: {what} is {other}; give a folder that is neither in it nor around it"
            )


def moves_of(model: Model, name: str, only: str, also: Collection[str] = ()) -> Callable[[Owned], bool]:
    """What moves when a task is trained.

    Args:
        model: the model.
        name: the task.
        only: `head`, its head; `task`, what is its own; `all`, all that its rows run through.
        also: further owners that are this task's alone.
    """
    mine = task_owner(name)
    if only == "head":
        return lambda item: item.owner == mine and item.part == "heads"
    if only == "task":
        return lambda item: item.owner == mine or item.owner in also
    through = owners_of_tasks(model)[model.task_id(name)]
    return lambda item: item.owner in through


def moved_beside(model: Model, name: str, moves: Callable[[Owned], bool]) -> set[str]:
    """The owners besides the task itself that its training moves."""
    moved = {item.owner for item in owned(model) if item.trains and moves(item)}
    return moved - {task_owner(name)}


def default_lr(model: Model, name: str, moves: Callable[[Owned], bool]) -> float:
    """The method's own, but that of `frozen` where nothing but a head moves."""
    mine = [item for item in owned(model) if item.owner == task_owner(name)]
    parts = {item.part for item in mine if item.trains and moves(item)}
    alone = parts == {"heads"} and not moved_beside(model, name, moves)
    return METHODS["frozen"].default_lr if alone else model.method.default_lr


def train_one(
    model: Model,
    name: str,
    rows: TaskRows,
    training: Training,
    moves: Callable[[Owned], bool],
    *,
    run: Path | None,
    resolved: dict[str, Any],
    progress: bool,
) -> Scores:
    """Train; the model ends with the best weights, and the scores are over all validation rows.

    Args:
        model: the model, on its device.
        name: the task.
        rows: its rows.
        training: how to train; without `lr`, at what suits what moves.
        moves: what may move.
        run: keep run.yaml, log.jsonl and metrics.json here; None keeps nothing.
        resolved: what run.yaml is to say besides `train`.
        progress: show what happens.
    """
    if launched.world() > 1:
        raise WeftError(
            "a task of a bundle is trained by one process; begin it without torchrun or accelerate"
        )
    if training.lr is None:
        training = training.model_copy(update={"lr": default_lr(model, name, moves)})
    with ExitStack() as stack:
        folder = run or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-")))
        stack.enter_context(trainable(model, moves))
        splits = {(name, "train"): rows.train, (name, "validation"): rows.validation}
        splits |= {(further, "validation"): own for further, own in rows.further.items()}
        done = train(
            model,
            training,
            folder,
            resolved={**resolved, "train": training.model_dump(mode="json")},
            splits=splits,
            progress=progress,
            tasks=[name],
            with_bundle=False,
        )
    return done.metrics
