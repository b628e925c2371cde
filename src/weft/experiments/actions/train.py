"""Train a cell: `weft train` of its run file, and one more evaluation of the reported rows."""

from __future__ import annotations

import base64
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.config.run_file import RunFile
from weft.errors import WeftError
from weft.experiments.actions import Outcome, Reporter
from weft.experiments.guesses import MAJORITY, majority_scores
from weft.experiments.job import Job
from weft.experiments.measures import ALWAYS, applies, measure_run
from weft.experiments.records import without_paths
from weft.experiments.trace import trace_of
from weft.utils.safe_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.data.splits.split import Split
    from weft.evaluation.rows.run_rows import SetRows
    from weft.model.model import Model
    from weft.tasks.task import Task

MOST_LOSSES = 40
"""How many lines of losses a record keeps, evenly spread over the run."""


def train(job: Job, report: Reporter) -> Outcome:
    """Train the cell's run file from its encoder."""
    return trained(job, report, job.run_file())


def start_from(job: Job, report: Reporter) -> Outcome:
    """Train the cell's run file from the weights of the cell that `start_from` names."""
    raw = {**job.raw, "start": str(Path(job.needs[0]) / "bundle")}
    return trained(job, report, replace(job, raw=raw).run_file())


def trained(job: Job, report: Reporter, run_file: RunFile) -> Outcome:
    """Train a run file in the cell's folder, or go on where a killed call has stopped.

    Args:
        job: the job.
        report: gets the progress.
        run_file: the run file.
    """
    from weft.training.run.run import train as train_model
    from weft.workflows.train import prepare_run

    began = time.perf_counter()
    folder = job.run_folder
    run_file = for_cell(run_file, job)
    resume = can_resume(run_file, folder)
    prepared = prepare_run(run_file, folder, resume=resume, device=job.device, tell=report.say)
    display = CellProgress(report)
    started = time.perf_counter()
    run = train_model(
        prepared.model,
        run_file.training,
        folder,
        resume=resume,
        resolved=run_file.resolved,
        splits=prepared.splits,
        progress=display.begin,
        with_bundle=job.keep or bool(set(job.measures) - set(ALWAYS)),
    )
    seconds = time.perf_counter() - started
    final = parse_json((folder / "metrics.json").read_bytes())
    outcome = reported(prepared.model, run_file.tasks, job.report, report, prepared.splits)
    outcome.settings = without_paths(run_file.resolved)
    outcome.chosen_by = {name: dict(m) for name, m in run.metrics["tasks"].items()} if job.chosen_by else None
    outcome.parameters = parameters_of(prepared.model)
    outcome.step = final.get("step")
    outcome.steps = display.taken
    outcome.curve, outcome.losses = read_log(folder / "log.jsonl")
    outcome.trace = trace_of(folder / "log.jsonl")
    always = [name for name in ALWAYS if applies(name, run_file)]
    names = tuple(dict.fromkeys((*always, *job.measures)))
    outcome.measures |= {"engine": final.get("engine"), **measure_run(names, folder, report.say)}
    whole = time.perf_counter() - began
    outcome.seconds = {"train": round(final.get("seconds", seconds), 2), "all": round(whole, 2)}
    return outcome


def for_cell(run_file: RunFile, job: Job) -> RunFile:
    """The run file without what a cell does not need: baselines, and a second evaluation of the same rows."""
    update: dict[str, Any] = {"baselines": False}
    if job.report == "validation":
        update["last_evaluation"] = "subset"
    training = run_file.training.model_copy(update=update)
    resolved = {**run_file.resolved, "train": training.model_dump(mode="json")}
    return replace(run_file, training=training, resolved=resolved)


