"""Combine the models of other cells into one: `weft assemble`.

```yaml
variants:
  cola: {tasks.only: [cola]}
  rte: {tasks.only: [rte]}
  together: {assemble: [cola, rte]}
  morris: {assemble: {from: [cola, rte], method: morris, rank: 32}}
```

All tasks are reported. The runs must have the same encoder and method.
"""

from __future__ import annotations

import shutil
import time

from weft.experiments.actions import Outcome, Reporter
from weft.experiments.actions.train import parameters_of, reported
from weft.experiments.job import Job


def assemble(job: Job, report: Reporter) -> Outcome:
    """Assemble the bundles of the cells that the action names, and evaluate all tasks."""
    from weft.bundle.load import load
    from weft.config.run_file import load_tasks
    from weft.utils.devices import device_of
    from weft.workflows.assemble import assemble as assemble_bundles

    folder = job.run_folder
    shutil.rmtree(folder, ignore_errors=True)
    wanted = job.action["assemble"]
    settings = (
        {key: value for key, value in wanted.items() if key != "from"} if isinstance(wanted, dict) else {}
    )
    began = time.perf_counter()
    assembled = assemble_bundles(job.needs, folder / "bundle", **settings)
    seconds = time.perf_counter() - began
    for note in assembled.notes:
        report.say(note)
    model = load(folder / "bundle", device=str(device_of(job.device)))
    tasks = tuple(task for need in job.needs for task in load_tasks(need))
    outcome = reported(model, tasks, job.report, report)
    outcome.settings = {"assemble": wanted}
    outcome.parameters = parameters_of(model)
    outcome.seconds = {"train": round(seconds, 2)}
    return outcome
