"""The best weights of a run: of all tasks together, or each task's own."""

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

PER_TASK = "per_task"


class Best:
    """Keeps the weights of the best evaluation, and puts them back at the end.

    With `per_task` each task's own weights are kept from its own best evaluation, and together they are the
    model at the end. That is a model only if no weight that trains is shared: a task's score at step k is
    then of its own weights at step k alone, whatever the others did.

    Args:
        model: the model.
        folder: where the files are kept.
        names: the tasks that train, [T].
        per_task: whether each task has its own.
        processes: those that train together.
    """

    def __init__(
        self, model: Model, folder: Path, names: Sequence[str], per_task: bool, processes: Processes
    ) -> None:
        self.model, self.folder, self.names = model, folder, names
        self.per_task, self.processes = per_task, processes
        if per_task:
            check_per_task(model)

    def keep_all(self, state: State) -> None:
        """The weights are now the best so far."""
        assert state.best_step is not None
        save_tensors(self._file(state.best_step), trained_tensors(self.model), self.processes)

    def keep_task(self, task: int, state: State) -> None:
        """A task's own weights are now its best so far."""
        step = state.tasks[task].best_step
        assert step is not None
        save_tensors(
            self._task_file(task, step), tensors_of_task(self.model, self.names[task]), self.processes
        )

    def restore(self, state: State) -> None:
        """Put the best weights back; those of the last step are there already."""
        if self.per_task:
            for task, progress in enumerate(state.tasks):
                if progress.best_step not in (None, state.step):
                    live = tensors_of_task(self.model, self.names[task])
                    load_tensors(self._task_file(task, progress.best_step), live)
        elif state.best_step not in (None, state.step):
            load_tensors(self._file(state.best_step), trained_tensors(self.model))

    def sweep(self, state: State) -> None:
        """Delete what no checkpoint needs any more: once there is a newer one, none is gone back to."""
        kept = {self._file(state.best_step or 0)}
        kept |= {self._task_file(t, one.best_step or 0) for t, one in enumerate(state.tasks)}
        for file in self.folder.glob("best-*.safetensors"):
            if file not in kept:
                file.unlink()

    def _file(self, step: int | None) -> Path:
        return self.folder / f"best-{step:08d}.safetensors"

    def _task_file(self, task: int, step: int | None) -> Path:
        # by its number: a task's name may hold what a file's may not
        return self.folder / f"best-task{task}-{step:08d}.safetensors"


def check_per_task(model: Model) -> None:
    """Refuse each task's own best where tasks share weights that train."""
    shared: dict[str, str] = {}
    for item in owned(model):
        if item.trains and not item.owner.startswith("task:"):
            shared.setdefault(item.owner, item.name)
    if shared:
        owner, name = next(iter(shared.items()))
        raise WeftError(
            f"best: per_task takes each task's weights from its own best step, but method "
            f"{model.method.name!r} trains weights that tasks share ({owner}: {name}, for one), "
            "which have one step only: expected average or a task's name, or a method whose trained weights "
            "are each task's own (separate, or lora, houlsby, bitfit with a set a task)"
        )
