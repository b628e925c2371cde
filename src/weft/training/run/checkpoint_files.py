"""The files of a run's checkpoints: which are there, and whether they are undamaged. No torch is imported.

    checkpoints/
      step-00000500/       state.json, weights.safetensors, optimizers.safetensors, more.safetensors
      step-00001000/
      best-00000400.safetensors         the best weights so far, named by their step
      best-00000400.copy.safetensors    a second copy, if both checkpoints need the file

The last two checkpoints are kept. state.json holds the sha256 of the other files of its folder (`files`), of
the best weights that it refers to (`best`), and its own (`sha256`). Checkpoints of earlier versions have none
of these; only the form of their files is checked.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from weft.errors import WeftError, words
from weft.utils.checksums import SEAL, file_problem, file_sha256, is_sealed
from weft.utils.files import sync
from weft.utils.temporary import create_file
from weft.utils.write_errors import explained

PREFIX = "step-"
STATE = "state.json"
TENSORS = ("weights.safetensors", "optimizers.safetensors")
"""The files that every checkpoint has beside its state; `more.safetensors` came later."""
KEPT = 2
"""The number of checkpoints that are kept."""
COPY = ".copy.safetensors"


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a run, damaged ones included, the oldest first.

    Args:
        folder: the folder of the run's checkpoints.
    """
    return sorted(path for path in folder.glob(f"{PREFIX}*") if path.is_dir())


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint, damaged or not; None if there is none."""
    found = checkpoints(folder)
    return found[-1] if found else None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The JSON state of a checkpoint; raises WeftError if it is damaged."""
    path = checkpoint / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WeftError(f"{path} is missing") from None
    except OSError as wrong:
        raise WeftError(f"{path} cannot be read: {wrong.strerror or wrong}") from None
    except (ValueError, RecursionError) as wrong:
        raise WeftError(f"{path} is damaged: it is not JSON ({wrong})") from None
    if not isinstance(state, dict):
        raise WeftError(f"{path} is damaged: it has a different form than weft writes")
    recorded = [key for key in (SEAL, "files", "best") if key in state]
    if recorded and not (is_sealed(state) and len(recorded) == 3):
        raise WeftError(f"{path} is damaged: its contents do not have the sha256 that it records")
    return state


Check = Callable[[Path, str], str | None]
"""`file_problem`; of several checkpoints with the same best weights it is called once per file."""


def problem_of(checkpoint: Path, check: Check = file_problem) -> str | None:
    """Return what is wrong with a checkpoint or with the best weights that it needs; None if nothing is."""
    try:
        state = read_state(checkpoint)
    except WeftError as wrong:
        return str(wrong)
    if SEAL not in state:
        return _form_problem(checkpoint, state)
    for name, sha256 in state["files"].items():
        if problem := check(checkpoint / name, sha256):
            return problem
    for name, sha256 in state["best"].items():
        path = checkpoint.parent / name
        if (problem := check(path, sha256)) and check(copy_of(path), sha256):
            return problem
    return None


def undamaged_checkpoint(folder: Path) -> tuple[Path | None, list[str]]:
    """Return the newest checkpoint that is undamaged, and notes on what was damaged.

    All are verified, so that a user hears of damage to the older one as long as there is the newer one. Best
    weights of which one copy is damaged are written again from the other.

    Args:
        folder: the folder of the run's checkpoints; without any the result is None.
    """
    found, check = checkpoints(folder), cache(file_problem)
    problems = {checkpoint: problem_of(checkpoint, check) for checkpoint in found}
    undamaged = [checkpoint for checkpoint, problem in problems.items() if problem is None]
    if undamaged:
        newest = undamaged[-1]
        notes = [_damaged(problem, path, newest) for path, problem in problems.items() if problem is not None]
        return newest, [*notes, *_restore_best(newest, check)]
    if not found:
        return None, []
    listed = "\n".join(f"  {line}" for problem in problems.values() for line in str(problem).splitlines())
    raise WeftError(
        f"the run in {folder.parent} cannot be resumed: none of its checkpoints is undamaged\n{listed}\n"
        f"  restore one of them from a copy, or start a new run with a different {words('--out', 'out')}"
    )


