"""`weft task copy`: copy a task's file into a bundle with the same encoder, method and shared file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from weft.bundle.consistent import consistently
from weft.bundle.load import check_tensor
from weft.bundle.manifest import (
    MANIFEST,
    SHARED_FILE,
    find_bundle,
    method_sha256,
    read_manifest,
    task_file,
)
from weft.bundle.one_task import Changed, check_out, groups_of, task_of, with_task
from weft.bundle.updates import check_float32
from weft.bundle.writing import changing_task, writing_bundle
from weft.core.stacked import task_owner
from weft.errors import WeftError, words
from weft.methods import build_method
from weft.tasks.checks import check_new_name
from weft.tasks.task import Task
from weft.utils.checksums import file_sha256


def copy_task(
    source: str | Path,
    name: str,
    target: str | Path,
    *,
    rename: str | None = None,
    out: str | Path | None = None,
) -> Changed:
    """Copy a task of one bundle into a second bundle; its tensors do not change.

    Args:
        source: the bundle that has the task, or a run folder.
        name: the name of the task.
        target: a bundle on the same encoder, with the same method and the same shared file.
        rename: the name of the task in the target; by default its own.
        out: the folder of the result; by default `target`, which is replaced atomically.
    """
    source_folder, target_folder = find_bundle(source), find_bundle(target)
    out = target_folder if out is None else Path(out)
    if rename is not None:
        check_new_name(rename)
    check_out(target_folder, out)
    new = name if rename is None else rename
    doing = words("weft task copy", "weft.copy_task")
    with changing_task(target_folder, out, new, doing), writing_bundle(out, doing):
        return _copy_task(source_folder, name, target_folder, new, out)


def _copy_task(source_folder: Path, name: str, target_folder: Path, new: str, out: Path) -> Changed:
    check_out(target_folder, out)
    source_manifest, task, tensors = consistently(source_folder, lambda: _read(source_folder, name))
    target_manifest = read_manifest(target_folder)
    _check_same(source_folder, source_manifest, target_folder, target_manifest)
    if new in target_manifest["tasks"]:
        raise WeftError(
            f"{target_folder} already has a task {new!r}; choose a different name: "
            f"{words('--as NAME', 'rename=NAME')}, or remove the existing task: "
            + words(
                f"weft task remove {target_folder} {new} --out {target_folder}",
                f"weft.remove_task({str(target_folder)!r}, {new!r}, {str(target_folder)!r})",
            )
        )
    for group, members in groups_of(build_method(source_manifest["method"]), name).items():
        raise WeftError(
            f"task {name!r} is in the group {group!r} of the method ({', '.join(members)}): its parameters "
            f"are the group's, and under the name {new!r} it would be in no group. Its file alone is not "
            "complete"
        )
    task = replace(task, name=new)
    old_prefix, new_prefix = (
        f"encoder.{task_owner(name)}.",
        f"encoder.{task_owner(new)}.",
    )  # the encoders of `separate`
    tensors = {
        new_prefix + key.removeprefix(old_prefix) if key.startswith(old_prefix) else key: value
        for key, value in tensors.items()
    }
    for key, value in tensors.items():
        check_tensor(task_file(source_folder, name), key, value)
    done = with_task(target_folder, out, task.settings(), tensors)
    lengths = source_manifest["max_length"], target_manifest["max_length"]
    if lengths[0] == lengths[1]:
        return done
    note = (
        f"{new!r} was trained on texts cut to {lengths[0]} tokens; {target_folder} cuts them to {lengths[1]}"
    )
    return replace(done, notes=(note,))


def _read(folder: Path, name: str) -> tuple[dict[str, Any], Task, dict[str, Tensor]]:
    """The contents of bundle.json, a task and its tensors; the files of other tasks may be damaged."""
    manifest = read_manifest(folder)
    task, tensors = task_of(folder, manifest, name), load_file(task_file(folder, name))
    for key, value in tensors.items():
        check_float32(f"{task_file(folder, name)}: {key!r}", value)
    return manifest, task, tensors


def _check_same(
    source: Path, source_manifest: dict[str, Any], target: Path, target_manifest: dict[str, Any]
) -> None:
    """Refuse bundles whose encoder, shared file or method differ, and list the differences."""
    differ = []
    for part, label in (("encoder", "encoder"), ("shared", f"{SHARED_FILE}, what its tasks share")):
        actual, expected = (
            _sha256(part, *bundle) for bundle in ((source, source_manifest), (target, target_manifest))
        )
        if actual != expected:
            differ.append((label, actual, expected))
    # compared as parsed: a setting that is missing in one of them has its default
    if (
        build_method(source_manifest["method"]).settings()
        != build_method(target_manifest["method"]).settings()
    ):
        differ.append(
            ("method", method_sha256(source_manifest["method"]), method_sha256(target_manifest["method"]))
        )
    if differ:
        lines = [f"  {label}\n    {source}: {a}\n    {target}: {b}" for label, a, b in differ]
        raise WeftError(
            f"{source} and {target} do not match; a task's file works only with its own encoder, shared file "
            "and method. They differ in (sha256):\n"
            + "\n".join(lines)
            + f"\n  Train the task here: {_add(target)}"
        )
    pools = source_manifest["heads"]["pool"], target_manifest["heads"]["pool"]
    if pools[0] != pools[1]:
        raise WeftError(
            f"heads read {pools[0]!r} in {source / MANIFEST} and {pools[1]!r} in {target / MANIFEST}; a head "
            f"only works with the pooling it was trained with.\n  Train the task here: {_add(target)}"
        )


def _add(target: Path) -> str:
    return words(
        f"weft task add {target} TASK.yaml --out B2", f"weft.add_task({str(target)!r}, weft.Task(…), 'B2')"
    )


def _sha256(part: str, folder: Path, manifest: dict[str, Any]) -> str:
    return str(manifest["encoder"]["sha256"]) if part == "encoder" else file_sha256(folder / SHARED_FILE)
