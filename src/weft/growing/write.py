"""Writing a bundle after one task was trained: only that task's file, if nothing else has changed.

Nobody waits for the training: others may change the bundle in the meantime, and their changes are kept. Only
if the task's file would not fit what they have left is the result written to a folder of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from weft.bundle.manifest import MANIFEST
from weft.bundle.one_task import hashes, with_task
from weft.bundle.save import task_tensors
from weft.bundle.state import BundleState, state_of
from weft.bundle.writing import writing_bundle
from weft.errors import RunFailed, WeftError, words

if TYPE_CHECKING:
    from weft.model.model import Model


def write_grown(
    model: Model, name: str, bundle: Path, out: Path, moved_beside: Collection[str], before: BundleState
) -> dict[str, str]:
    """Write the bundle, atomically.

    Args:
        model: the trained model.
        name: the task that was trained.
        bundle: the bundle that the model comes from.
        out: the folder of the result.
        moved_beside: the owners besides the task that have changed; if there are any, all files are written.
        before: what the bundle held when the model was loaded.

    Returns:
        The sha256 of every file that did not change, by its path in the bundle.
    """
    with writing_bundle(out, words("weft task", "weft.add_task")):
        changed = _changed(bundle, name, bool(moved_beside), before)
        if changed and out.resolve() == bundle.resolve():
            aside = _free(out, name)
            model.save(aside, with_encoder=before.with_encoder)
            raise RunFailed(
                f"{out} was changed while {name!r} was trained: {changed}. The trained task does not fit "
                f"what is there now, so {out} is left as it is.\n  The bundle as it was before, with the "
                f"trained task, is in {aside}"
            )
        if not moved_beside and not changed:
            facts = model.tasks[model.task_id(name)].settings()
            return with_task(bundle, out, facts, task_tensors(model, name)).unchanged
        files = {} if changed else hashes(bundle)
        model.save(out.resolve(), with_encoder=before.with_encoder)
        return {file: sha256 for file, sha256 in hashes(out).items() if files.get(file) == sha256}


def _changed(bundle: Path, name: str, everything: bool, before: BundleState) -> str:
    """Say in which way others have changed a bundle that the result does not fit; empty if it fits.

    Args:
        bundle: the bundle.
        name: the task that was trained.
        everything: whether all files are written, so that any change of others would be lost.
        before: what the bundle held when the model was loaded.
    """
    try:
        now = state_of(bundle)
    except (WeftError, OSError):
        return f"it is no longer a bundle that can be read ({bundle / MANIFEST})"
    if now.base != before.base:
        return "its encoder, method or shared weights are different ones"
    if now.tasks.get(name) != before.tasks.get(name):
        return f"its task {name!r} was added, trained or removed"
    if everything and now.tasks != before.tasks:
        names = [
            task for task in {**before.tasks, **now.tasks} if now.tasks.get(task) != before.tasks.get(task)
        ]
        return f"its tasks {', '.join(names)} were added, trained or removed"
    return ""


def _free(out: Path, name: str) -> Path:
    """A folder beside `out` that does not exist."""
    place, number = out.with_name(f"{out.name}-{name}"), 2
    while place.exists():
        place, number = out.with_name(f"{out.name}-{name}-{number}"), number + 1
    return place
