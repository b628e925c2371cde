"""Reading the windows of a run's log: the draws between two evaluations, and the increase of the score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean
from weft.evaluation.scores import main_score
from weft.utils.safe_json import parse_json
from weft.utils.safe_yaml import read_yaml

if TYPE_CHECKING:
    from weft.analysis.policy import Window

SHORTFALL = 0.05
"""The share of a window's examples that short batches may lack, if the log does not count draws."""


@dataclass(frozen=True)
class RunWindows:
    """The windows of one run.

    Attributes:
        folder: the run's folder.
        tasks: its tasks, sorted by name, [T].
        windows: the windows with a reward, in order; arrays are in the order of `tasks`.
        notes: the parts of the log that could not be used.
    """

    folder: str
    tasks: tuple[str, ...]
    windows: tuple[Window, ...]
    notes: tuple[str, ...]


def read_windows(folder: Path, reward: str = "average", skip: int = 0, number: int = 0) -> RunWindows:
    """Read the windows of a run; an error says what the log lacks and how to make a suitable one.

    Args:
        folder: the run's folder.
        reward: whose score is the reward: `average`, or a task's name.
        skip: the number of windows to leave out at the start.
        number: the value of `Window.run`.
    """
    train = _train(folder)
    events = _evaluations(folder)
    _check_windows(folder, events, {"steps", "examples"})
    tasks = tuple(sorted(events[0]["window"]["examples"]))
    _check_sampler(folder, train.get("sampler"), tasks)
    _check_windows(folder, events, {"share"})  # a sampler without shares was refused above
    if reward != "average" and reward not in tasks:
        raise WeftError(f"--reward {reward!r}: {did_you_mean(reward, ['average', *tasks])}")
    windows, notes = [], []
    for before, after in zip(events[skip:], events[skip + 1 :], strict=False):
        try:
            window = _window(folder, before, after, tasks, reward, train, number)
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            raise WeftError(
                f"{folder}: the evaluation after step {after.get('step')} is not in the form that a run "
                "writes: "
                f"{wrong!r}. Make a new log: " + again(folder)
            ) from None
        if isinstance(window, str):
            notes.append(f"{folder}: the window before step {after.get('step')} is left out: {window}")
        else:
            windows.append(window)
    if len(windows) < 2:
        raise WeftError(
            f"{folder}: {len(windows)} window{'s' * (len(windows) != 1)} with a reward, of {len(events)} "
            "evaluations; expected at least two windows, each between two evaluations. Evaluate more often: "
            + again(folder)
        )
    return RunWindows(str(folder), tasks, tuple(windows), tuple(notes))


def again(folder: Path, changes: str = "") -> str:
    """The command that makes a suitable log."""
    file = folder / "run.yaml"
    name = file if file.is_file() else "RUN.yaml"
    return f"weft train {name} train.sampler=uniform train.evaluate_every=100{changes} --out {folder}-uniform"


def _train(folder: Path) -> dict[str, Any]:
    """The `train` section of the run."""
    path = folder / "run.yaml"
    if not path.is_file():
        raise WeftError(
            f"{folder} holds no run: run.yaml is missing; expected the folder of a run, as made by: "
            + again(folder)
        )
    contents = read_yaml(path)
    train = contents.get("train") if isinstance(contents, dict) else None
    if not isinstance(train, dict):
        raise WeftError(f"{path}: train: found {train!r}; expected the settings that a run writes")
    return train


def _evaluations(folder: Path) -> list[dict[str, Any]]:
    """The log's evaluations, at least one."""
    path = folder / "log.jsonl"
    if not path.is_file():
        raise WeftError(f"{folder}: log.jsonl is missing; make a log with: " + again(folder))
    evaluations = []
    # a damaged byte makes its line unreadable, which is reported with the line's number
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            event = parse_json(line)
        except ValueError:
            if number == len(lines):
                break  # an interrupted run may leave half a line
            raise WeftError(f"{path}, line {number}: this is not JSON; a run writes the log") from None
        if isinstance(event, dict) and event.get("event") == "evaluation":
            evaluations.append(event)
    if not evaluations:
        raise WeftError(
            f"{path} has no evaluation, and therefore no reward; train with train.evaluate_every set: "
            + again(folder)
        )
    return evaluations


