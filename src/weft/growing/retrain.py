"""A task of a trained model trained again, while all others stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.load import find_bundle, load, load_changed, read_manifest
from weft.bundle.one_task import check_out, task_of
from weft.core.stacked import ENCODER, SHARED
from weft.errors import WeftError
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
    """Train a task of a bundle again: what is its own, or its head alone.

    Args:
        bundle: the bundle, or a run's folder that holds one.
        name: the task.
        task: the same task, with files or rows for `train`.
        out: where the result goes; the bundle itself is exchanged in one move.
        training: how to train; by default `Training()` with the bundle's max_length.
        grow: `only` (task or head), `fraction` and `validation`; the rest is for new tasks.
        fresh: what moves begins at the method's own start, not at its present values.
        encoder: where the encoder is, if not where it was.
        device: where to train.
        run: keep run.yaml, log.jsonl and metrics.json of the training here.
        resolved: what run.yaml is to say, where a task file was read.
        progress: show what happens.
    """
    folder, out, run = find_bundle(bundle), Path(out), None if run is None else Path(run)
    check_out(folder, out)
    check_run(run, folder, out)
    said = read_manifest(folder)
    grow = grow if isinstance(grow, GrowSettings) else GrowSettings(**(grow or {}))
    mine = task_of(folder, said, name)
    if wrong := mistakes_again(task, grow, mine):
        raise SettingsError(f"task {task.name!r}", [(".".join(place), text) for place, text in wrong])
    training = training or Training(max_length=said["max_length"])
    rows = rows_as(task_rows(task, grow, training.seed), mine)
    model = load(folder, encoder=encoder, device=device)
    check_trainable(model, folder, training)
    alone = _used_alone(model, name)
    if grow.only == "task":
        _check_not_shared(model, name, folder, alone)
    moves = moves_of(model, name, grow.only, alone)
    if fresh:
        model = load_changed(folder, fresh=moves, encoder=encoder, device=device)
    told = resolved or {"bundle": str(folder), "tasks": [mine.settings()]}
    told = {**told, "grow": grow.model_dump(mode="json")}
    scores = train_one(model, name, rows, training, moves, run=run, resolved=told, progress=progress)
    notes = [f"grow.{key} is for new tasks, and was not used" for key in unused_again(grow)]
    if task.metrics != mine.metrics:
        notes.append(f"the bundle judges {name!r} by {', '.join(mine.metrics)}; the task file's are not used")
    notes += rows.notes
    beside = moved_beside(model, name, moves)
    if beside and len(model.tasks) > 1:
        notes.append(
            f"what {name!r} alone uses of {', '.join(sorted(beside))} is in the shared file: "
            "the other tasks' files say anew what they stand on; their tensors are the same"
        )
    start = "the method's start" if fresh else "the present values"
    return Grown(
        out,
        name,
        grow.only,
        start,
        start,
        None,
        rows.as_dict(),
        scores,
        majority(mine, rows.train, rows.validation),
        write_grown(model, name, folder, out, beside),
        tuple(notes),
    )


def _used_alone(model: Model, name: str) -> set[str]:
    """The owners whose parameters no other task uses: a group of one; all, where there is one task."""
    users = owners_of_tasks(model)
    return {owner for owner in users[model.task_id(name)] if sum(owner in other for other in users) == 1}


def _check_not_shared(model: Model, name: str, folder: Path, alone: set[str]) -> None:
    """Refuse a task whose parameters others use."""
    users = owners_of_tasks(model)
    index = model.task_id(name)
    names = [task.name for task in model.tasks]
    next_command = (
        f"\n  Its head alone can be: weft task retrain {folder} {name} TASK.yaml --only head --out B2"
        "\n  All tasks together: weft train RUN.yaml"
    )
    for group in sorted(users[index]):
        if group.startswith("group:") and group not in alone:
            others = [n for n, owners in zip(names, users, strict=True) if group in owners and n != name]
            raise WeftError(
                f"task {name!r} cannot be trained again alone: its parameters are those of {group}, which "
                f"{', '.join(others)} use too{next_command}"
            )
    trained = [item for item in owned(model) if item.trains and item.part != "heads"]
    if any(item.owner in alone for item in trained):
        return
    shared = sorted({item.owner for item in trained if item.owner in (ENCODER, SHARED)})
    others = [n for n in names if n != name]
    if shared:
        raise WeftError(
            f"task {name!r} cannot be trained again alone: method {model.method.name!r} gives it nothing of "
            f"its own but its head, and trains what {', '.join(others)} use too ({', '.join(shared)})"
            f"{next_command}"
        )
