"""Train a model: `weft.train`, which writes a run's folder from run.yaml to the bundle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.save import save
from weft.data.splits.entry import as_run_file
from weft.data.splits.subset import rows_of
from weft.data.splits.task_rows import rows_of_task
from weft.data.tokens.progress import tokenizing
from weft.data.tokens.tokens import tokenize
from weft.errors import Diverged, words
from weft.evaluation.baselines import Baselines, quick_baselines
from weft.evaluation.scores import Scores
from weft.evaluation.selection import reported_metrics
from weft.evaluation.temperature import without_fitted
from weft.evaluation.thresholds import without_tuned
from weft.training.head_start.start import apply_probes, probe_heads
from weft.training.optim.sharding import whole_model
from weft.training.run.checkpoint import environment
from weft.training.run.checkpoint_files import last_checkpoint
from weft.training.run.checks import check_training
from weft.training.run.divergence import end_diverged
from weft.training.run.epochs import epoch_note, with_steps
from weft.training.run.folder import begin_folder, check_apart, check_folder
from weft.training.run.interrupt import Interrupted
from weft.training.run.lock import one_writer
from weft.training.run.log import Log, NoLog
from weft.training.run.loop import Loop
from weft.training.run.loop_state import restore_loop
from weft.training.run.model_checks import check_model
from weft.training.run.plan import notes
from weft.training.run.progress import Progress, Quiet, progress_for
from weft.training.settings import Training
from weft.utils import machine
from weft.utils.files import write_json
from weft.utils.forks import before_computing
from weft.utils.out_of_memory import out_of_memory_explained
from weft.utils.processes import Processes
from weft.utils.strict_json import finite_or_null

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.model.model import Model
    from weft.tasks.task import Task
    from weft.training.run.component import Component


SHOWN = 6
"""The number of tasks in a run's `repr`."""


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run.

    Attributes:
        folder: run.yaml, log.jsonl, metrics.json, checkpoints/, bundle/.
        metrics: the scores of the best model in the last evaluation.
        baselines: the metrics of a majority guess and of a bag of words, by baseline and task, on the same
            rows; {} with `train.baselines: false`.
        tasks: the tasks that were trained, with their data, which `weft.evaluate(run)` reads.
    """

    folder: Path
    metrics: Scores
    baselines: Baselines = field(default_factory=dict)
    tasks: tuple[Task, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        """The folder, the average and the first tasks' scores."""
        scores = [f"{name} {next(iter(task.values())):.3f}" for name, task in self.metrics["tasks"].items()]
        shown = ", ".join([*scores[:SHOWN], *["…"] * (len(scores) > SHOWN)])
        return (
            f"Run({str(self.folder)!r}, average={self.metrics['average']:.3f}, {len(scores)} tasks: {shown})"
        )


