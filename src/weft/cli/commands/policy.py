"""`weft policy`: a fixed policy over tasks, learned from the logs of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Json
from weft.cli.output import print_json, print_notes, print_table, print_written
from weft.cli.paths import check_place
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.analysis.policy import Estimate
    from weft.analysis.policy_of_runs import RunsPolicy

UNIT = 100 * 1000
"""Rewards are printed in points of a percent over 1,000 steps."""


def policy(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="folders of runs with a random sampler")
    ],
    reward: Annotated[
        str,
        typer.Option(metavar="average|TASK", help="reward: the rise of this score between evaluations"),
    ] = "average",
    caution: Annotated[
        float,
        typer.Option(help="a task this many standard errors better than others becomes e times as likely"),
    ] = 2.0,
    clip: Annotated[
        float, typer.Option(help="no task becomes more than this many times as likely as it was")
    ] = 4.0,
    floor: Annotated[
        float | None, typer.Option(help="the least probability of a task; default: 0.1 / number of tasks")
    ] = None,
    skip: Annotated[int, typer.Option(min=0, help="leave out this many windows of each run")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="policy.yaml", help="write the policy to this file"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from logged rewards how often to draw each task (Glover and Hokamp's counterfactual policy).

    The runs must have drawn their tasks by chance and been evaluated often; several may be given together.
    """
    from weft.analysis.policy_of_runs import SUFFIXES, policy_of_runs

    check_place("--out", out)
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise WeftError(f"--out {out}: expected a name that ends in {', '.join(SUFFIXES)}")
    done = policy_of_runs(folders, reward, caution, clip, floor, skip)
    print_notes(done.notes)
    # the file first: a reader of the pipe may leave before all is printed
    if out is not None:
        done.write(out)
    if as_json:
        print_json(done.as_dict())
    else:
        _print(done, reward)
    print_notes(done.doubts)
    print_written(out, as_json)
    if out is not None:
        where = sys.stderr if as_json else sys.stdout
        print(f"next: weft train RUN.yaml train.sampler='{{use: counterfactual, policy: {out}}}'", file=where)


def _print(done: RunsPolicy, reward: str) -> None:
    learned, runs = done.learned, done.runs
    rows: list[list[object]] = [
        [task, f"{100 * p:.1f}%", f"{UNIT * q:+.2f}", f"{UNIT * e:.2f}", f"{100 * pi:.1f}%"]
        for task, p, q, e, pi in zip(
            done.tasks,
            learned.logging.tolist(),
            learned.values.tolist(),
            learned.errors.tolist(),
            learned.policy.tolist(),
            strict=True,
        )
    ]
    print(
        f"{learned.windows} windows of {len(runs)} run{'s' * (len(runs) > 1)}; reward: what "
        f"{'the average score' if reward == 'average' else 'the score of ' + reward} rises by, in points per "
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
