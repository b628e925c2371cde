"""`weft task retrain`: train one task of a trained model again, while all others stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.load import load_changed
from weft.bundle.manifest import check_has, find_bundle, read_bundle, read_manifest
from weft.bundle.one_task import check_out
from weft.bundle.state import state_of
from weft.bundle.writing import changing_task
from weft.core.stacked import ENCODER, SHARED, task_owner
from weft.errors import WeftError, words
from weft.evaluation.baselines import majority
from weft.growing.check import mistakes_again, unused_again
from weft.growing.grown import Grown
from weft.growing.rows import rows_as, task_rows
from weft.growing.settings import GrowSettings
from weft.growing.train_one import check_run, check_trainable, moved_beside, moves_of, train_one
from weft.growing.write import write_grown
from weft.model.ownership import owned
from weft.settings import SettingsError
from weft.tasks.task import Task
from weft.training.optim.owners import owners_of_tasks
from weft.training.settings import Training

if TYPE_CHECKING:
    from weft.model.model import Model


def retrain_task(
    bundle: str | Path,
    name: str,
    task: Task,
    out: str | Path,
    *,
    training: Training | None = None,
    grow: GrowSettings | Mapping[str, Any] | None = None,
    fresh: bool = False,
    encoder: Any = None,
    device: str | None = None,
    run: str | Path | None = None,
    resolved: dict[str, Any] | None = None,
    progress: bool = True,
) -> Grown:
    """Train a task of a bundle again: all of its parameters, or only its head.

    Args:
        bundle: the bundle, or a run folder that holds one.
        name: the name of the task.
        task: the same task, with files or rows for `train`.
        out: the folder of the result; the bundle itself is replaced atomically.
        training: the training settings; by default `Training()` with the bundle's max_length.
        grow: `only` (task or head), `fraction` and `validation`; the other settings are for new tasks.
        fresh: whether training starts from the method's initial values instead of the current ones.
        encoder: folder or hub id of the encoder, if it has moved.
        device: the device to train on.
        run: a folder to keep run.yaml, log.jsonl and metrics.json of the training in.
        resolved: the contents of run.yaml, if a task file was read.
        progress: whether to show progress.
    """
    folder, out, run = find_bundle(bundle), Path(out), None if run is None else Path(run)
    check_out(folder, out)
    check_run(run, folder, out)
    with changing_task(folder, out, name, words("weft task retrain", "weft.retrain_task")):
        check_out(folder, out)
        return _retrain_task(
            folder, name, task, out, training, grow, fresh, encoder, device, run, resolved, progress
        )


def _retrain_task(
    folder: Path,
    name: str,
    task: Task,
    out: Path,
    training: Training | None,
    grow: GrowSettings | Mapping[str, Any] | None,
    fresh: bool,
    encoder: Any,
    device: str | None,
    run: Path | None,
    resolved: dict[str, Any] | None,
    progress: bool,
) -> Grown:
    before = state_of(folder)
    check_has(folder, read_manifest(folder), name)
    manifest, bundle_tasks = read_bundle(folder)
    grow = grow if isinstance(grow, GrowSettings) else GrowSettings(**(grow or {}))
    bundle_task = bundle_tasks[name]
    if wrong := mistakes_again(task, grow, bundle_task):
        raise SettingsError(f"task {task.name!r}", [(".".join(key_path), text) for key_path, text in wrong])
    training = training or Training(max_length=manifest["max_length"])
    rows = rows_as(task_rows(task, grow, training.seed), bundle_task)
    # weights that will be replaced are not read: they may be those of a training that diverged
    owner = task_owner(name)
    model = load_changed(
        folder, fresh=lambda item: fresh and item.owner == owner, encoder=encoder, device=device
    )
    check_trainable(model, folder, training)
    alone = _used_alone(model, name)
    if grow.only == "task":
        _check_not_shared(model, name, folder, alone)
    moves = moves_of(model, name, grow.only, alone)
    if fresh:
        model = load_changed(folder, fresh=moves, encoder=encoder, device=device)
    run_file = resolved or {"bundle": str(folder), "tasks": [bundle_task.settings()]}
    run_file = {**run_file, "grow": grow.model_dump(mode="json")}
    scores = train_one(model, name, rows, training, moves, run=run, resolved=run_file, progress=progress)
    notes = [f"grow.{key} only applies to new tasks, and was not used" for key in unused_again(grow)]
    if task.metrics != bundle_task.metrics:
        notes.append(
            f"the bundle evaluates {name!r} by {', '.join(bundle_task.metrics)}; the task file's metrics "
            "are not used"
        )
    notes += rows.notes
    beside = moved_beside(model, name, moves)
    if beside and len(model.tasks) > 1:
        notes.append(
            f"parameters of {', '.join(sorted(beside))} that only {name!r} uses are in the shared file: "
            "the hashes in "
            "the other tasks' files were updated; their tensors are unchanged"
        )
    start = "the method's initial values" if fresh else "the current values"
    return Grown(
        out,
        name,
        grow.only,
        start,
        start,
        None,
        rows.as_dict(),
        scores,
        majority(bundle_task, rows.train, rows.validation),
        write_grown(model, name, folder, out, beside, before),
        tuple(notes),
    )


def _used_alone(model: Model, name: str) -> set[str]:
    """The owners whose parameters no other task uses: a group of one, or all owners if there is one task."""
    users = owners_of_tasks(model)
    return {owner for owner in users[model.task_id(name)] if sum(owner in owners for owners in users) == 1}


def _check_not_shared(model: Model, name: str, folder: Path, alone: set[str]) -> None:
    """Refuse a task whose parameters other tasks use."""
    users = owners_of_tasks(model)
    index = model.task_id(name)
    names = [task.name for task in model.tasks]
    next_command = (
        "\n  To retrain only its head: "
        + words(
            f"weft task retrain {folder} {name} TASK.yaml --only head --out B2",
            f"weft.retrain_task({str(folder)!r}, {name!r}, TASK, 'B2', grow={{'only': 'head'}})",
        )
        + f"\n  To train all tasks together: {words('weft train RUN.yaml', 'weft.train')}"
    )
    for group in sorted(users[index]):
        if group.startswith("group:") and group not in alone:
            others = [n for n, owners in zip(names, users, strict=True) if group in owners and n != name]
            raise WeftError(
                f"task {name!r} cannot be retrained alone: its parameters are those of {group}, which "
                f"{', '.join(others)} use too{next_command}"
            )
    trained = [item for item in owned(model) if item.trains and item.part != "heads"]
    if any(item.owner in alone for item in trained):
        return
    shared = sorted({item.owner for item in trained if item.owner in (ENCODER, SHARED)})
    others = [n for n in names if n != name]
    if shared:
        raise WeftError(
            f"task {name!r} cannot be retrained alone: method {model.method.name!r} gives it no parameters "
            f"except its head, and trains what {', '.join(others)} use too ({', '.join(shared)})"
            f"{next_command}"
        )
