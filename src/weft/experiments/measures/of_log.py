"""Measures that follow from the log of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import RunFailed
from weft.utils.safe_json import parse_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOG = "log.jsonl"
WINDOW = 50
"""The number of steps that counts of chosen examples are averaged over, before their first peak is found."""
STEADY_AFTER = 500
"""The steps at the start of a run that say nothing about its speed: code is compiled and captured there."""
STEADY_SHARE = 0.25
"""The share of a run that is left out at its start, if that is fewer steps than `STEADY_AFTER`."""
PER = 1000
"""The number of steps whose seconds are the speed."""

Value = float | dict[str, float]
"""A number; or numbers by task, by pair of tasks or by site."""


def events_of(log: Path) -> Iterator[dict[str, Any]]:
    """The lines of the log of a run.

    Args:
        log: the file.
    """
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                event = parse_json(line)
            except json.JSONDecodeError:
                continue  # the last line of a killed run
            if isinstance(event, dict):
                yield event


def data_used(folder: Path) -> dict[str, Value]:
    """The share of the training rows that the run has seen."""
    shares = [event["data_used"] for event in events_of(folder / LOG) if "data_used" in event]
    if not shares:
        raise RunFailed(f"{folder / LOG}: no line has data_used; the run has not ended")
    return {"data_used": 100.0 * float(shares[-1])}


def composition(folder: Path) -> dict[str, Value]:
    """The share of each task among all examples that were trained on; those that MT-Uncertainty chose."""
    counts: dict[str, float] = {}
    for event in events_of(folder / LOG):
        for task, count in event.get("window", {}).get("examples", {}).items():
            counts[task] = counts.get(task, 0.0) + count
    total = sum(counts.values())
    return {"composition": {task: 100 * count / total for task, count in counts.items()}} if total else {}


def uncertainty(folder: Path) -> dict[str, Value]:
    """The mean entropy of each task over the lines `uncertainty` of the log."""
    lines = [event["entropy"] for event in events_of(folder / LOG) if event.get("event") == "uncertainty"]
    if not lines:
        raise RunFailed(f"{folder / LOG}: no line is of uncertainty; expected train.measure_uncertainty")
    tasks = lines[-1]
    return {"uncertainty": {task: sum(line[task] for line in lines) / len(lines) for task in tasks}}


def speed(folder: Path) -> dict[str, Value]:
    """The seconds per 1,000 steps of the steady state, without evaluations; {}: the run is too short.

    What is timed is what lies between two lines `step` that have the same engine at work: not the first 500
    steps (of a shorter run, its first quarter), not what follows a resumption or the decision of gates, after
    which code is compiled and captured again, until the next line.
    """
    events = [
        event
        for event in events_of(folder / LOG)
        if event.get("event") in ("start", "step", "resume", "gates")
    ]
    total = max((int(event["step"]) for event in events if event["event"] == "step"), default=0)
    first = min(STEADY_AFTER, STEADY_SHARE * total)
    before: tuple[int, float] | None = None
    steps, seconds = 0, 0.0
    for event in events:
        if event["event"] != "step":
            before = None
            continue
        # logs of earlier versions have the seconds of the run alone, with evaluations
        here = int(event["step"]), float(event.get("step_seconds", event["seconds"]))
        if here[0] < first:
            continue
        if before is not None:
            steps, seconds = steps + here[0] - before[0], seconds + here[1] - before[1]
        before = here
    return {"speed": PER * seconds / steps} if steps else {}


def examples_per_second(folder: Path) -> dict[str, Value]:
    """The examples per second of all steps, those at the start too; {}: the run took no step."""
    values = [event["examples_per_second"] for event in events_of(folder / LOG) if _has_speed(event)]
    return {"examples_per_second": float(values[-1])} if values else {}


def _has_speed(event: dict[str, Any]) -> bool:
    return event.get("event") == "end" and event.get("examples_per_second") is not None


def sparsity(folder: Path) -> dict[str, Value]:
    """What L0 gates have kept of the components: weights and biases in percent, and numbers by site."""
    lines = [event for event in events_of(folder / LOG) if event.get("event") == "gates"]
    if not lines:
        raise RunFailed(f"{folder / LOG}: no line is of gates; expected a method with l0, such as morris")
    kept = lines[-1]
    values: dict[str, Value] = {
        f"{what}_kept": 100.0 * count / total for what, (count, total) in kept["all"].items() if total
    }
    by_site = {
        f"{site} {what}": float(count)
        for site, counts in kept["sites"].items()
        for what, (count, total) in counts.items()
        if total
    }
    return {**values, "components_kept": by_site}


def first_peak(folder: Path) -> dict[str, Value]:
    """The first peak of the number of chosen examples of each task; see `peak_of`."""
    import numpy as np

    from weft.config import load_run

    names = [task.name for task in load_run(folder / "run.yaml").tasks]
    chosen = [event["task"] for event in events_of(folder / LOG) if event.get("event") == "chosen"]
    if not chosen:
        raise RunFailed(f"{folder / LOG}: no line is of chosen examples; expected sampler mt_uncertainty")
    counts = np.array([np.bincount(line, minlength=len(names)) for line in chosen], float)  # [steps, T]
    return {
        "first_peak": {
            name: float(peak_of(counts[:, t])) for t, name in enumerate(names) if counts[:, t].any()
        }
    }


def peak_of(counts: NDArray[Any], window: int = WINDOW) -> int:
    """The first step at which smoothed counts are above their mean, and highest within a window.

    Args:
        counts: the examples of one task in each step, [steps].
        window: the length of the moving average, and of the neighbourhood.
    """
    import numpy as np

    width = min(window, max(1, len(counts) // 4))
    smooth = np.convolve(
        np.pad(counts, (width // 2, width - 1 - width // 2), "edge"), np.ones(width), "valid"
    )
    smooth /= width
    high = smooth > smooth.mean()
    for step in np.flatnonzero(high):
        around = smooth[max(0, step - width) : step + width + 1]
        if smooth[step] >= around.max():
            return int(step)
    return int(smooth.argmax())
