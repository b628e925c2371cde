"""Learning a policy over tasks from the logs of runs, with its limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.analysis.run_windows import RunWindows, read_windows
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.analysis.policy import Estimate, Learned

SUFFIXES = (".yaml", ".yml", ".json")
"""The formats that a policy can be written in."""


@dataclass(frozen=True)
class RunsPolicy:
    """A policy learned from runs.

    Attributes:
        runs: the windows of each run.
        learned: the policy and the evidence for it.
        settings: the settings of the estimation.
    """

    runs: tuple[RunWindows, ...]
    learned: Learned
    settings: dict[str, Any]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order of the arrays of `learned`."""
        return self.runs[0].tasks

    @property
    def policy(self) -> dict[str, float]:
        """The probability of each task, as the sampler `counterfactual` takes it."""
        return rounded(self.tasks, self.learned.policy.tolist())

    @property
    def notes(self) -> list[str]:
        """The parts of the logs that could not be used."""
        return [note for run in self.runs for note in run.notes]

    @property
    def doubts(self) -> list[str]:
        """Warnings if the logs do not support the policy."""
        judged = self.learned.held_out or self.learned.gain
        if judged.value >= 2 * judged.error and judged.value != 0:
            return []
        return [
            "the logs do not show that the learned policy is better: its gain is within two standard errors "
            "of zero; log more runs or more evaluations"
        ]

    def as_dict(self) -> dict[str, Any]:
        """All fields as JSON values; rewards are per step, on the scale of the log (0 to 1)."""
        learned = self.learned
        return {
            "runs": {run.folder: len(run.windows) for run in self.runs},
            "windows": learned.windows,
            "logging": self._by_task(learned.logging.tolist()),
            "values": self._by_task(learned.values.tolist()),
            "errors": self._by_task(learned.errors.tolist()),
            "observed": _both(learned.observed),
            "estimated": _both(learned.estimated),
            "gain": _both(learned.gain),
            "held_out": _both(learned.held_out),
            "effective": learned.effective,
            "policy": self.policy,
            "settings": self.settings,
        }

    def write(self, out: Path) -> None:
        """Write the policy as YAML or JSON, by the file's ending, for the sampler to read."""
        import yaml

        from weft.utils.files import write_output

        source = {"runs": [run.folder for run in self.runs], "windows": self.learned.windows}
        content = {"policy": self.policy, "learned": {**source, **self.settings}}
        if out.suffix.lower() == ".json":
            write_output(out, json.dumps(content, indent=1) + "\n")
        else:
            write_output(out, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))

    def _by_task(self, values: list[float]) -> dict[str, float]:
        return dict(zip(self.tasks, values, strict=True))


def policy_of_runs(
    folders: Sequence[Path],
    reward: str = "average",
    caution: float = 2.0,
    clip: float = 4.0,
    floor: float | None = None,
    skip: int = 0,
) -> RunsPolicy:
    """Learn a policy from the logs of runs that sampled their tasks at random; see `weft.analysis.policy`.

    Args:
        folders: the run folders, each once.
        reward: `average`, or the task whose increase in score is the reward.
        caution: a task that is this many standard errors better than others becomes e times as likely.
        clip: the maximum factor by which a task becomes more likely.
        floor: the minimum probability of a task; None: 0.1 / number of tasks.
        skip: the number of windows to leave out at the start of each run.
    """
    paths = [folder.resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        twice = next(folder for folder, path in zip(folders, paths, strict=True) if paths.count(path) > 1)
        raise WeftError(f"{twice} is listed twice: its windows would count double")
    from weft.analysis.policy import learn_policy

    runs = tuple(read_windows(folder, reward, skip, number) for number, folder in enumerate(folders))
    _check_tasks(runs)
    windows = [window for run in runs for window in run.windows]
    settings = {"reward": reward, "caution": caution, "clip": clip, "floor": floor, "skip": skip}
    return RunsPolicy(runs, learn_policy(windows, caution, clip, floor), settings)


def rounded(tasks: Sequence[str], probabilities: Sequence[float]) -> dict[str, float]:
    """The policy with six decimals; the largest takes the rounding error, so that the sum is 1."""
    policy = {task: round(p, 6) for task, p in zip(tasks, probabilities, strict=True)}
    largest = max(policy, key=lambda task: policy[task])
    policy[largest] = round(policy[largest] + 1 - sum(policy.values()), 6)
    return policy


def _both(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else {"value": estimate.value, "error": estimate.error}


def _check_tasks(runs: Sequence[RunWindows]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.tasks != first.tasks:
            different = ", ".join(sorted(set(run.tasks) ^ set(first.tasks)))
            raise WeftError(
                f"{run.folder} and {first.folder} do not have the same tasks: {different} in only one of "
                "them; a "
                f"policy is over the tasks of all runs. Learn one from each: weft policy {first.folder}"
            )
