"""`weft check`: a run's file, all its data, and what it will take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from weft.config.run_file import RunFile
    from weft.data.checks.report import Report
    from weft.training.estimate.estimate import Estimate


def check(
    source: Annotated[str, typer.Argument(metavar="RUN.yaml", help="a run file, or a preset by name")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="key=value", help="such as train.steps=500")
    ] = None,
    estimate: Annotated[
        bool, typer.Option(help="run a few batches, and say what memory and time the run will take")
    ] = True,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """Look at a run's file and all its data before anything is trained, and at what it will take."""
    from weft.config import load_run
    from weft.data.checks.check import check as check_data
    from weft.data.checks.report import Finding
    from weft.encoder.load import load_tokenizer

    run_file = load_run(source, overrides or [])
    tokenizer = load_tokenizer(run_file.encoder)
    report = check_data(run_file.tasks, tokenizer, run_file.training.max_length, progress=True)
    report.findings[:0] = [
        *(Finding("note", "tasks", None, None, None, None, None, note) for note in run_file.notes),
        *(Finding("warning", "tasks", None, None, None, None, None, text) for text in run_file.warnings),
    ]
    taken = _estimate(run_file, report, device) if estimate and report.ok and tokenizer is not None else None
    if as_json:
        print(json.dumps({**report.as_dict(), "estimate": None if taken is None else taken.as_dict()}))
    else:
        print("\n".join(report.lines()))
        if taken is not None:
            print("\n".join(taken.lines()))
    if not report.ok:
        raise typer.Exit(2)


def _estimate(run_file: RunFile, report: Report, device: str | None) -> Estimate:
    """What the run will take, by a few real batches."""
    from weft.bundle.load import find_bundle
    from weft.cli.devices import device_of
    from weft.config.build import model_of
    from weft.methods.ranked import l0_of
    from weft.training.estimate.estimate import estimate
    from weft.training.run.plan import plan_of
    from weft.training.run.run import check_model

    model = model_of(run_file).to(device_of(device))
    if run_file.start is not None:
        find_bundle(run_file.start)
    names = [task.name for task in run_file.tasks]
    train = [report.tokens[name, "train"] for name in names]
    check_model(model, run_file.training, names, [len(tokens) for tokens in train])
    found = l0_of(run_file.method)
    plan = plan_of(
        run_file.training,
        names,
        [len(tokens) for tokens in train],
        [tokens.lengths for tokens in train],
        0 if found is None else found.steps,
    )
    validation = {name: tokens for (name, split), tokens in report.tokens.items() if split == "validation"}
    return estimate(model, run_file.training, plan, train, validation)