def _check_windows(folder: Path, events: Sequence[dict[str, Any]], keys: set[str]) -> None:
    """Check that every evaluation has a window with these keys."""
    for event in events:
        window = event.get("window")
        if not isinstance(window, dict) or not keys <= set(window):
            raise WeftError(
                f"{folder}: the evaluation after step {event.get('step')} has no window, which records what "
                "was sampled before it: an earlier version of weft made the run. Make a new log: "
                + again(folder)
            )


def _check_sampler(folder: Path, spec: object, tasks: Sequence[str]) -> None:
    """Refuse a sampler that is not random: its log says nothing about other policies."""
    import numpy as np

    from weft.sampling import build_sampler
    from weft.sampling.plan.choice import Chance

    sampler = build_sampler(spec)
    prefix = f"{folder}: the run's sampler is {sampler.name}, "
    if sampler.chooses:
        raise WeftError(
            f"{prefix}which chooses by the model's weights: the probabilities of its draws are unknown, "
            "and without them a different policy cannot be evaluated. Make a log with a random sampler: "
            + again(folder)
        )
    segments = sampler.segments(np.ones(len(tasks), np.int64), 1, tasks)
    if not all(isinstance(segment.choice, Chance) for segment in segments):
        raise WeftError(
            f"{prefix}by which tasks take turns: its choice is not random, and without randomness a "
            "different "
            "policy cannot be evaluated. Make a log with a random sampler: " + again(folder)
        )


def _window(
    folder: Path,
    before: dict[str, Any],
    after: dict[str, Any],
    tasks: Sequence[str],
    reward: str,
    train: dict[str, Any],
    number: int,
) -> Window | str:
    """Return a window, or the reason why it cannot be used."""
    import numpy as np

    from weft.analysis.policy import Window

    window = after["window"]
    if sorted(window["share"]) != list(tasks):
        raise WeftError(
            f"{folder}: the window before step {after['step']} has the tasks "
            f"{', '.join(sorted(window['share']))}; the first has {', '.join(tasks)}; expected the same"
        )
    share = np.array([float(window["share"][task]) for task in tasks])
    steps = int(window["steps"])
    never = [task for task, p in zip(tasks, share.tolist(), strict=True) if not p > 0]
    rise = _score(after, reward) - _score(before, reward)
    if steps < 1:
        return "it has no step"
    if never:
        return f"{', '.join(never)} could not be sampled in it"
    if not math.isfinite(rise):
        return "a score before or after it is not a number"
    return Window(steps, np.array(_draws(folder, after, tasks, steps, train)), share, rise, number)


def _score(event: dict[str, Any], reward: str) -> float:
    """The average, or the score of a task, by which runs choose their best weights."""
    return float(event["average"] if reward == "average" else main_score(event["tasks"][reward]))


def _draws(
    folder: Path, event: dict[str, Any], tasks: Sequence[str], steps: int, train: dict[str, Any]
) -> list[float]:
    """How often each task was sampled: per example in mixed batches, else per step."""
    window = event["window"]
    if "draws" in window:
        return [float(window["draws"].get(task, 0)) for task in tasks]
    examples = [float(window["examples"].get(task, 0)) for task in tasks]
    if train.get("mixed"):
        return examples
    whole = steps * int(train.get("batch_size", 1))
    if abs(sum(examples) - whole) > SHORTFALL * whole:
        raise WeftError(
            f"{folder}: the {steps} steps before step {event['step']} had {sum(examples):.0f} examples of "
            f"{whole}: many batches were short, and the log does not say how often each task was sampled. "
            "Make "
            "a log of mixed batches: " + again(folder, " train.mixed=true")
        )
    return [count * steps / whole for count in examples]
