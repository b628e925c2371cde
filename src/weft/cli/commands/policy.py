"""`weft policy`: learn sampling probabilities of the tasks from the logs of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Json
from weft.cli.output import print_json, print_notes, print_table, print_text, print_written
from weft.cli.paths import check_place
from weft.errors import WeftError
from weft.utils.notes import is_quiet

if TYPE_CHECKING:
    from weft.analysis.policy import Estimate
    from weft.analysis.policy_of_runs import RunsPolicy

UNIT = 100 * 1000
"""Rewards are printed in percentage points per 1,000 steps."""


def policy(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="folders of runs that sampled their tasks at random"),
    ],
    reward: Annotated[
        str,
        typer.Option(
            metavar="average|TASK",
            help="score whose gain from one evaluation to the next is the reward: average, or a task's name",
        ),
    ] = "average",
    caution: Annotated[
        float,
        typer.Option(
            help="how far to trust the estimates: a task whose value is this many standard errors better "
            "becomes e = 2.7 times as likely; larger values change the probabilities less"
        ),
    ] = 2.0,
    clip: Annotated[
        float,
        typer.Option(help="no task becomes more than this many times as likely as in the runs"),
    ] = 4.0,
    floor: Annotated[
        float | None,
        typer.Option(help="smallest probability of a task; default: 0.1 divided by the number of tasks"),
    ] = None,
    skip: Annotated[
        int,
        typer.Option(
            min=0, help="leave out this many windows (from one evaluation to the next) at the start of a run"
        ),
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="policy.yaml", help="write the probabilities to this file; default: only print them"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from past runs how often to sample each task.

    The result is one probability per task for the sampler `counterfactual` (Glover and Hokamp). The runs must
    have sampled their tasks at random and been evaluated often. Several runs are used together.

    Example: weft policy runs/a runs/b --out policy.yaml
    """
    from weft.analysis.policy_of_runs import SUFFIXES, policy_of_runs

    check_place("--out", out)
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise WeftError(f"--out {out}: expected a name that ends in {', '.join(SUFFIXES)}")
    done = policy_of_runs(folders, reward, caution, clip, floor, skip)
    print_notes(done.notes)
    # the file first: the reader of a pipe may close it before everything is printed
    if out is not None:
        done.write(out)
    if as_json:
        print_json(done.as_dict())
    else:
        _print(done, reward)
    print_notes(done.doubts)
    print_written(out, as_json)
    if out is not None and not is_quiet():
        where = sys.stderr if as_json else sys.stdout
        print_text(f"next: weft train RUN.yaml train.sampler='{{use: counterfactual, policy: {out}}}'", where)


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
        f"{learned.windows} windows (from one evaluation to the next) of {len(runs)} "
        f"run{'s' * (len(runs) > 1)}; reward: gain of "
        f"{'the average score' if reward == 'average' else 'the score of ' + reward}, in percentage points "
        "per 1,000 steps"
    )
    print_table("", ["task", "share in the runs", "gain", "± error", "learned share"], rows)
    print(f"observed, logging policy:   {_with_error(learned.observed)}")
    print(f"estimated, learned policy:  {_with_error(learned.estimated)}")
    print(f"gain:                       {_with_error(learned.gain)}")
    if learned.held_out is not None:
        print(f"gain, on held-out windows:  {_with_error(learned.held_out)}")
    print(f"effective sample size:      {learned.effective:.1f} of {learned.windows} windows")


def _with_error(estimate: Estimate) -> str:
    return f"{UNIT * estimate.value:+.2f} ± {UNIT * estimate.error:.2f}"
