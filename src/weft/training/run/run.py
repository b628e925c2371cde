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
from weft.data.splits.entry import as_run_file
from weft.data.splits.task_rows import rows_of_task
from weft.data.tokens.progress import tokenizing
from weft.data.tokens.tokens import tokenize
from weft.errors import WeftError
from weft.evaluation.scores import Scores
from weft.training.optim.sharding import whole_model
from weft.training.run.best import PER_TASK, check_per_task
from weft.training.run.checkpoint import last_checkpoint
from weft.training.run.checks import check_training
from weft.training.run.log import Log, NoLog
from weft.training.run.loop import Loop
from weft.training.run.plan import notes, plan_of
from weft.training.run.progress import Progress, Quiet, progress_for
from weft.training.run.resume import differences
from weft.training.settings import Training
from weft.training.step.trunk_cache import check_trunk
from weft.training.uncertainty import chooser_of
from weft.utils.files import sweep, write_json, write_text
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.model.model import Model
    from weft.training.run.component import Component


SHOWN = 6
"""How many tasks a run's `repr` lists."""


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run.

    Attributes:
        folder: run.yaml, log.jsonl, metrics.json, checkpoints/, bundle/.
        metrics: the scores of the best model, over whole validation splits.
    """

    folder: Path
    metrics: Scores

    def __repr__(self) -> str:
        """The folder, the average and the first tasks' scores."""
        scores = [f"{name} {next(iter(own.values())):.3f}" for name, own in self.metrics["tasks"].items()]
        shown = ", ".join([*scores[:SHOWN], *["…"] * (len(scores) > SHOWN)])
        return (
            f"Run({str(self.folder)!r}, average={self.metrics['average']:.3f}, {len(scores)} tasks: {shown})"
        )


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
    components: Sequence[Component] = (),
) -> Run:
    """Train a model; it ends with the best weights, and its bundle is in the run's folder.

    Started by `torchrun` or `accelerate launch`, all processes make this call, and each takes its part of
    every step; the first one alone writes and speaks.

    Args:
        model: the model; the tasks that train have files or rows for `train` and `validation`.
        training: how to train; by default `Training()`.
        out: the run's folder; a run that stands there is not touched unless it is resumed.
        resume: go on from the last checkpoint in `out`.
        with_encoder: put the encoder into the bundle, not only its name and sha256.
        resolved: what run.yaml is to say, where a run file was read.
        splits: (task, split) → rows that are read already, of all tasks that train; see `rows_of_task`.
        progress: show what happens.
        tasks: the names of the tasks that train; by default all.
        with_bundle: whether to write the bundle; else the model alone has the weights.
        components: what else hooks into the training loop, such as `[weft.Ema(0.999)]`: see `Component`. A
            run is resumed with the same ones.
    """
    training = training or Training()
    if training.lr is None:
        training = training.model_copy(update={"lr": model.method.default_lr})
    resolved = resolved or _resolved(model, training)
    trained = [task for task in model.tasks if tasks is None or task.name in tasks]
    check_training(training, [task.name for task in trained])
    folder = Path(out)
    processes = Processes.join(next(model.parameters()).device)
    processes.on_main(lambda: _check_folder(folder, resolved, resume))
    if splits is None:
        splits = {key: rows for task in trained for key, rows in rows_of_task(task).splits.items()}
    names = [task.name for task in trained]
    check_model(model, training, names, [len(splits[name, "train"]) for name in names])
    model.set_max_length(training.max_length)
    tokenizer = model.tokenizer
    tokens = {}
    with processes.main_first(), tokenizing(progress and processes.is_main) as told:
        for key, rows in splits.items():
            tokens[key] = tokenize(rows, tokenizer, training.max_length, progress=told.of(key, rows))
    loop = Loop(
        model,
        training,
        [tokens[task.name, "train"] for task in trained],
        {name: own for (name, split), own in tokens.items() if split == "validation"},
        folder,
        [task.name for task in trained],
        processes,
        components,
    )
    # nothing is written before everything has been read
    if not resume:
        processes.on_main(lambda: _begin(folder, resolved))
    said = _resume(loop, folder) if resume else None
    log: Log = NoLog()
    shown: Progress = Quiet()
    if processes.is_main:
        log = Log(folder, training.tensorboard, None if said is None else said["log_bytes"])
        shown = progress_for(loop.total, loop.state.step) if progress else shown
    world = processes.world
    try:
        if said is None:
            log.write(
                "start", steps=loop.total, tasks=loop.names, plan=loop.plan.fingerprint(), processes=world
            )
        else:
            before = said.get("processes", 1)
            log.write(
                "resume", step=loop.state.step, processes=world, before=before, parallel=training.parallel
            )
            _warn(said, shown, world)
        for note in notes(loop):
            shown.say(f"note: {note}")
        metrics = loop.run(log, shown)
        with whole_model(model):
            if with_bundle and processes.is_main:
                save(model, folder / "bundle", with_encoder)
        outcome = loop.validation.outcome(loop.state)
        last = {} if training.evaluate_every else loop.since()
        by = {**loop.driver.report(), "waited": round(loop.driver.waited, 2)}
        taken = [*outcome, *by, *metrics, *last, "step", "stops", "split", "seconds", "engine_fallback"]
        told = {**outcome, **loop.components.log_fields("end", taken)}
        seconds = round(loop.state.seconds, 2)
        log.write("end", step=loop.state.step, **told, **by, seconds=seconds, **metrics, **last)
        # last: it says that the run has ended
        ended = {"step": told["best_step"], "split": "validation", **told, **metrics, "engine": by["engine"]}
        ended.pop("best_step")
        if loop.driver.fallback is not None:
            ended["engine_fallback"] = loop.driver.fallback
        processes.on_main(lambda: write_json(folder / "metrics.json", ended))
    finally:
        loop.driver.close()
        shown.close()
        log.close()
    return Run(folder, metrics)


