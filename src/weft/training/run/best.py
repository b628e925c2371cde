"""The best weights of a run: one set for all tasks, or one per task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.model.ownership import owned
from weft.training.run.checkpoint import load_tensors, save_tensors, tensors_of_task, trained_tensors
from weft.training.run.state import State
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.model.model import Model


class Best:
    """Saves the weights of the best evaluation, and restores them at the end.

    With `per_task` the weights of each task are saved at the task's best evaluation, and the final model
    combines them. This requires that no weight that trains is shared: a task's score at step k then depends
    only on its own weights at step k, whatever the other tasks did.

    Args:
        model: the model.
        folder: the folder of the files.
        names: the names of the tasks that train, [T].
        per_task: whether the best weights are chosen per task.
        processes: the processes that train together.
    """

    def __init__(
        self, model: Model, folder: Path, names: Sequence[str], per_task: bool, processes: Processes
    ) -> None:
        self.model, self.folder, self.names = model, folder, names
        self.per_task, self.processes = per_task, processes
        if per_task:
            check_per_task(model)

    def keep_all(self, state: State) -> None:
        """Save all weights, which are the best so far."""
        assert state.best_step is not None
        save_tensors(self._file(state.best_step), trained_tensors(self.model), self.processes)

    def keep_task(self, task: int, state: State) -> None:
        """Save the weights of one task, which are its best so far."""
        step = state.tasks[task].best_step
        assert step is not None
        save_tensors(
            self._task_file(task, step), tensors_of_task(self.model, self.names[task]), self.processes
        )

    def restore(self, state: State) -> None:
        """Restore the best weights; if they are those of the last step, the model has them already."""
        if self.per_task:
            for task, progress in enumerate(state.tasks):
                if progress.best_step not in (None, state.step):
                    live = tensors_of_task(self.model, self.names[task])
                    load_tensors(self._task_file(task, progress.best_step), live)
        elif state.best_step not in (None, state.step):
            load_tensors(self._file(state.best_step), trained_tensors(self.model))

    def sweep(self, state: State) -> None:
        """Delete files that the newest checkpoint does not need; a run never resumes from an older one."""
        kept = {self._file(state.best_step or 0)}
        kept |= {self._task_file(t, task.best_step or 0) for t, task in enumerate(state.tasks)}
        for file in self.folder.glob("best-*.safetensors"):
            if file not in kept:
                file.unlink()

    def _file(self, step: int | None) -> Path:
        return self.folder / f"best-{step:08d}.safetensors"

    def _task_file(self, task: int, step: int | None) -> Path:
        # by number: a task's name may contain characters that are not allowed in file names
        return self.folder / f"best-task{task}-{step:08d}.safetensors"


def check_per_task(model: Model) -> None:
    """Raise WeftError if tasks share weights that train, which `best: per_task` cannot handle."""
    shared: dict[str, str] = {}
    for item in owned(model):
        if item.trains and not item.owner.startswith("task:"):
            shared.setdefault(item.owner, item.name)
    if shared:
        owner, name = next(iter(shared.items()))
        raise WeftError(
            f"best: per_task takes each task's weights from the task's best step, but method "
            f"{model.method.name!r} trains weights that tasks share (for example {owner}: {name}), "
            "which can only be of one step: expected average, a task's name or a different score, or a "
            "method whose trained weights each belong to one task (separate, or lora, houlsby, bitfit with "
            "one set per task)"
        )