def delete_old(folder: Path, step: int) -> None:
    """Delete all checkpoints but the last ones up to a step.

    A run that went back to an earlier checkpoint leaves a damaged one behind, of a step still to come.

    Args:
        folder: the folder of the run's checkpoints.
        step: the step of the checkpoint that was just written.
    """
    last = f"{PREFIX}{step:08d}"
    found = checkpoints(folder)
    kept = [path for path in found if path.name <= last][-KEPT:]
    for path in found:
        if path not in kept:
            hidden = path.with_name(f".{path.name}-old")  # swept by a resumed run
            path.rename(hidden)  # first, so that a killed process leaves no half of a checkpoint
            shutil.rmtree(hidden)


def best_of_all(folder: Path) -> list[dict[str, str | None]]:
    """The best weights that each checkpoint needs: file names and their sha256, None if it is not recorded.

    Args:
        folder: the folder of the run's checkpoints; damaged ones are left out.
    """
    needed: list[dict[str, str | None]] = []
    for checkpoint in checkpoints(folder):
        try:
            state = read_state(checkpoint)
        except WeftError:
            continue
        loop = state.get("loop", {})
        needed.append(dict(state["best"]) if SEAL in state else dict.fromkeys(_best_names(loop)))
    return needed


def best_file(step: int) -> str:
    """The name of the file of the best weights of all tasks."""
    return f"best-{step:08d}.safetensors"


def best_task_file(task: int, step: int) -> str:
    """The name of the file of the best weights of one task."""
    # by number: a task's name may contain characters that are not allowed in file names
    return f"best-task{task}-{step:08d}.safetensors"


def copy_of(path: Path) -> Path:
    """The path of the second copy of a file of best weights."""
    return path.with_name(path.name.removesuffix(".safetensors") + COPY)


def write_copy(path: Path, target: Path) -> str:
    """Copy a file to a new place, atomically; returns the sha256 of what was copied.

    Block by block: some file systems would let two equal files share their blocks, and damage with them.
    """
    with explained(target):
        work = create_file(target)
        try:
            with path.open("rb") as source, work.path.open("wb") as copy:
                while block := source.read(1 << 20):
                    copy.write(block)
            shutil.copymode(path, work.path)
            sync(work.path)
            sha256 = file_sha256(work.path)
            os.replace(work.path, target)
            sync(target.parent)
        finally:
            work.remove()
    return sha256


def _restore_best(checkpoint: Path, check: Check) -> list[str]:
    """Write damaged best weights again from their second copies, and the reverse; returns a note for each."""
    notes = []
    for name, sha256 in read_state(checkpoint).get("best", {}).items():
        path = checkpoint.parent / name
        copy = copy_of(path)
        pairs = [(path, copy), (copy, path)] if copy.is_file() else []
        for damaged, other in pairs:
            if problem := check(damaged, sha256):
                write_copy(other, damaged)
                notes.append(f"{problem.splitlines()[0]}; it was written again from {other.name}")
    return notes


def _damaged(problem: str, damaged: Path, newest: Path) -> str:
    which = "the checkpoint before" if damaged > newest else "the last checkpoint, which does not need it"
    return f"{problem.splitlines()[0]}; the run goes on from {which}: {newest.name}"


def _form_problem(checkpoint: Path, state: Mapping[str, Any]) -> str | None:
    """What is wrong with the form of a checkpoint without checksums."""
    if not (all(isinstance(state.get(key), dict) for key in ("loop", "data")) and "log_bytes" in state):
        return f"{checkpoint / STATE} is damaged: it has a different form than weft writes"
    more, best = checkpoint / "more.safetensors", [checkpoint.parent / n for n in _best_names(state["loop"])]
    written = [path for path in best if path.is_file()]  # of all tasks, or of each: the state does not tell
    for path in [*(checkpoint / name for name in TENSORS), *[more] * more.is_file(), *(written or best[:1])]:
        try:
            with safe_open(path, "np"):  # reads the header, which must fit the size of the file
                pass
        except FileNotFoundError:
            return f"{path} is missing"
        except (SafetensorError, OSError) as wrong:
            return f"{path} is damaged: {wrong}"
    return None


def _best_names(loop: Mapping[str, Any]) -> list[str]:
    """The files of best weights that a state of an earlier version may refer to: of all tasks, or of each."""
    scores = [loop, *(task for task in loop.get("tasks") or [] if isinstance(task, dict))]
    steps = [entry.get("best_step") for entry in scores]
    names = [
        best_file if number == 0 else partial(best_task_file, number - 1) for number in range(len(steps))
    ]
    return [name(step) for name, step in zip(names, steps, strict=True) if isinstance(step, int)]
