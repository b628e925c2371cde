"""Add a task to the model of another cell: `weft task add`, so that transfer tables are grids too.

```yaml
variants:
  shared: {}
  scitail: {grow: {from: shared, tasks: {suite: scitail}, train: {steps: 500}, grow: {fraction: 0.01}}}
```

The settings are the sections of a task file, and `from`. Only the new task is reported.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from weft.config.reading import Reading
from weft.config.task_file import host_of, read_task_file
from weft.experiments.actions import Outcome, Reporter
from weft.experiments.actions.train import parameters_of, read_log, reported
from weft.experiments.job import Job
from weft.experiments.measures import OF_LOG, measure_run
from weft.experiments.records import without_paths
from weft.experiments.trace import trace_of


def grow(job: Job, report: Reporter) -> Outcome:
    """Add the task to the bundle of the cell that `from` names, train it, and evaluate it."""
    from weft.bundle.load import load
    from weft.growing.add import add_task
    from weft.utils.devices import device_of

    folder = job.run_folder
    shutil.rmtree(folder, ignore_errors=True)  # what a killed call has left
    settings: dict[str, Any] = {key: value for key, value in job.action["grow"].items() if key != "from"}
    settings["train"] = {**(settings.get("train") or {}), "seed": job.raw["train"]["seed"]}
    host = host_of(job.needs[0])
    task_file = read_task_file(settings, Reading(job.source, Path(job.folder)), (), host, None)
    began = time.perf_counter()
    device = str(device_of(job.device))
    grown = add_task(
        host.folder,
        task_file.task,
        folder / "bundle",
        training=task_file.training,
        grow=task_file.grow,
        device=device,
        run=folder / "run",
        resolved=task_file.resolved,
        progress=False,
    )
    seconds = time.perf_counter() - began
    for note in grown.notes:
        report.say(note)
    model = load(folder / "bundle", device=device)
    outcome = reported(model, (task_file.task,), job.report, report)
    outcome.settings = without_paths(task_file.resolved)
    outcome.parameters = parameters_of(model)
    outcome.curve, outcome.losses = read_log(folder / "run" / "log.jsonl")
    outcome.trace = trace_of(folder / "run" / "log.jsonl")
    outcome.seconds = {"train": round(seconds, 2)}
    outcome.steps = task_file.training.steps
    measures = measure_run(OF_LOG, folder / "run", report.say)
    outcome.measures = {"start": grown.start, "rows": grown.rows, **measures}
    return outcome
