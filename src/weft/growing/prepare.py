"""What adding a task needs before anything is trained: the checked settings, the rows, the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.load import load_changed
from weft.bundle.manifest import find_bundle, read_bundle
from weft.data.tokens.tokens import tokenize
from weft.growing.check import mistakes
from weft.growing.rows import TaskRows, task_rows
from weft.growing.settings import GrowSettings
from weft.growing.start import StartValues
from weft.growing.train_one import check_trainable
from weft.growing.zero_shot import ZeroShot, zero_shot
from weft.methods import build_method
from weft.settings import SettingsError
from weft.tasks.task import Task
from weft.training.settings import Training

if TYPE_CHECKING:
    from weft.model.model import Model


@dataclass(frozen=True)
class NewTask:
    """A task that is about to be added to a bundle.

    Attributes:
        task: the task.
        folder: the bundle.
        bundle_tasks: the tasks of the bundle by name.
        grow: the `grow` settings.
        training: the `train` settings.
        rows: the rows of the task.
        model: the bundle's model with the task, which has the method's initial values.
    """

    task: Task
    folder: Path
    bundle_tasks: dict[str, Task]
    grow: GrowSettings
    training: Training
    rows: TaskRows
    model: Model

    def zero_shot(self, start_values: StartValues) -> ZeroShot:
        """Score every start before any training; see `zero_shot`."""
        rows, training = self.rows, self.training
        tokens = tokenize(rows.validation, self.model.tokenizer, training.max_length)
        return zero_shot(start_values, self.grow, rows.train, rows.validation, tokens, training.seed)


def new_task(
    bundle: str | Path,
    task: Task,
    training: Training | None,
    grow: GrowSettings | Mapping[str, Any] | None,
    encoder: Any,
    device: str | None,
) -> NewTask:
    """Check the settings of a new task, read its rows and load the bundle with it.

    Args:
        bundle: the bundle, or a run folder that holds one.
        task: the new task, with files or rows for `train`.
        training: the training settings; by default `Training()` with the bundle's max_length.
        grow: how the task is added.
        encoder: folder or hub id of the encoder, if it has moved.
        device: the device of the model.
    """
    folder = find_bundle(bundle)
    manifest, bundle_tasks = read_bundle(folder)
    grow = grow if isinstance(grow, GrowSettings) else GrowSettings(**(grow or {}))
    if wrong := mistakes(task, grow, bundle_tasks, build_method(manifest["method"])):
        raise SettingsError(f"task {task.name!r}", [(".".join(key_path), text) for key_path, text in wrong])
    training = training or Training(max_length=manifest["max_length"])
    rows = task_rows(task, grow, training.seed)
    model = load_changed(folder, added=[task], encoder=encoder, device=device)
    check_trainable(model, folder, training)
    return NewTask(task, folder, bundle_tasks, grow, training, rows, model)


def try_starts(
    bundle: str | Path,
    task: Task,
    *,
    training: Training | None = None,
    grow: GrowSettings | Mapping[str, Any] | None = None,
    encoder: Any = None,
    device: str | None = None,
) -> tuple[ZeroShot, tuple[str, ...]]:
    """Score every start of a new task without training it (CA-MTL, Table 3.8). Nothing is written.

    Args:
        bundle: the bundle, or a run folder that holds one.
        task: the new task, with files or rows for `train`.
        training: `max_length` and `seed` are used.
        grow: `label_map`, `zero_shot_rows` and `validation` are used.
        encoder: folder or hub id of the encoder, if it has moved.
        device: the device to run on.

    Returns:
        The scores, and notes that may matter to the user.
    """
    new = new_task(bundle, task, training, grow, encoder, device)
    start_values = StartValues(new.model, task.name)
    start_values.check("auto", bool(new.grow.label_map))
    return new.zero_shot(start_values), new.rows.notes
