"""Train with a task sampling that was learned from the log of another cell: `weft policy`.

```yaml
variants:
  random: {train.sampler: uniform}
  counterfactual: {policy_from: random}
```

The run with the same seed is the log. It must sample its tasks at random, and evaluate during training: the
reward is the rise of the average score from one evaluation to the next.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weft.experiments.actions import Outcome, Reporter
from weft.experiments.actions.train import trained
from weft.experiments.job import Job


def policy_from(job: Job, report: Reporter) -> Outcome:
    """Learn probabilities of tasks from the log of the cell that the action names, and train with them."""
    from weft.analysis.policy_of_runs import policy_of_runs

    policy = policy_of_runs([Path(folder) for folder in job.needs]).policy
    shares = ", ".join(f"{task} {share:.3f}" for task, share in policy.items())
    report.say(f"learned probabilities of tasks: {shares}")
    sampler = {"use": "counterfactual", "policy": policy}
    raw = {**job.raw, "train": {**job.raw.get("train", {}), "sampler": sampler}}
    return trained(job, report, replace(job, raw=raw).run_file())
