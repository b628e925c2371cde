"""The best weights of a run: one set for all tasks, or one per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from weft.errors import WeftError, words
from weft.model.ownership import owned
from weft.training.run.checkpoint import load_tensors, save_tensors, tensors_of_task, trained_tensors
from weft.training.run.checkpoint_files import (
    best_file,
    best_of_all,
    best_task_file,
    copy_of,
    write_copy,
)
from weft.training.run.state import State
from weft.utils.checksums import file_problem, file_sha256
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.model.model import Model

PER_TASK = "per_task"


class Best:
    """Saves the weights of the best evaluation, and restores them at the end.

    With `per_task` the weights of each task are saved at the task's best evaluation, and the final model
    combines them. This requires that no weight that trains is shared: a task's score at step k then depends
    only on its own weights at step k, whatever the other tasks did.

    A file that all kept checkpoints need has a second copy. Without it, damage to this one file would make
    all of them useless.

    Args:
        model: the model.
        folder: the folder of the files.
        names: the names of the tasks that train, [T].
        per_task: whether the best weights are chosen per task.
        processes: the processes that train together.

    Attributes:
        checksums: the sha256 of the files that were written or that a checkpoint records, by name.
    """

    def __init__(
        self, model: Model, folder: Path, names: Sequence[str], per_task: bool, processes: Processes
    ) -> None:
        self.model, self.folder, self.names = model, folder, names
        self.per_task, self.processes = per_task, processes
        self.checksums: dict[str, str] = {}
        if per_task:
            check_per_task(model)

    def keep_all(self, state: State) -> None:
        """Save all weights, which are the best so far."""
        assert state.best_step is not None
        self._save(best_file(state.best_step), trained_tensors(self.model))

    def keep_task(self, task: int, state: State) -> None:
        """Save the weights of one task, which are its best so far."""
        step = state.tasks[task].best_step
        assert step is not None
        self._save(best_task_file(task, step), tensors_of_task(self.model, self.names[task]))

    def restore(self, state: State) -> None:
        """Restore the best weights; if they are those of the last step, the model has them already."""
        if self.per_task:
            for task, progress in enumerate(state.tasks):
                if progress.best_step not in (None, state.step):
                    live = tensors_of_task(self.model, self.names[task])
                    self._load(best_task_file(task, progress.best_step), live)
        elif state.best_step not in (None, state.step):
            self._load(best_file(state.best_step), trained_tensors(self.model))

    def needed(self, state: State) -> dict[str, str]:
        """The files that a checkpoint with this state refers to, and their sha256, in the main process."""
        if self.per_task:
            steps = [(task, progress.best_step) for task, progress in enumerate(state.tasks)]
            names = [best_task_file(task, step) for task, step in steps if step is not None]
        else:
            names = [] if state.best_step is None else [best_file(state.best_step)]
        for name in names:
            if name not in self.checksums:  # a checkpoint of an earlier version recorded none
                self.checksums[name] = file_sha256(self.folder / name)
        return {name: self.checksums[name] for name in names}

    def sweep(self) -> None:
        """Delete files that no checkpoint needs; write second copies of those that all checkpoints need."""
        by_checkpoint = best_of_all(self.folder)
        needed = {name for files in by_checkpoint for name in files}
        twice = set.intersection(*map(set, by_checkpoint)) if len(by_checkpoint) > 1 else set()
        copies = {copy_of(self.folder / name): self.folder / name for name in twice}
        for file in self.folder.glob("best-*.safetensors"):
            if file.name not in needed and file not in copies:
                file.unlink()
        for copy, file in copies.items():
            if (
                file.is_file()
                and not copy.is_file()
                and write_copy(file, copy) != self.checksums.get(file.name)
            ):
                copy.unlink()  # the file is damaged already: found and reported when it is read

    def _save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        self.checksums[name] = save_tensors(self.folder / name, tensors, self.processes)

    def _load(self, name: str, live: Mapping[str, Tensor]) -> None:
        load_tensors(self.processes.on_main(lambda: self._undamaged(self.folder / name)), live)

    def _undamaged(self, path: Path) -> Path:
        """A file of best weights, or its second copy if it is damaged."""
        expected = self.checksums.get(path.name)
        if expected is None:
            return path
        problem = file_problem(path, expected)
        if problem is None or file_problem(copy_of(path), expected) is None:
            return path if problem is None else copy_of(path)
        raise WeftError(
            f"{problem}\n  it holds the best weights of the run\n  resume the run with "
            f"{words('--resume', 'resume=True')}: it goes on from the last checkpoint that does not need the "
            "file"
        )


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
            "which can only be of one step: expected average or a task's name, or a method whose trained "
            "weights each belong to one task (separate, or lora, houlsby, bitfit with one set per task)"
        )
