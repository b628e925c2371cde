"""A policy over tasks from the logs of runs, with what should keep people from trusting it too much."""

from __future__ import annotations

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
        settings: what it was learned with.
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
        """What of the logs could not be used."""
        return [note for run in self.runs for note in run.notes]

    @property
    def doubts(self) -> list[str]:
        """What should keep people from trusting the policy more than the logs allow."""
        judged = self.learned.held_out or self.learned.gain
        if judged.value >= 2 * judged.error and judged.value != 0:
            return []
        return [
            "the logs do not show that the learned policy is better: its gain is within two standard errors "
            "of none; more runs or more evaluations would tell"
        ]

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-able; rewards are per step, in shares of 1, as in the log."""
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

        from weft.utils.files import write_json, write_text

        source = {"runs": [run.folder for run in self.runs], "windows": self.learned.windows}
        content = {"policy": self.policy, "learned": {**source, **self.settings}}
        if out.suffix.lower() == ".json":
            write_json(out, content)
        else:
            write_text(out, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))

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
    """Learn a policy from the logs of runs that drew their tasks by chance; see `weft.analysis.policy`.

    Args:
        folders: the runs' folders, each once.
        reward: `average`, or the task whose score's rise is the reward.
        caution: a task that is this many standard errors better than others becomes e times as likely.
        clip: no task becomes more than this many times as likely as it was.
        floor: the least probability of a task; None: 0.1 / number of tasks.
        skip: how many windows at the start of each run are left out.
    """
    places = [folder.resolve() for folder in folders]
    if len(set(places)) < len(places):
        twice = next(folder for folder, place in zip(folders, places, strict=True) if places.count(place) > 1)
        raise WeftError(f"{twice} is given twice: its windows would count double")
    from weft.analysis.policy import learn_policy

    runs = tuple(read_windows(folder, reward, skip, number) for number, folder in enumerate(folders))
    _check_tasks(runs)
    windows = [window for run in runs for window in run.windows]
    settings = {"reward": reward, "caution": caution, "clip": clip, "floor": floor, "skip": skip}
    return RunsPolicy(runs, learn_policy(windows, caution, clip, floor), settings)


def rounded(tasks: Sequence[str], probabilities: Sequence[float]) -> dict[str, float]:
    """The policy with six decimals; the largest takes the rounding error, so that the sum is 1."""
    found = {task: round(p, 6) for task, p in zip(tasks, probabilities, strict=True)}
    largest = max(found, key=lambda task: found[task])
    found[largest] = round(found[largest] + 1 - sum(found.values()), 6)
    return found


def _both(one: Estimate | None) -> dict[str, float] | None:
    return None if one is None else {"value": one.value, "error": one.error}


def _check_tasks(runs: Sequence[RunWindows]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.tasks != first.tasks:
            other = ", ".join(sorted(set(run.tasks) ^ set(first.tasks)))
            raise WeftError(
                f"{run.folder} and {first.folder} do not have the same tasks: {other} in only one of them; a "
                f"policy is over the tasks of all runs. Learn one from each: weft policy {first.folder}"
            )
