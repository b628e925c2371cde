"""Writing a bundle after one task was trained: only that task's file, if nothing else has changed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from weft.bundle.manifest import read_manifest
from weft.bundle.one_task import hashes, with_task
from weft.bundle.save import task_tensors

if TYPE_CHECKING:
    from weft.model.model import Model


def write_grown(
    model: Model, name: str, bundle: Path, out: Path, moved_beside: Collection[str]
) -> dict[str, str]:
    """Write the bundle, atomically.

    Args:
        model: the trained model.
        name: the task that was trained.
        bundle: the bundle that the model comes from.
        out: the folder of the result.
        moved_beside: the owners besides the task that have changed; if there are any, all files are written.

    Returns:
        The sha256 of every file that did not change, by its path in the bundle.
    """
    if not moved_beside:
        facts = model.tasks[model.task_id(name)].settings()
        return with_task(bundle, out, facts, task_tensors(model, name)).unchanged
    before = hashes(bundle)
    model.save(out.resolve(), with_encoder=bool(read_manifest(bundle)["encoder"]["included"]))
    return {file: sha256 for file, sha256 in hashes(out).items() if before.get(file) == sha256}