@one_writer
def train(
    model: Model,
    training: Training | None = None,
    out: str | Path = "runs/run",
    *,
    resume: bool = False,
    with_encoder: bool = False,
    resolved: dict[str, Any] | None = None,
    splits: dict[tuple[str, str], Split] | None = None,
    progress: bool | Callable[[int, int], Progress] = True,
    tasks: Sequence[str] | None = None,
    with_bundle: bool = True,
    components: Sequence[Component] = (),
    overwrite: bool = False,
) -> Run:
    """Train a model; at the end it has the best weights, and its bundle is in the run's folder.

    With `torchrun` or `accelerate launch`, all processes must make this call. Each computes a part of every
    step; only the first writes files and shows progress.

    Args:
        model: the model; the tasks that train have files or rows for `train` and `validation`.
        training: the settings of `train`; by default `Training()`.
        out: the run's folder; an existing run in it is not changed unless it is resumed.
        resume: continue from the last checkpoint in `out`.
        with_encoder: include the encoder in the bundle, not only its name and sha256.
        resolved: the content of run.yaml, if a run file was read.
        splits: (task, split) → rows of all tasks that train, if they have been read already; see
            `rows_of_task`.
        progress: whether to show progress; or a function that makes the display, from the number of steps and
            the number of those that are done.
        tasks: the names of the tasks that train; by default all.
        with_bundle: whether to write the bundle; else only the model has the weights.
        components: components of the training loop, such as `[weft.Ema(0.999)]`: see `Component`. A run must
            be resumed with the same components.
        overwrite: replace a run in `out`, for notebook cells that are run again. Its files are deleted once
            the data has been read and the first step is about to begin. A folder that holds anything but a
            run is refused.
    """
    before_computing(model)
    training = training or Training()
    if training.lr is None:
        training = training.model_copy(update={"lr": model.method.default_lr})
    # thresholds that were tuned and temperatures that were fitted belong to the weights at that time
    model.tasks = tuple(
        without_tuned(without_fitted(task)) if tasks is None or task.name in tasks else task
        for task in model.tasks
    )
    resolved = resolved or _resolved(model, training)
    trained = [task for task in model.tasks if tasks is None or task.name in tasks]
    check_training(training, [task.name for task in trained], reported_metrics(trained))
    folder = Path(out)
    processes = Processes.join(next(model.parameters()).device)
    processes.on_main(lambda: check_folder(folder, resolved, resume, overwrite))
    if overwrite:
        check_apart(model, folder)
    about_rows: list[str] = []
    if splits is None:
        read = [rows_of_task(task) for task in trained]
        splits = {key: rows for of_task in read for key, rows in of_task.splits.items()}
        about_rows = [note for of_task in read for note in of_task.notes]
    names = [task.name for task in trained]
    sizes = [len(splits[name, "train"]) for name in names]
    if training.epochs is not None:
        in_epochs, training = training, with_steps(training, names, sizes)
        about_rows.append(epoch_note(in_epochs, training.steps))
    check_model(model, training, names, sizes)
    model.set_max_length(training.max_length)
    tokenizer = model.tokenizer
    tokens = {}
    with processes.main_first(), tokenizing(progress is True and processes.is_main) as display:
        for key, rows in splits.items():
            tokens[key] = tokenize(rows, tokenizer, training.max_length, progress=display.of(key, rows))
    fresh = not resume or last_checkpoint(folder / "checkpoints") is None
    ledger = dict(model.ledger())  # before anything is sharded
    head_start = None
    if fresh and model.head_start == "probe":
        train_tokens = {name: tokens[name, "train"] for name in names}
        head_start = processes.on_main(lambda: probe_heads(model, training, names, train_tokens))
        apply_probes(model, head_start)
    loop = Loop(
        model,
        training,
        [tokens[task.name, "train"] for task in trained],
        {name: rows for (name, split), rows in tokens.items() if split == "validation"},
        folder,
        [task.name for task in trained],
        processes,
        components,
        evaluate_start=head_start is not None and bool(head_start.fits),
    )
    loop.settings = json.loads(json.dumps(resolved))
    # nothing is written before all data have been read
    if not resume:
        processes.on_main(lambda: begin_folder(folder, resolved, overwrite))
    saved, about_checkpoints = restore_loop(loop, folder) if resume else (None, [])
    log: Log = NoLog()
    shown: Progress = Quiet()
    if processes.is_main:
        log = Log(folder, None if saved is None else saved["log_bytes"], loop.components.logged)
        display = progress_for if progress is True else progress
        shown = display(loop.total, loop.state.step) if display else shown
    loop.log, loop.progress = log, shown  # now: a component may report something at the first line
    world, ended = processes.world, False
    try:
        if saved is None:
            log.write(
                "start",
                steps=loop.total,
                tasks=loop.names,
                plan=loop.plan.fingerprint(),
                processes=world,
                parameters=ledger,
                environment=machine.environment(),
            )
        else:
            before = saved.get("processes", 1)
            log.write(
                "resume",
                step=loop.state.step,
                processes=world,
                before=before,
                parallel=training.parallel,
                environment=machine.environment(),
            )
            _warn(saved, shown, world)
        if head_start is not None:
            log.write("head_start", **head_start.facts())
            shown.say(f"note: {head_start.line()}")
        for note in (*about_checkpoints, *about_rows, *notes(loop)):
            shown.say(f"note: {note}")
        try:
            with out_of_memory_explained(_lower(training)):
                metrics = loop.run(log, shown)
        except Interrupted as stopped:
            _save_stopped(loop, stopped, with_bundle, with_encoder)
            raise
        except Diverged as failed:
            raise end_diverged(loop, failed, with_bundle, with_encoder) from None
        with whole_model(model):
            if with_bundle and processes.is_main:
                save(model, folder / "bundle", with_encoder)
        outcome = loop.validation.outcome(loop.state)
        last = {} if training.evaluate_every else loop.since()
        engine = {**loop.driver.report(), "waited": round(loop.driver.waited, 2)}
        taken = [*outcome, *engine, *metrics, *last, "step", "stops", "split", "engine_fallback"]
        speed = loop.state.speed()
        taken += ["seconds", "examples_per_second"]
        fields = {**outcome, **loop.components.log_fields("end", taken)}
        log.write("end", step=loop.state.step, **fields, **engine, **speed, **metrics, **last)
        final = {"step": fields["best_step"], "split": "validation", **fields, **metrics, **speed}
        final["engine"] = engine["engine"]
        final.pop("best_step")
        if loop.driver.fallback is not None:
            final["engine_fallback"] = loop.driver.fallback
        # a task that is added to a bundle (`with_bundle` is off) has a table of its own
        baselines = {}
        if training.baselines and with_bundle and processes.is_main:
            baselines = final["baselines"] = _baselines(trained, splits, loop)
        # written last: metrics.json marks the run as finished
        processes.on_main(lambda: write_json(folder / "metrics.json", finite_or_null(final)))
        ended = True
    finally:
        loop.driver.close()
        loop.components.close(failed=not ended)
        shown.close()
    return Run(folder, metrics, baselines, tuple(trained))


