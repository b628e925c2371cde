"""A run: its folder from the first line to the bundle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml

from weft.bundle.save import save
from weft.data.split import load_split
from weft.data.tokens import tokenise
from weft.errors import WeftError, did_you_mean
from weft.evaluation.evaluate import Scores
from weft.files import sweep, write_json, write_text
from weft.methods import build_method
from weft.training.checkpoint import last_checkpoint
from weft.training.log import Log
from weft.training.loop import Loop
from weft.training.progress import Progress, Quiet, progress_for
from weft.training.settings import Training

if TYPE_CHECKING:
    from weft.data.split import Split
    from weft.model import Model

FREE = ("log_every", "tensorboard", "checkpoint_every")
"""Keys of `train` that may differ when a run is resumed: they change no weight."""


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: run.yaml, log.jsonl, metrics.json, checkpoints/, bundle/.
        metrics: the scores of the best model, over whole validation splits.
    """

    folder: Path
    metrics: Scores


def train(
    model: Model,
    training: Training | None = None,
    out: str | Path = "runs/run",
    *,
    resume: bool = False,
    with_encoder: bool = False,
    resolved: dict[str, Any] | None = None,
    splits: dict[tuple[str, str], Split] | None = None,
    progress: bool = True,
    tasks: Sequence[str] | None = None,
    with_bundle: bool = True,
) -> Run:
    """Train a model; it ends with the best weights, and its bundle is in the run's folder.

    Args:
        model: the model; the tasks that train have files or rows for `train` and `validation`.
        training: how to train; by default `Training()`.
        out: the run's folder; a run that stands there is not touched unless it is resumed.
        resume: go on from the last checkpoint in `out`.
        with_encoder: put the encoder into the bundle, not only its name and sha256.
        resolved: what run.yaml is to say, where a run file was read.
        splits: (task, split) → rows that are read already.
        progress: show what happens.
        tasks: the names of the tasks that train; by default all.
        with_bundle: whether to write the bundle; else the model alone has the weights.
    """
    training = training or Training()
    if training.lr is None:
        training = training.model_copy(update={"lr": model.method.default_lr})
    resolved = resolved or _resolved(model, training)
    trained = [task for task in model.tasks if tasks is None or task.name in tasks]
    names = ["average", *(task.name for task in trained)]
    if training.best not in names:
        raise WeftError(f"best: {training.best!r}; {did_you_mean(training.best, names)}")
    folder = Path(out)
    _check_folder(folder, resolved, resume)
    model.set_max_length(training.max_length)
    tokenizer = model.source.tokenizer
    tokens = {}
    for split in ("train", "validation"):
        for task in trained:
            rows = (splits or {}).get((task.name, split)) or load_split(task, split)
            tokens[task.name, split] = tokenise(rows, tokenizer, training.max_length)
    loop = Loop(
        model,
        training,
        [tokens[task.name, "train"] for task in trained],
        [tokens[task.name, "validation"] for task in trained],
        folder,
        [task.name for task in trained],
    )
    # nothing is written before everything has been read
    if not resume:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "run.yaml", yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True))
    said = _resume(loop, folder) if resume else None
    log = Log(folder, training.tensorboard, None if said is None else said["log_bytes"])
    shown: Progress = progress_for(loop.total, loop.state.step) if progress else Quiet()
    try:
        if said is None:
            log.write("start", steps=loop.total, tasks=loop.names, plan=loop.plan.fingerprint())
        else:
            log.write("resume", step=loop.state.step)
            _warn(said, shown)
        metrics = loop.run(log, shown)
        if with_bundle:
            save(model, folder / "bundle", with_encoder)
        best = loop.state.best_step or loop.total
        log.write("end", step=loop.total, best_step=best, seconds=round(loop.state.seconds, 2), **metrics)
        # last: it says that the run has ended
        write_json(folder / "metrics.json", {"step": best, "split": "validation", **metrics})
    finally:
        shown.close()
        log.close()
    return Run(folder, metrics)


def _check_folder(folder: Path, resolved: dict[str, Any], resume: bool) -> None:
    """Make sure that a new run's folder is free, and that the one to resume is of the same run."""
    file = folder / "run.yaml"
    if resume:
        if not file.is_file():
            raise WeftError(f"{folder} holds no run to resume: run.yaml is missing; leave out --resume")
        if (folder / "metrics.json").is_file():
            raise WeftError(f"the run in {folder} has ended; see it with: weft evaluate {folder}")
        before = yaml.safe_load(file.read_text(encoding="utf-8"))
        differs = _differences(_completed(before), json.loads(json.dumps(resolved)))
        if differs:
            raise WeftError(
                f"the run in {folder} was begun with other settings, and cannot go on with these:\n"
                + "\n".join(differs)
            )
    elif folder.is_file():
        raise WeftError(f"{folder} is a file; give the folder of a run as --out")
    elif folder.is_dir() and any(folder.iterdir()):
        raise WeftError(f"{folder} is not empty; go on with --resume, or give another --out")


def _completed(before: dict[str, Any]) -> dict[str, Any]:
    """What run.yaml says, with the defaults of settings that there were not when it was written."""
    try:
        method = json.loads(json.dumps(build_method(before["method"]).settings()))
        return {**before, "method": method, "train": Training(**before["train"]).model_dump(mode="json")}
    except (WeftError, KeyError, TypeError):
        return before


def _resume(loop: Loop, folder: Path) -> dict[str, Any] | None:
    """Bring the loop to where the last checkpoint left it; None if there is none.

    A run killed before its first checkpoint is the same run from the start.
    """
    sweep(folder, ".run.yaml.new", ".metrics.json.new", ".bundle-*")
    sweep(loop.checkpoints, ".step-*", ".best-*")
    checkpoint = last_checkpoint(loop.checkpoints)
    if checkpoint is None:
        return None
    said = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    for part, what in (("encoder", "weights of the encoder"), ("rows", "data"), ("plan", "data or settings")):
        if said["data"][part] != loop.data[part]:
            raise WeftError(
                f"{checkpoint} was made with other {what}, changed since.\n"
                f"  begin anew with another --out, or put back what was there"
            )
    return loop.resume(checkpoint)


def _warn(said: dict[str, Any], shown: Progress) -> None:
    now = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    odd = [f"{what} {said[what]} then, {value} now" for what, value in now.items() if said[what] != value]
    if odd:
        shown.say(f"warning: {'; '.join(odd)}: the last bits of the weights may differ")


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    lines = []
    for section in ("encoder", "method", "heads", "tasks", "start"):
        if before.get(section) != now.get(section):
            lines.append(f"  {section}: {before.get(section)!r} then, {now.get(section)!r} now")
    old, new = before.get("train", {}), now["train"]
    for key in sorted(old.keys() | new.keys()):
        if key not in FREE and old.get(key) != new.get(key):
            lines.append(f"  train.{key}: {old.get(key)!r} then, {new.get(key)!r} now")
    return lines


def _resolved(model: Model, training: Training) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = []
    for task in model.tasks:
        if task.suite is not None:
            tasks.append({"suite": task.suite, "only": [task.name]})
        else:
            files = {s: str(f.resolve()) for s, f in task.files.items() if isinstance(f, Path)}
            tasks.append({**task.settings(), **files, **({"hub": task.hub} if task.hub else {})})
    return {
        "encoder": model.source.name,
        "method": model.method.settings(),
        "heads": {"pool": model.pool, "dropout": model.head_dropout},
        "tasks": tasks,
        "train": training.model_dump(mode="json"),
    }