def can_resume(run_file: RunFile, folder: Path) -> bool:
    """Whether a run in the folder can go on; anything else in the folder is deleted.

    Args:
        run_file: the run file.
        folder: the cell's folder, which belongs to it alone: its name is the cell's identity.
    """
    from weft.training.run.folder import check_folder

    if (folder / "metrics.json").is_file():  # it had ended, and was killed before its record was written
        (folder / "metrics.json").unlink()
    if (folder / "run.yaml").is_file():
        try:
            check_folder(folder, run_file.resolved, resume=True)
        except WeftError:  # settings that change no number, such as log_every, may differ
            pass
        else:
            return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def reported(
    model: Model,
    tasks: tuple[Task, ...],
    split: str,
    report: Reporter,
    rows: Mapping[tuple[str, str], Split] | None = None,
) -> Outcome:
    """Evaluate a model on all labelled rows of a split; tasks without labels there are left out.

    Args:
        model: the model, with its final weights.
        tasks: the tasks, with their files.
        split: `validation` or `test`.
        report: gets a note about tasks without labels.
        rows: (task, split) → rows, whose training labels tell the majority answer; None: it is not scored.
    """
    from weft.config.model_data import labelled_rows
    from weft.data.tokens.tokens import tokenize
    from weft.evaluation.evaluate import evaluate
    from weft.evaluation.rows.pack import pack
    from weft.evaluation.rows.run_rows import RunRows

    labelled = labelled_rows(tasks, split, "the grid", report.say)
    data = {name: tokenize(rows, model.tokenizer, model.max_length) for name, rows in labelled.items()}
    sets: dict[str, SetRows] = {}
    scores = evaluate(model, data, collect=sets)
    return Outcome(
        metrics=dict(scores["tasks"]),
        rows=dict(scores["rows"]),
        statistics=base64.b64encode(pack(RunRows(sets))).decode(),
        measures={} if rows is None else {MAJORITY: majority_scores(tasks, rows, labelled)},
    )


def parameters_of(model: Model) -> dict[str, Any]:
    """The counts of a model's parameters: those that train outside heads, and the ratio of all.

    With L0 gates `trained` and `total_ratio` count what `model.compact()` leaves, and `trained_with_gates`
    what the model has with its shut components, which is what was trained.
    """
    from weft.model.accounting.gated import behind_gates
    from weft.model.ownership import owned

    ledger = model.ledger()
    trained_now = sum(item.numel for item in owned(model) if item.trains and item.part != "heads")
    shut = behind_gates(model)
    counts = {
        "encoder": ledger["encoder"],
        "trained": trained_now - shut.trained,
        "total_ratio": round((ledger["total"] - shut.all) / ledger["encoder"], 6),
        "heads": sum(ledger["heads"].values()),
    }
    return counts | ({"trained_with_gates": trained_now} if shut.all else {})


def read_log(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The evaluations of a run, and its losses, from log.jsonl."""
    curve: dict[int, dict[str, Any]] = {}
    losses: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry.get("event") == "evaluation":
            curve[entry["step"]] = {"step": entry["step"], "tasks": rounded(entry["tasks"])}
        elif entry.get("event") == "step":
            losses[entry["step"]] = {"step": entry["step"], "loss": rounded(entry["loss"])}
    kept = list(losses.values())
    every = max(1, -(-len(kept) // MOST_LOSSES))
    return list(curve.values()), kept[every - 1 :: every]


def rounded(value: Any) -> Any:
    """Numbers with six digits: a record is small, and rows decide what is reported."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


class CellProgress:
    """Passes the progress of a run on to the reporter.

    Args:
        report: gets it.

    Attributes:
        taken: how many steps this call has taken.
    """

    def __init__(self, report: Reporter) -> None:
        self.report = report
        self.total = self.first = self.taken = 0
        self.score: float | None = None

    def begin(self, total: int, first: int) -> CellProgress:
        """The display of a run: see `weft.train`."""
        self.total, self.first = total, first
        return self

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """See `Progress`."""
        self.taken = done - self.first
        self.report.step(done, self.total, self.score)

    def evaluated(self, done: int, average: float, scores: Mapping[str, str]) -> None:
        """See `Progress`."""
        self.score = average
        self.report.step(done, self.total, average)

    def say(self, text: str) -> None:
        """See `Progress`."""
        self.report.say(text)

    def close(self) -> None:
        """See `Progress`."""
