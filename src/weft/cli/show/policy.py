"""`weft policy`: a fixed policy over tasks, learned from the logs of runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.paths import check_place
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.analysis.policy import Estimate, Learned
    from weft.cli.show.run_windows import RunWindows

SUFFIXES = (".yaml", ".yml", ".json")
UNIT = 100 * 1000
"""Rewards are printed in points of a percent over 1,000 steps."""


def policy(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="folders of runs with a random sampler")
    ],
    reward: Annotated[
        str,
        typer.Option(metavar="average|TASK", help="whose rise from evaluation to evaluation is the reward"),
    ] = "average",
    caution: Annotated[
        float,
        typer.Option(help="a task so many standard errors better than others becomes e times as likely"),
    ] = 2.0,
    clip: Annotated[
        float, typer.Option(help="no task becomes more than so many times as likely as it was")
    ] = 4.0,
    floor: Annotated[
        float | None, typer.Option(help="the least probability of a task; default: 0.1 / number of tasks")
    ] = None,
    skip: Annotated[int, typer.Option(min=0, help="leave out so many windows at the start of each run")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="policy.yaml", help="write the policy here, for the sampler")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """Learn from logged rewards how often to draw each task (Glover and Hokamp's counterfactual policy).

    The runs must have drawn their tasks by chance and been evaluated often; several may be given together.
    """
    check_place("--out", out)
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise WeftError(f"--out {out}: expected a name that ends in {', '.join(SUFFIXES)}")
    places = [folder.resolve() for folder in folders]
    if len(set(places)) < len(places):
        twice = next(folder for folder, place in zip(folders, places, strict=True) if places.count(place) > 1)
        raise WeftError(f"{twice} is given twice: its windows would count double")
    from weft.analysis.policy import learn_policy
    from weft.cli.show.run_windows import read_windows

    runs = [read_windows(folder, reward, skip, number) for number, folder in enumerate(folders)]
    _check_tasks(runs)
    tasks = runs[0].tasks
    windows = [window for run in runs for window in run.windows]
    learned = learn_policy(windows, caution, clip, floor)
    chosen = rounded(tasks, learned.policy.tolist())
    said = {"reward": reward, "caution": caution, "clip": clip, "floor": floor, "skip": skip}
    for note in (note for run in runs for note in run.notes):
        print(f"note: {note}", file=sys.stderr)
    # the file first: a reader of the pipe may leave before all is printed
    if out is not None:
        _write(out, chosen, {"runs": [run.folder for run in runs], "windows": len(windows), **said})
    if as_json:
        print(json.dumps({**_as_dict(tasks, runs, learned), "policy": chosen, "settings": said}))
    else:
        _print(tasks, runs, learned, reward)
    for note in _doubts(learned):
        print(f"note: {note}", file=sys.stderr)
    if out is not None:
        where = sys.stderr if as_json else sys.stdout
        print(f"written: {out}", file=where)
        print(f"next: weft train RUN.yaml train.sampler='{{use: counterfactual, policy: {out}}}'", file=where)


def rounded(tasks: Sequence[str], probabilities: Sequence[float]) -> dict[str, float]:
    """The policy with six decimals; what rounding takes or adds, the largest bears, so that the sum is 1."""
    found = {task: round(p, 6) for task, p in zip(tasks, probabilities, strict=True)}
    largest = max(found, key=lambda task: found[task])
    found[largest] = round(found[largest] + 1 - sum(found.values()), 6)
    return found


def _check_tasks(runs: Sequence[RunWindows]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.tasks != first.tasks:
            other = ", ".join(sorted(set(run.tasks) ^ set(first.tasks)))
            raise WeftError(
                f"{run.folder} and {first.folder} do not have the same tasks: {other} in only one of them; a "
                f"policy is over the tasks of all runs. Learn one from each: weft policy {first.folder}"
            )


def _write(out: Path, chosen: dict[str, float], learned: dict[str, Any]) -> None:
    import yaml

    from weft.utils.files import write_json, write_text

    said = {"policy": chosen, "learned": learned}
    if out.suffix.lower() == ".json":
        write_json(out, said)
    else:
        write_text(out, yaml.safe_dump(said, sort_keys=False, allow_unicode=True))


def _doubts(learned: Learned) -> list[str]:
    """What should keep people from trusting the policy more than the logs allow."""
    judged = learned.held_out or learned.gain
    found = []
    if judged.value < 2 * judged.error or judged.value == 0:
        found.append(
            "the logs do not show that the learned policy is better: its gain is within two standard errors "
            "of none; more runs or more evaluations would tell"
        )
    return found


def _as_dict(tasks: Sequence[str], runs: Sequence[RunWindows], learned: Learned) -> dict[str, Any]:
    """Rewards are a step, in shares of 1, as in the log."""

    def both(one: Estimate | None) -> dict[str, float] | None:
        return None if one is None else {"value": one.value, "error": one.error}

    def by_task(values: list[float]) -> dict[str, float]:
        return dict(zip(tasks, values, strict=True))

    return {
        "runs": {run.folder: len(run.windows) for run in runs},
        "windows": learned.windows,
        "logging": by_task(learned.logging.tolist()),
        "values": by_task(learned.values.tolist()),
        "errors": by_task(learned.errors.tolist()),
        "observed": both(learned.observed),
        "estimated": both(learned.estimated),
        "gain": both(learned.gain),
        "held_out": both(learned.held_out),
        "effective": learned.effective,
    }


def _print(tasks: Sequence[str], runs: Sequence[RunWindows], learned: Learned, reward: str) -> None:
    from weft.cli.tables import print_table

    rows: list[list[object]] = [
        [task, f"{100 * p:.1f}%", f"{UNIT * q:+.2f}", f"{UNIT * e:.2f}", f"{100 * pi:.1f}%"]
        for task, p, q, e, pi in zip(
            tasks,
            learned.logging.tolist(),
            learned.values.tolist(),
            learned.errors.tolist(),
            learned.policy.tolist(),
            strict=True,
        )
    ]
    print(
        f"{learned.windows} windows of {len(runs)} run{'s' * (len(runs) > 1)}; reward: what "
        f"{'the average score' if reward == 'average' else 'the score of ' + reward} rises by, in points a "
        "1,000 steps"
    )
    print_table("", ["task", "logging", "value", "± error", "learned"], rows)
    print(f"observed, logging policy:   {_told(learned.observed)}")
    print(f"estimated, learned policy:  {_told(learned.estimated)}")
    print(f"gain:                       {_told(learned.gain)}")
    if learned.held_out is not None:
        print(f"gain, on held-out windows:  {_told(learned.held_out)}")
    print(f"effective sample size:      {learned.effective:.1f} of {learned.windows} windows")


def _told(one: Estimate) -> str:
    return f"{UNIT * one.value:+.2f} ± {UNIT * one.error:.2f}"
