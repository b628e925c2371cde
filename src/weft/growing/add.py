"""`weft task add`: add a task to a trained model and train it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.bundle.manifest import find_bundle
from weft.bundle.one_task import check_out
from weft.bundle.state import state_of
from weft.bundle.writing import changing_task
from weft.core.stacked import ENCODER
from weft.errors import words
from weft.evaluation.baselines import majority
from weft.growing.encoder import set_encoder_training
from weft.growing.grown import Grown
from weft.growing.heads import mapped_head, set_head
from weft.growing.prepare import NewTask, new_task
from weft.growing.settings import GrowSettings
from weft.growing.start import StartValues
from weft.growing.train_one import check_run, default_lr, moved_beside, moves_of, train_one
from weft.growing.write import write_grown
from weft.growing.zero_shot import ZeroShot
from weft.methods import METHODS
from weft.tasks.task import Task
from weft.training.settings import Training


def add_task(
    bundle: str | Path,
    task: Task,
    out: str | Path,
    *,
    training: Training | None = None,
    grow: GrowSettings | Mapping[str, Any] | None = None,
    encoder: Any = None,
    device: str | None = None,
    run: str | Path | None = None,
    resolved: dict[str, Any] | None = None,
    progress: bool = True,
    tell: Callable[[str, ZeroShot], None] = lambda name, result: None,
) -> Grown:
    """Add a task to a trained model, and train it.

    With `only: task`, the default, every other file of the bundle stays byte-identical.

    Args:
        bundle: the bundle, or a run folder that holds one.
        task: the new task, with files or rows for `train`.
        out: the folder of the result; the bundle itself is replaced atomically.
        training: the training settings; by default `Training()` with the bundle's max_length.
        grow: how the task is added; see `GrowSettings`.
        encoder: folder or hub id of the encoder, if it has moved.
        device: the device to train on.
        run: a folder to keep run.yaml, log.jsonl and metrics.json of the training in.
        resolved: the contents of run.yaml, if a task file was read.
        progress: whether to show progress.
        tell: called with the task's name and the result of `start: auto`, before anything is trained.
    """
    folder, out, run = find_bundle(bundle), Path(out), None if run is None else Path(run)
    check_out(folder, out)
    check_run(run, folder, out)
    with changing_task(folder, out, task.name, words("weft task add", "weft.add_task")):
        check_out(folder, out)
        return _add_task(folder, task, out, training, grow, encoder, device, run, resolved, progress, tell)


def _add_task(
    folder: Path,
    task: Task,
    out: Path,
    training: Training | None,
    grow: GrowSettings | Mapping[str, Any] | None,
    encoder: Any,
    device: str | None,
    run: Path | None,
    resolved: dict[str, Any] | None,
    progress: bool,
    tell: Callable[[str, ZeroShot], None],
) -> Grown:
    before = state_of(folder)
    new = new_task(folder, task, training, grow, encoder, device)
    model, rows, grow, training = new.model, new.rows, new.grow, new.training
    model.head_start = grow.head_start
    start, head, trial = _begin(new)
    if trial is not None:
        tell(task.name, trial)
    moves = moves_of(model, task.name, grow.only)
    notes = list(rows.notes)
    if grow.train_encoder is not None:
        moves, note = set_encoder_training(model, grow.train_encoder, moves)
        notes += [note] if note else []
        if training.lr is None and ENCODER in moved_beside(model, task.name, moves):
            # methods that freeze the encoder have higher learning rates
            lr = min(default_lr(model, task.name, moves), METHODS["full"].default_lr)
            training = training.model_copy(update={"lr": lr})
    run_file = resolved or {"bundle": str(folder), "tasks": [task.settings()]}
    # records the start that was used, so that the run can be repeated
    run_file = {**run_file, "grow": {**grow.model_dump(mode="json"), "start": start}}
    scores = train_one(model, task.name, rows, training, moves, run=run, resolved=run_file, progress=progress)
    if grow.label_map and trial is None and start not in grow.label_map:
        notes.append(
            "grow.label_map was not used: it applies to start: auto and to the name of a task; start is "
            f"{start}"
        )
    beside = moved_beside(model, task.name, moves)
    if beside:
        notes.append(
            f"only: all changed parameters that all tasks use ({', '.join(sorted(beside))}) by training on "
            f"{task.name!r} "
            f"only: the answers of {', '.join(new.bundle_tasks)} have changed; check their scores: "
            + words(f"weft evaluate {out} --tasks RUN.yaml", f"weft.evaluate({str(out)!r}, tasks=…)")
        )
    return Grown(
        out,
        task.name,
        grow.only,
        start,
        head,
        trial,
        rows.as_dict(),
        scores,
        majority(task, rows.train, rows.validation),
        write_grown(model, task.name, folder, out, beside, before),
        tuple(notes),
    )


def _begin(new: NewTask) -> tuple[str, str, ZeroShot | None]:
    """Set the initial values of the new task; return the start, what the head is, and the trial of `auto`."""
    model, name, grow = new.model, new.task.name, new.grow
    start_values = StartValues(model, name)
    start = grow.start or ("auto" if start_values.embeds or grow.label_map else "random")
    start_values.check(start, bool(grow.label_map) if start == "auto" else start in grow.label_map)
    trial = None
    if start == "auto":
        trial = new.zero_shot(start_values)
        start = trial.best
    start_values.take(start)
    if start not in grow.label_map:
        return start, "random", trial
    set_head(model, name, mapped_head(model, start, name, grow.label_map[start]))
    return start, f"{start}'s, by label map", trial
