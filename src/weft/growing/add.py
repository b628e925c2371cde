"""A new task for a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.load import find_bundle, load_changed, read_manifest, read_tasks
from weft.bundle.one_task import check_out
from weft.data.tokens.tokens import tokenize
from weft.evaluation.baselines import majority
from weft.growing.check import mistakes
from weft.growing.grown import Grown
from weft.growing.heads import mapped_head, set_head
from weft.growing.rows import TaskRows, task_rows
from weft.growing.settings import GrowSettings
from weft.growing.start import Beginnings
from weft.growing.train_one import check_run, check_trainable, moved_beside, moves_of, train_one
from weft.growing.write import write_grown
from weft.growing.zero_shot import ZeroShot, zero_shot
from weft.methods import build_method
from weft.settings import SettingsError
from weft.tasks.task import Task
from weft.training.settings import Training

if TYPE_CHECKING:
    from weft.model.model import Model


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
    tell: Callable[[str, ZeroShot], None] = lambda name, found: None,
) -> Grown:
    """Add a task to a trained model, and train it.

    With `only: task`, the default, every other file of the bundle stays the same, byte for byte.

    Args:
        bundle: the bundle, or a run's folder that holds one.
        task: the new task, with files or rows for `train`.
        out: where the result goes; the bundle itself is exchanged in one move.
        training: how to train; by default `Training()` with the bundle's max_length.
        grow: how the task joins; see `GrowSettings`.
        encoder: where the encoder is, if not where it was.
        device: where to train.
        run: keep run.yaml, log.jsonl and metrics.json of the training here.
        resolved: what run.yaml is to say, where a task file was read.
        progress: show what happens.
        tell: called with the task's name and what `start: auto` found, before anything is trained.
    """
    folder, out, run = find_bundle(bundle), Path(out), None if run is None else Path(run)
    check_out(folder, out)
    check_run(run, folder, out)
    said = read_manifest(folder)
    known = read_tasks(folder, said, said["encoder"]["sha256"])
    grow = grow if isinstance(grow, GrowSettings) else GrowSettings(**(grow or {}))
    if wrong := mistakes(task, grow, known, build_method(said["method"])):
        raise SettingsError(f"task {task.name!r}", [(".".join(place), text) for place, text in wrong])
    training = training or Training(max_length=said["max_length"])
    rows = task_rows(task, grow, training.seed)
    model = load_changed(folder, added=[task], encoder=encoder, device=device)
    check_trainable(model, folder, training)
    start, head, found = _begin(model, task.name, grow, rows, training)
    if found is not None:
        tell(task.name, found)
    moves = moves_of(model, task.name, grow.only)
    told = resolved or {"bundle": str(folder), "tasks": [task.settings()]}
    # the start that was taken, so that what is recorded can be done again
    told = {**told, "grow": {**grow.model_dump(mode="json"), "start": start}}
    scores = train_one(model, task.name, rows, training, moves, run=run, resolved=told, progress=progress)
    notes = list(rows.notes)
    if grow.label_map and found is None and start not in grow.label_map:
        notes.append(
            f"grow.label_map was not used: it is for start: auto, and for a task's name; this is {start}"
        )
    beside = moved_beside(model, task.name, moves)
    if beside:
        notes.append(
            f"only: all moved what all tasks use ({', '.join(sorted(beside))}) by the rows of {task.name!r} "
            f"alone: the answers of {', '.join(known)} have changed; look at their scores: "
            f"weft evaluate {out} --tasks RUN.yaml"
        )
    return Grown(
        out,
        task.name,
        grow.only,
        start,
        head,
        found,
        rows.as_dict(),
        scores,
        majority(task, rows.train, rows.validation),
        write_grown(model, task.name, folder, out, beside),
        tuple(notes),
    )


def _begin(
    model: Model, name: str, grow: GrowSettings, rows: TaskRows, training: Training
) -> tuple[str, str, ZeroShot | None]:
    """Bring the new task to its start: which it is, whose head, and what `auto` found."""
    beginnings = Beginnings(model, name)
    start = grow.start or ("auto" if beginnings.embeds or grow.label_map else "random")
    beginnings.check(start, bool(grow.label_map) if start == "auto" else start in grow.label_map)
    found = None
    if start == "auto":
        tokens = tokenize(rows.validation, model.tokenizer, training.max_length)
        found = zero_shot(beginnings, grow, rows.train, rows.validation, tokens, training.seed)
        start = found.best
    beginnings.take(start)
    if start not in grow.label_map:
        return start, "random", found
    set_head(model, name, mapped_head(model, start, name, grow.label_map[start]))
    return start, f"{start}'s, by label map", found
