"""Writing, replacing or removing one task's file of a bundle; all other files stay byte-identical.

with_task      a new task, or one with new tensors
remove_task    remove a task: the bundle is as if it had never had the task
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from weft.bundle.manifest import (
    MANIFEST,
    METADATA,
    SHARED_FILE,
    check_has,
    find_bundle,
    method_sha256,
    read_manifest,
    read_tasks,
    task_file,
)
from weft.encoder.load import file_sha256
from weft.errors import WeftError, words
from weft.methods import Method, build_method
from weft.tasks.task import Task
from weft.utils.files import new_folder, write_json
from weft.utils.plain_files import check_plain_folder


@dataclass(frozen=True)
class Changed:
    """A bundle in which one task's file was added, replaced or removed.

    Attributes:
        folder: the bundle.
        task: the name of the task.
        unchanged: the sha256 of every file that did not change, by its path in the bundle.
        notes: facts that may matter to the user.
    """

    folder: Path
    task: str
    unchanged: dict[str, str]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**vars(self), "folder": str(self.folder)}


def with_task(bundle: Path, out: Path, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Changed:
    """Write a bundle with a new file for one task; a new task comes after the others.

    Args:
        bundle: the bundle.
        out: the folder of the result; the bundle itself is replaced atomically.
        facts: the task's settings.
        tensors: the tensors of the task, by their names in its file.
    """
    manifest = read_manifest(bundle)
    name = facts["name"]
    exists = name in manifest["tasks"]
    stands_on = {
        "encoder": manifest["encoder"]["sha256"],
        "shared": file_sha256(bundle / SHARED_FILE),
        "method": method_sha256(manifest["method"]),
    }

    def write(work: Path) -> None:
        metadata = json.dumps({"task": dict(facts), "stands_on": stands_on}, sort_keys=True)
        save_file(dict(tensors), task_file(work, name), {METADATA: metadata})
        if not exists:
            write_json(work / MANIFEST, {**manifest, "tasks": [*manifest["tasks"], name]})
        written = load_file(task_file(work, name))
        if written.keys() != tensors.keys() or not all(torch.equal(written[k], tensors[k]) for k in written):
            raise WeftError(f"{task_file(work, name)} does not hold what was written: check the disk")

    left_out = {_path(name)} if exists else {_path(name), MANIFEST}
    return _changed(bundle, out, name, left_out, write)


def with_settings(bundle: Path, task: Task) -> Changed:
    """Replace the settings in a task's file; its tensors and all other files stay as they are.

    Args:
        bundle: the bundle; it is replaced atomically.
        task: the task, which the bundle has.
    """
    return with_task(bundle, bundle, task.settings(), load_file(task_file(bundle, task.name)))


def remove_task(bundle: str | Path, name: str, out: str | Path) -> Changed:
    """Remove a task from a bundle: its file, and its name in bundle.json.

    Args:
        bundle: the bundle, or a run folder that holds one.
        name: the name of the task.
        out: the folder of the result; the bundle itself is replaced atomically.
    """
    folder = find_bundle(bundle)
    manifest = read_manifest(folder)
    check_out(folder, Path(out))
    check_has(folder, manifest, name)
    if len(manifest["tasks"]) == 1:
        raise WeftError(
            f"{name!r} is the only task of {folder}, and a bundle has at least one; delete the folder instead"
        )
    for group, members in groups_of(build_method(manifest["method"]), name).items():
        raise WeftError(
            f"{folder}: task {name!r} is in the group {group!r} of the method ({', '.join(members)}): its "
            "parameters are the group's, and the method names it.\n  It cannot be removed alone: train the "
            "others without it, weft train RUN.yaml"
        )

    def write(work: Path) -> None:
        write_json(
            work / MANIFEST, {**manifest, "tasks": [task for task in manifest["tasks"] if task != name]}
        )

    return _changed(folder, Path(out), name, {_path(name), MANIFEST}, write)


def check_out(bundle: Path, out: Path) -> None:
    """Refuse an output folder that exists and is not the bundle, or that cannot be written."""
    target, old = out.resolve(), bundle.resolve()
    flag = words("--out", "out")
    if old in target.parents:
        raise WeftError(f"{flag} {out}: this is inside the bundle {bundle}; pass a different folder")
    if target in old.parents:
        raise WeftError(
            f"{flag} {out}: the bundle is inside this folder; to change it in place "
            + words(f"type --out {bundle}", f"pass out={str(bundle)!r}")
        )
    if target != old and target.exists():
        raise WeftError(f"{flag} {out}: this already exists; pass a new folder, or that of the bundle")
    # checked now, and not after the training: the result is made beside its final path
    beside = next(folder for folder in target.parents if folder.exists())
    if not beside.is_dir():
        raise WeftError(f"{flag} {out}: {beside} is a file; pass a different folder")
    if not os.access(beside, os.W_OK | os.X_OK):
        raise WeftError(f"{flag} {out}: {beside} cannot be written to; pass a different folder")


def groups_of(method: Method, task: str) -> dict[str, list[str]]:
    """The groups of a method's settings that contain a task, each with all of its members."""
    shares = [getattr(part, "share", None) for part in method.parts]
    return {
        group: list(members)
        for share in shares
        if isinstance(share, Mapping)
        for group, members in share.items()
        if task in members
    }


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file of a folder, by its path there; a bundle with links to folders is refused."""
    check_plain_folder(folder, "a bundle")
    files = sorted(Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return {file.relative_to(folder).as_posix(): file_sha256(file) for file in files}


def _path(name: str) -> str:
    """A task's file, as `hashes` names it."""
    return task_file(Path(), name).as_posix()


def _changed(
    bundle: Path, out: Path, name: str, left_out: set[str], write: Callable[[Path], None]
) -> Changed:
    """Copy all but some files, write the new ones, verify the copies, then move the folder into place."""
    read_sound(bundle)
    before = {file: sha256 for file, sha256 in hashes(bundle).items() if file not in left_out}
    with new_folder(out.resolve()) as work:
        for file in before:
            (work / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(bundle / file, work / file)
        (work / "tasks").mkdir(exist_ok=True)
        write(work)
        now = hashes(work)
        for file, sha256 in before.items():
            if now.get(file) != sha256:
                raise WeftError(f"{work / file} differs from {bundle / file}: check the disk")
        read_sound(work)
    return Changed(out, name, before)


def read_sound(folder: Path) -> dict[str, Task]:
    """Return the tasks of a bundle after checking that its files, its encoder included, match each other."""
    manifest = read_manifest(folder)
    included, weights = manifest["encoder"]["included"], folder / "encoder" / "model.safetensors"
    if included and not weights.is_file():
        raise WeftError(f"{weights} is missing, though {folder / MANIFEST} says that the encoder is included")
    if included and file_sha256(weights) != included:
        raise WeftError(f"{weights} is not the encoder that came with this bundle: its hash differs")
    return read_tasks(folder, manifest, manifest["encoder"]["sha256"])


def task_of(folder: Path, manifest: dict[str, Any], name: str) -> Task:
    """Return one task of a bundle, as its file describes it."""
    check_has(folder, manifest, name)
    return read_tasks(folder, manifest, manifest["encoder"]["sha256"])[name]
