"""A task's file taken from one bundle into another that stands on the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from weft.bundle.load import find_bundle, read_manifest, read_tasks
from weft.bundle.one_task import Changed, check_has, check_out, groups_of, with_task
from weft.bundle.save import MANIFEST, SHARED_FILE, method_sha256, task_file
from weft.core.stacked import task_owner
from weft.encoder.load import file_sha256
from weft.errors import WeftError
from weft.methods import build_method
from weft.tasks.checks import check_new_name


def copy_task(
    source: str | Path,
    name: str,
    target: str | Path,
    *,
    rename: str | None = None,
    out: str | Path | None = None,
) -> Changed:
    """Put a task of one bundle into another, its tensors as they are.

    Args:
        source: the bundle that has it, or a run's folder.
        name: the task.
        target: a bundle on the same encoder, with the same method and the same shared file.
        rename: the task's name there; by default its own.
        out: where the result goes; by default into `target`, exchanged in one move.
    """
    one, two = find_bundle(source), find_bundle(target)
    out = two if out is None else Path(out)
    if rename is not None:
        check_new_name(rename)
    check_out(two, out)
    here, there = read_manifest(one), read_manifest(two)
    check_has(one, here, name)
    new = name if rename is None else rename
    _check_same(one, here, two, there)
    if new in there["tasks"]:
        raise WeftError(
            f"{two} has a task {new!r} already; give this one another name: --as NAME, or take that one out: "
            f"weft task remove {two} {new} --out {two}"
        )
    for group, members in groups_of(build_method(here["method"]), name).items():
        raise WeftError(
            f"task {name!r} is in the group {group!r} of the method ({', '.join(members)}): its parameters "
            f"are the group's, and under the name {new!r} it would be in none. Its file alone is not the task"
        )
    task = replace(read_tasks(one, here, here["encoder"]["sha256"])[name], name=new)
    mine, yours = f"encoder.{task_owner(name)}.", f"encoder.{task_owner(new)}."  # the encoders of `separate`
    tensors = {
        yours + key.removeprefix(mine) if key.startswith(mine) else key: value
        for key, value in load_file(task_file(one, name)).items()
    }
    done = with_task(two, out, task.settings(), tensors)
    lengths = here["max_length"], there["max_length"]
    if lengths[0] == lengths[1]:
        return done
    note = f"{new!r} was trained on texts cut to {lengths[0]} tokens; {two} cuts them to {lengths[1]}"
    return replace(done, notes=(note,))


def _check_same(one: Path, here: dict[str, Any], two: Path, there: dict[str, Any]) -> None:
    """Refuse bundles that do not stand on the same, and say on what they do not."""
    differ = []
    for part, what in (("encoder", "encoder"), ("shared", f"{SHARED_FILE}, what its tasks share")):
        found, expected = (_sha256(part, *bundle) for bundle in ((one, here), (two, there)))
        if found != expected:
            differ.append((what, found, expected))
    # as they are read: a setting that one of them was written without has its default
    if build_method(here["method"]).settings() != build_method(there["method"]).settings():
        differ.append(("method", method_sha256(here["method"]), method_sha256(there["method"])))
    if differ:
        lines = [f"  {what}\n    {one}: {a}\n    {two}: {b}" for what, a, b in differ]
        raise WeftError(
            f"{one} and {two} do not stand on the same; a task's file works on its own encoder, shared file "
            "and method alone. They differ in (sha256):\n"
            + "\n".join(lines)
            + f"\n  Train the task here: weft task add {two} TASK.yaml --out B2"
        )
    pools = here["heads"]["pool"], there["heads"]["pool"]
    if pools[0] != pools[1]:
        raise WeftError(
            f"heads read {pools[0]!r} in {one / MANIFEST} and {pools[1]!r} in {two / MANIFEST}; a head "
            f"works on what it was trained on.\n  Train the task here: weft task add {two} TASK.yaml --out B2"
        )


def _sha256(part: str, folder: Path, said: dict[str, Any]) -> str:
    return str(said["encoder"]["sha256"]) if part == "encoder" else file_sha256(folder / SHARED_FILE)
