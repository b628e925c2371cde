"""Training one task of a model on its rows, while all other parameters stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.stacked import task_owner
from weft.errors import WeftError, words
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
from weft.utils.temporary import is_leftover_name, scratch_folder

if TYPE_CHECKING:
    from weft.model.model import Model


def check_trainable(model: Model, bundle: Path, training: Training) -> None:
    """Refuse a model that still has gates, and a max_length that differs from the bundle's."""
    if gates_of(model):
        raise WeftError(
            f"{bundle}: the components of method {model.method.name!r} still have gates (l0), which a "
            "run of all tasks decides; expected a bundle without gates: "
            + words(
                f"weft compact {bundle} --out SMALL", f"weft.load({str(bundle)!r}).compact().save('SMALL')"
            )
        )
    if training.max_length != model.max_length:
        raise WeftError(
            f"{words('train.max_length', 'max_length')}: {training.max_length}; {bundle} cuts the texts of "
            f"all its tasks to {model.max_length} tokens: leave it out, or set {model.max_length}"
        )


def check_run(run: Path | None, bundle: Path, out: Path) -> None:
    """Refuse a run folder that is not empty, or that overlaps the bundle or the result."""
    if run is None:
        return
    if run.is_file() or (run.is_dir() and not all(is_leftover_name(path.name) for path in run.iterdir())):
        raise WeftError(f"{words('--run', 'run')} {run}: this already exists; pass a new folder")
    run_path = run.resolve()
    for folder, label in ((bundle, "the bundle"), (out, words("--out", "out"))):
        path = folder.resolve()
        if run_path == path or path in run_path.parents or run_path in path.parents:
            raise WeftError(
                f"{words('--run', 'run')} {run}: {label} is {folder}; pass a folder that is neither inside "
                "it nor a parent of it"
            )


def moves_of(
    model: Model, name: str, only: str, extra_owners: Collection[str] = ()
) -> Callable[[Owned], bool]:
    """Return a function that says which parameters train with a task.

    Args:
        model: the model.
        name: the task.
        only: `head`, its head; `task`, all parameters of the task; `all`, all parameters that its rows use.
        extra_owners: further owners whose parameters only this task uses.
    """
    owner = task_owner(name)
    if only == "head":
        return lambda item: item.owner == owner and item.part == "heads"
    if only == "task":
        return lambda item: item.owner == owner or item.owner in extra_owners
    through = owners_of_tasks(model)[model.task_id(name)]
    return lambda item: item.owner in through


def moved_beside(model: Model, name: str, moves: Callable[[Owned], bool]) -> set[str]:
    """The owners besides the task itself whose parameters its training changes."""
    moved = {item.owner for item in owned(model) if item.trains and moves(item)}
    return moved - {task_owner(name)}


def default_lr(model: Model, name: str, moves: Callable[[Owned], bool]) -> float:
    """The method's learning rate, or that of `frozen` if only a head trains."""
    items = [item for item in owned(model) if item.owner == task_owner(name)]
    parts = {item.part for item in items if item.trains and moves(item)}
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
    """Train one task. The model ends with the best weights; the scores are over all validation rows.

    Args:
        model: the model, on its device.
        name: the task.
        rows: its rows.
        training: the training settings; without `lr`, `default_lr` is used.
        moves: which parameters may train.
        run: the folder to keep run.yaml, log.jsonl and metrics.json in; None keeps nothing.
        resolved: the contents of run.yaml besides `train`.
        progress: whether to show progress.
    """
    if launched.world() > 1:
        raise WeftError(
            "a task of a bundle is trained by one process; start it without torchrun or accelerate"
        )
    if training.lr is None:
        training = training.model_copy(update={"lr": default_lr(model, name, moves)})
    with ExitStack() as stack:
        folder = run or stack.enter_context(scratch_folder("weft-task"))
        stack.enter_context(trainable(model, moves))
        splits = {(name, "train"): rows.train, (name, "validation"): rows.validation}
        splits |= {(further, "validation"): split for further, split in rows.further.items()}
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
