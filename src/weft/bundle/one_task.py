"""Writing, replacing or removing one task's file of a bundle; all other files stay byte-identical.

with_task      a new task, or one with new tensors
remove_task    remove a task: the bundle is as if it had never had the task
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from weft.bundle.checksums import (
    ENCODER_WEIGHTS,
    SHARED_FILE,
    check_encoder_files,
    check_files,
    task_path,
    write_manifest,
)
from weft.bundle.consistent import ATTEMPTS, Hold, Replaced, consistently
from weft.bundle.manifest import (
    MANIFEST,
    METADATA,
    check_has,
    find_bundle,
    matching_tasks,
    method_sha256,
    read_manifest,
    read_tasks,
    task_file,
)
from weft.bundle.writing import changing_task, writing_bundle
from weft.errors import WeftError, words
from weft.methods import Method, build_method
from weft.tasks.task import Task
from weft.utils.checksums import file_sha256
from weft.utils.files import new_folder
from weft.utils.finite import NOT_FINITE, not_finite
from weft.utils.plain_files import check_plain_folder
from weft.utils.temporary import sweep_leftovers, temporary_folder
from weft.utils.tensor_files import save_file
from weft.utils.write_errors import under_final_names


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
    name = facts["name"]
    if odd := not_finite(tensors):
        raise WeftError(
            f"task {name!r} is not written to {out}: its weights are {NOT_FINITE} ({odd[0]}); {bundle} is "
            "unchanged. Train the task again with a smaller learning rate"
        )

    def write(work: Path, manifest: Mapping[str, Any], shared: str) -> list[str]:
        stands_on = {
            "encoder": manifest["encoder"]["sha256"],
            "shared": shared,
            "method": method_sha256(manifest["method"]),
        }
        metadata = json.dumps({"task": dict(facts), "stands_on": stands_on}, sort_keys=True)
        save_file(dict(tensors), task_file(work, name), {METADATA: metadata})
        written = load_file(task_file(work, name))
        if written.keys() != tensors.keys() or not all(torch.equal(written[k], tensors[k]) for k in written):
            raise WeftError(f"{task_file(work, name)} does not hold what was written: check the disk")
        return [*manifest["tasks"], *([] if name in manifest["tasks"] else [name])]

    with writing_bundle(out, words("weft task", "a Python program")):
        return _changed(bundle, out, name, write)


def with_settings(bundle: Path, tasks: Sequence[Task]) -> None:
    """Replace the settings in the files of tasks; their tensors and all other files stay as they are.

    Args:
        bundle: the bundle; it is replaced atomically, with all tasks at once.
        tasks: the tasks, which the bundle has.
    """
    target = Path(os.path.realpath(bundle))
    doing = words("weft evaluate", "weft.evaluate")
    with writing_bundle(bundle, doing), temporary_folder(target) as work:
        source = bundle
        for number, task in enumerate(tasks):
            out = bundle if number == len(tasks) - 1 else work / str(number)
            with under_final_names(out, bundle):
                with_task(source, out, task.settings(), _tensors(source, task.name))
            source = out


def _tensors(bundle: Path, name: str) -> dict[str, Tensor]:
    def read() -> dict[str, Tensor]:
        task_of(bundle, read_manifest(bundle), name)  # undamaged
        return load_file(task_file(bundle, name))

    return consistently(bundle, read)


def remove_task(bundle: str | Path, name: str, out: str | Path) -> Changed:
    """Remove a task from a bundle: its file, and its name in bundle.json.

    Args:
        bundle: the bundle, or a run folder that holds one.
        name: the name of the task.
        out: the folder of the result; the bundle itself is replaced atomically.
    """
    folder, out = find_bundle(bundle), Path(out)
    doing = words("weft task remove", "weft.remove_task")
    check_out(folder, out)
    with changing_task(folder, out, name, doing), writing_bundle(out, doing):
        return _remove_task(folder, name, out)


def _remove_task(folder: Path, name: str, out: Path) -> Changed:
    manifest = read_manifest(folder)
    check_out(folder, out)
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

    def write(work: Path, manifest: Mapping[str, Any], shared: str) -> list[str]:
        return [task for task in manifest["tasks"] if task != name]

    return _changed(folder, out, name, write)


def check_out(bundle: Path, out: Path) -> None:
    """Refuse an output folder that exists and is not the bundle, or that cannot be written."""
    target, old = out.resolve(), bundle.resolve()
    sweep_leftovers(target.parent, target.name)
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


def hashes(folder: Path, skip: Collection[str] = ()) -> dict[str, str]:
    """The sha256 of every file of a folder, by its path there; a bundle with links to folders is refused.

    Args:
        folder: the folder.
        skip: the paths of files in it that are left out.
    """
    check_plain_folder(folder, "a bundle")
    files = sorted(Path(root) / name for root, _, names in os.walk(folder) for name in names)
    paths = {file.relative_to(folder).as_posix(): file for file in files}
    return {path: file_sha256(file) for path, file in paths.items() if path not in skip}


def _changed(
    bundle: Path, out: Path, name: str, write: Callable[[Path, Mapping[str, Any], str], list[str]]
) -> Changed:
    """Copy all files but one task's and bundle.json, write these, verify all, then move the folder in.

    Args:
        bundle: the bundle.
        out: the folder of the result.
        name: the task whose file is not copied; it may be damaged.
        write: writes the task's file, if it has one, into the new folder, from the folder, the contents of
            bundle.json and the sha256 of the shared file; returns the names of all tasks.
    """
    for _ in range(ATTEMPTS - 1):
        # nobody replaces a bundle that is changed in place, whose lock is held; one that is only read, may be
        with suppress(Replaced):
            return _changed_once(bundle, out, name, write)
    return _changed_once(bundle, out, name, write)


def _changed_once(
    bundle: Path, out: Path, name: str, write: Callable[[Path, Mapping[str, Any], str], list[str]]
) -> Changed:
    with Hold(bundle) as hold, new_folder(out.resolve()) as work:
        manifest = read_manifest(bundle)
        before = hashes(bundle, skip={task_path(name), MANIFEST})
        _check_sound(bundle, manifest, [task for task in manifest["tasks"] if task != name], before)
        for file in before:
            (work / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(bundle / file, work / file)
        (work / "tasks").mkdir(exist_ok=True)
        tasks = write(work, manifest, before[SHARED_FILE])
        now = hashes(work)
        for file, sha256 in before.items():
            if now.get(file) != sha256:
                raise WeftError(f"{work / file} differs from {bundle / file}: check the disk")
        matching_tasks(work, manifest, tasks, manifest["encoder"]["sha256"], now[SHARED_FILE])
        write_manifest(work, {**manifest, "tasks": tasks}, now)
        hold.check()  # before the bundle is replaced by what was made from it
    return Changed(out, name, before)


def _check_sound(
    folder: Path, manifest: dict[str, Any], tasks: Sequence[str], known: Mapping[str, str]
) -> None:
    """Check that files of a bundle are undamaged and match each other, its encoder included.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json.
        tasks: the names of the tasks whose files are checked.
        known: the sha256 of its files, by their paths.
    """
    included, weights = manifest["encoder"]["included"], folder / ENCODER_WEIGHTS
    if included and not weights.is_file():
        raise WeftError(f"{weights} is missing, though {folder / MANIFEST} says that the encoder is included")
    check_files(folder, manifest, [SHARED_FILE, *(task_path(task) for task in tasks)], known)
    if not check_encoder_files(folder, manifest, known) and included and known[ENCODER_WEIGHTS] != included:
        raise WeftError(f"{weights} is not the encoder that came with this bundle: its hash differs")
    matching_tasks(folder, manifest, tasks, manifest["encoder"]["sha256"], known[SHARED_FILE])


def task_of(folder: Path, manifest: dict[str, Any], name: str) -> Task:
    """Return one task of a bundle, as its file describes it; the files of other tasks are not verified."""
    check_has(folder, manifest, name)
    return read_tasks(folder, manifest, manifest["encoder"]["sha256"], [name])[name]
