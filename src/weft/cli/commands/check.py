"""`weft check`: check a run file and its data, and estimate memory and time."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import Device, Json, Overrides, RunFileArgument
from weft.cli.output import print_json, print_text


def check(
    source: RunFileArgument,
    overrides: Overrides = None,
    estimate: Annotated[
        bool, typer.Option(help="run a few batches to estimate the memory and time that training will take")
    ] = True,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Check a run file and all its data before training.

    Prints errors, warnings and notes with file and row, the rows, labels and token lengths of each split, and
    an estimate of the memory and time that training will take. The exit code is 2 if there is an error.

    Example: weft check run.yaml train.batch_size=16
    """
    from weft.workflows.check import check as check_run

    report = check_run(source, overrides or [], estimate=estimate, device=device)
    if as_json:
        print_json(report.as_dict())
    else:
        print_text(report)
    if not report.ok:
        raise typer.Exit(2)
