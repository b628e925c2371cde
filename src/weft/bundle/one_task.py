"""One task's file of a bundle written, exchanged or taken out; every other file stays, byte for byte.

with_task      a new task, or one with new tensors
remove_task    a task taken out: the bundle as it would be if it had never been there
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

from weft.bundle.load import find_bundle, read_manifest, read_tasks
from weft.bundle.save import MANIFEST, METADATA, SHARED_FILE, method_sha256, task_file
from weft.encoder.load import file_sha256
from weft.errors import WeftError, did_you_mean
from weft.methods import Method, build_method
from weft.tasks.task import Task
from weft.utils.files import new_folder, write_json


@dataclass(frozen=True)
class Changed:
    """A bundle in which one task's file is another.

    Attributes:
        folder: the bundle.
        task: the task that it was about.
        unchanged: the sha256 of every file that is what it was, by its path in the bundle.
        notes: what could matter.
    """

    folder: Path
    task: str
    unchanged: dict[str, str]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**vars(self), "folder": str(self.folder)}


def with_task(bundle: Path, out: Path, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Changed:
    """Write a bundle again with one task's file new, and the task behind the others if it is.

    Args:
        bundle: the bundle.
        out: where the result goes; the bundle itself is exchanged in one move.
        facts: the task's settings.
        tensors: what is the task's own, by the names that its file has.
    """
    said = read_manifest(bundle)
    name = facts["name"]
    known = name in said["tasks"]
    stands_on = {
        "encoder": said["encoder"]["sha256"],
        "shared": file_sha256(bundle / SHARED_FILE),
        "method": method_sha256(said["method"]),
    }

    def write(work: Path) -> None:
        metadata = json.dumps({"task": dict(facts), "stands_on": stands_on}, sort_keys=True)
        save_file(dict(tensors), task_file(work, name), {METADATA: metadata})
        if not known:
            write_json(work / MANIFEST, {**said, "tasks": [*said["tasks"], name]})
        found = load_file(task_file(work, name))
        if found.keys() != tensors.keys() or not all(torch.equal(found[k], tensors[k]) for k in found):
            raise WeftError(f"{task_file(work, name)} does not hold what was written: is the disk sound?")

    left_out = {_path(name)} if known else {_path(name), MANIFEST}
    return _changed(bundle, out, name, left_out, write)


def remove_task(bundle: str | Path, name: str, out: str | Path) -> Changed:
    """Take a task out of a bundle: its file, and its name in bundle.json.

    Args:
        bundle: the bundle, or a run's folder that holds one.
        name: the task.
        out: where the result goes; the bundle itself is exchanged in one move.
    """
    folder = find_bundle(bundle)
    said = read_manifest(folder)
    check_out(folder, Path(out))
    check_has(folder, said, name)
    if len(said["tasks"]) == 1:
        raise WeftError(
            f"{name!r} is the only task of {folder}, and a bundle has one or more; delete the folder"
        )
    for group, members in groups_of(build_method(said["method"]), name).items():
        raise WeftError(
            f"{folder}: task {name!r} is in the group {group!r} of the method ({', '.join(members)}): its "
            "parameters are the group's, and the method names it.\n  It cannot be taken out alone: train the "
            "others without it, weft train RUN.yaml"
        )

    def write(work: Path) -> None:
        write_json(work / MANIFEST, {**said, "tasks": [task for task in said["tasks"] if task != name]})

    return _changed(folder, Path(out), name, {_path(name), MANIFEST}, write)


def check_has(folder: Path, said: Mapping[str, Any], name: str) -> None:
    """Refuse a task that the bundle does not have."""
    if name not in said["tasks"]:
        raise WeftError(f"{folder} has no task {name!r}; {did_you_mean(name, said['tasks'])}")


def check_out(bundle: Path, out: Path) -> None:
    """Refuse a place for the result that is taken by anything but the bundle, or cannot be written to."""
    place, old = out.resolve(), bundle.resolve()
    if old in place.parents:
        raise WeftError(f"--out {out}: this lies inside the bundle {bundle}; give another folder")
    if place in old.parents:
        raise WeftError(f"--out {out}: the bundle lies in it; to change it in its place type --out {bundle}")
    if place != old and place.exists():
        raise WeftError(f"--out {out}: something is there already; give a new folder, or the bundle's own")
    # now, and not after the training: the result is made beside its place
    beside = next(folder for folder in place.parents if folder.exists())
    if not beside.is_dir():
        raise WeftError(f"--out {out}: {beside} is a file; give another folder")
    if not os.access(beside, os.W_OK | os.X_OK):
        raise WeftError(f"--out {out}: {beside} cannot be written to; give another folder")


def groups_of(method: Method, task: str) -> dict[str, list[str]]:
    """The groups of a method's settings that a task is in, each with all of its members."""
    shares = [getattr(part, "share", None) for part in method.parts]
    return {
        group: list(members)
        for share in shares
        if isinstance(share, Mapping)
        for group, members in share.items()
        if task in members
    }


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file of a folder, by its path there; links are followed."""
    files = sorted(
        Path(place) / name for place, _, names in os.walk(folder, followlinks=True) for name in names
    )
    return {file.relative_to(folder).as_posix(): file_sha256(file) for file in files}


def _path(name: str) -> str:
    """A task's file, as `hashes` names it."""
    return task_file(Path(), name).as_posix()


def _changed(
    bundle: Path, out: Path, name: str, left_out: set[str], write: Callable[[Path], None]
) -> Changed:
    """Copy all but some files, write what is new, and prove that the copies are equal; then move it in."""
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
                raise WeftError(f"{work / file} is not what {bundle / file} is: is the disk sound?")
        read_sound(work)
    return Changed(out, name, before)


def read_sound(folder: Path) -> dict[str, Task]:
    """The tasks of a bundle whose files stand on each other, its encoder's with them."""
    said = read_manifest(folder)
    included, weights = said["encoder"]["included"], folder / "encoder" / "model.safetensors"
    if included and not weights.is_file():
        raise WeftError(f"{weights} is missing, though {folder / MANIFEST} says that the encoder comes along")
    if included and file_sha256(weights) != included:
        raise WeftError(f"{weights} is not the encoder that came with this bundle: its hash differs")
    return read_tasks(folder, said, said["encoder"]["sha256"])


def task_of(folder: Path, said: dict[str, Any], name: str) -> Task:
    """A task of a bundle, as its file says it."""
    check_has(folder, said, name)
    return read_tasks(folder, said, said["encoder"]["sha256"])[name]