def _begin(folder: Path, resolved: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "run.yaml", yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True))


def check_model(model: Model, training: Training, names: Sequence[str], sizes: Sequence[int]) -> None:
    """Refuse what this model cannot do, before its rows are tokenized.

    Args:
        model: the model.
        training: how it is to be trained.
        names: the tasks that train, [T].
        sizes: their training examples, [T].
    """
    check_trains(model)
    if training.trunk_cache:
        check_trunk(model)
    if training.best == PER_TASK:
        check_per_task(model)
    if training.conflict is not None:
        from weft.training.conflict import build_conflict
        from weft.training.conflict.gradients import TaskGradients

        ids = [model.task_id(name) for name in names]
        TaskGradients(model, build_conflict(training.conflict), names, ids)
    chooser_of(model, names, sizes, plan_of(training, names, sizes, None))


def check_trains(model: Model) -> None:
    """Refuse a model of which nothing trains: a frozen encoder, and heads without parameters (cosine)."""
    if not any(p.requires_grad for p in model.parameters()):
        names = ", ".join(task.name for task in model.tasks)
        raise WeftError(
            f"nothing trains: method {model.method.name!r} leaves the encoder as it is, and what is to be "
            f"trained of {names} has no parameters (similarity by cosine has none); take another method, or "
            "compare: head"
        )


def _check_folder(folder: Path, resolved: dict[str, Any], resume: bool) -> None:
    """Make sure that a new run's folder is free, and that the one to resume is of the same run."""
    file = folder / "run.yaml"
    if resume:
        if not file.is_file():
            raise WeftError(f"{folder} holds no run to resume: run.yaml is missing; leave out --resume")
        if (folder / "metrics.json").is_file():
            raise WeftError(f"the run in {folder} has ended; see it with: weft evaluate {folder}")
        before = yaml.safe_load(file.read_text(encoding="utf-8"))
        differs = differences(before, json.loads(json.dumps(resolved)))
        if differs:
            raise WeftError(
                f"the run in {folder} was begun with other settings, and cannot go on with these:\n"
                + "\n".join(differs)
            )
    elif folder.is_file():
        raise WeftError(f"{folder} is a file; give the folder of a run as --out")
    elif folder.is_dir():
        sweep(folder, ".run.yaml.new")  # all that a run killed in its first moment leaves
        if any(folder.iterdir()):
            raise WeftError(f"{folder} is not empty; go on with --resume, or give another --out")


def _resume(loop: Loop, folder: Path) -> dict[str, Any] | None:
    """Bring the loop to where the last checkpoint left it; None if there is none.

    A run killed before its first checkpoint is the same run from the start.
    """
    loop.processes.on_main(lambda: sweep(folder, ".run.yaml.new", ".metrics.json.new", ".bundle-*"))
    loop.processes.on_main(lambda: sweep(loop.checkpoints, ".step-*", ".best-*"))
    checkpoint = last_checkpoint(loop.checkpoints)
    if checkpoint is None:
        return None
    said = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    if said["data"].get("tokens", 1) != loop.data["tokens"]:
        raise WeftError(
            f"{checkpoint} was made by an earlier weft, which tokenized texts otherwise (format "
            f"{said['data'].get('tokens', 1)}, now {loop.data['tokens']}).\n"
            "  end the run with that weft, or begin anew with another --out"
        )
    for part, what in (("encoder", "weights of the encoder"), ("rows", "data"), ("plan", "data or settings")):
        if said["data"][part] != loop.data[part]:
            of = _changed(loop, said["data"][part]) if part == "rows" else ""
            raise WeftError(
                f"{checkpoint} was made with other {what}{of}, changed since.\n"
                f"  begin anew with another --out, or put back what was there"
            )
    return loop.resume(checkpoint)


def _changed(loop: Loop, before: list[str]) -> str:
    """Of which tasks the rows are others."""
    names = [
        *(f"{name}/train" for name in loop.names),
        *(f"{name}/validation" for name in loop.validation.validation),
    ]
    if len(before) != len(names):
        return ""
    now: Any = loop.data["rows"]
    odd = [name for name, a, b in zip(names, before, now, strict=True) if a != b]
    return f" of {', '.join(odd)}"


def _warn(said: dict[str, Any], shown: Progress, world: int) -> None:
    now = {"torch": torch.__version__, "threads": torch.get_num_threads(), "processes": world}
    then = {"processes": 1, **said}
    odd = [f"{what} {then[what]} then, {value} now" for what, value in now.items() if then[what] != value]
    if odd:
        shown.say(f"warning: {'; '.join(odd)}: the last bits of the weights may differ")


def _resolved(model: Model, training: Training) -> dict[str, Any]:
    tasks = [as_run_file(task) for task in model.tasks]
    return {
        "encoder": model.encoder_source.name,
        "method": model.method.settings(),
        "heads": {"pool": model.pool, "dropout": model.head_dropout, "layers": 1, "hidden": None},
        "tasks": tasks,
        "train": training.model_dump(mode="json"),
    }