def _baselines(tasks: Sequence[Task], splits: Mapping[tuple[str, str], Split], loop: Loop) -> Baselines:
    """Score the baselines on the rows of the last evaluation."""
    train = {task.name: splits[task.name, "train"] for task in tasks}
    test = {task.name: splits[task.name, "validation"] for task in tasks}
    if loop.training.last_evaluation != "whole":
        test = {name: rows_of(rows, loop.validation.rows[name]) for name, rows in test.items()}
    return quick_baselines(tasks, train, test, loop.training.seed)


def _lower(training: Training) -> str:
    """What to lower if a run needs too much memory, with the present values."""
    train = words("train.", "")
    return (
        f"lower {train}batch_size ({training.batch_size}) or {train}max_length ({training.max_length}), or "
        f"raise {train}accumulate ({training.accumulate}), which splits a step; "
        f"{words('weft check', 'weft.check')} estimates the memory of a run before it starts"
    )


def _save_stopped(loop: Loop, stopped: Interrupted, with_bundle: bool, with_encoder: bool) -> None:
    """Write the bundle of a run that was stopped: its best weights, or those of its last step.

    In the gate phase of a run with L0 gates there is no bundle: the gates are not decided yet.
    """
    loop.log.write("interrupted", step=stopped.step, signal=stopped.signal)
    if with_bundle and stopped.step > loop.before:
        loop.finish(stopped=True)
        with whole_model(loop.model):
            if loop.processes.is_main:
                save(loop.model, stopped.folder / "bundle", with_encoder)


def _warn(saved: dict[str, Any], shown: Progress, world: int) -> None:
    now, then = environment(world), {"processes": 1, **saved}
    changed = [f"{key} {then[key]} then, {value} now" for key, value in now.items() if then[key] != value]
    if changed:
        shown.say(f"warning: {'; '.join(changed)}: the final weights may not be bit-identical")


def _resolved(model: Model, training: Training) -> dict[str, Any]:
    tasks = [as_run_file(task) for task in model.tasks]
    return {
        "encoder": model.encoder_source.name,
        "method": model.method.settings(),
        "heads": {
            "pool": model.pool,
            "dropout": model.head_dropout,
            "layers": 1,
            "hidden": None,
            "start": model.head_start,
        },
        "tasks": tasks,
        "train": training.model_dump(mode="json"),
    }
