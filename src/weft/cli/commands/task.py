"""`weft task`: add, retrain, remove or copy one task of a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.completion import among, starts
from weft.cli.options import BundleArgument, Device, EncoderOption, Json, Overrides, TaskArgument
from weft.cli.output import print_json, print_notes, print_text

if TYPE_CHECKING:
    from weft.config.task_file import Host, TaskFile

task = typer.Typer(
    help="Add, retrain, remove or copy one task of a trained model.\n\n"
    "Each command writes a bundle, new or in place of the old one. The files of other tasks do not change, "
    "except with `weft task add --only all`.\n\n"
    "Example: weft task add runs/first scitail.yaml --out bundles/five",
    no_args_is_help=True,
)

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="TASK.yaml", help="task file: YAML with the sections tasks (exactly one task), train and grow"
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="folder to write the new bundle to; the same folder as BUNDLE replaces it"
    ),
]
Fraction = Annotated[
    float | None,
    typer.Option(help="fraction of the training rows to use, above 0 and up to 1, such as 0.01; default: 1"),
]
Run = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="keep run.yaml, log.jsonl and metrics.json of the training in this folder; default: do not keep "
        "them",
    ),
]


@task.command()
def add(
    bundle: BundleArgument,
    file: FileArgument,
    out: Out,
    overrides: Overrides = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            autocompletion=among("task", "head", "all"),
            help="what to train: task (the parameters of the new task), head (its head), or all (everything "
            "that the method trains; outputs of other tasks then change); default: task",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="START",
            autocompletion=starts,
            help="initial values: the name of a task to copy, average (of all tasks), random, xavier, or "
            "auto (the best of all these); default: auto if the method represents a task by a vector or the "
            "file has a label_map, else random",
        ),
    ] = None,
    fraction: Fraction = None,
    run: Run = None,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Add a task to a trained model and train it.

    The files of all other tasks stay byte-identical, except with --only all.

    Example: weft task add runs/first scitail.yaml --out bundles/five
    """
    from weft.config.task_file import host_of

    host = host_of(bundle)
    flags = _flags(only=only, start=start, fraction=fraction)
    task_file = _read(host, out, file, [*(overrides or []), *flags])
    from weft.cli.commands.grown import print_grown, print_zero_shot
    from weft.growing.add import add_task
    from weft.utils.devices import device_of

    done = add_task(
        host.folder,
        task_file.task,
        out,
        training=task_file.training,
        grow=task_file.grow,
        encoder=encoder,
        device=device_of(device),
        run=run,
        resolved=task_file.resolved,
        tell=(lambda name, scores: None) if as_json else print_zero_shot,
    )
    print_grown(done, as_json)


@task.command()
def retrain(
    bundle: BundleArgument,
    name: TaskArgument,
    file: FileArgument,
    out: Out,
    overrides: Overrides = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            autocompletion=among("task", "head"),
            help="what to train: task (the parameters of this task), or head (its head); default: task",
        ),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="start from the method's initial values; default: from the trained values"
        ),
    ] = False,
    fraction: Fraction = None,
    run: Run = None,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train one task of a bundle again.

    The files of all other tasks stay byte-identical. If other tasks share the task's parameters, it is
    refused.

    Example: weft task retrain bundles/five scitail scitail.yaml --out bundles/new
    """
    from weft.config.task_file import host_of

    host = host_of(bundle, name)
    flags = _flags(only=only, fraction=fraction)
    task_file = _read(host, out, file, [*(overrides or []), *flags], again=name)
    from weft.cli.commands.grown import print_grown
    from weft.growing.retrain import retrain_task
    from weft.utils.devices import device_of

    done = retrain_task(
        host.folder,
        name,
        task_file.task,
        out,
        training=task_file.training,
        grow=task_file.grow,
        fresh=fresh,
        encoder=encoder,
        device=device_of(device),
        run=run,
        resolved=task_file.resolved,
    )
    print_grown(done, as_json)


@task.command()
def remove(bundle: BundleArgument, name: TaskArgument, out: Out, as_json: Json = False) -> None:
    """Remove a task from a bundle.

    The files of all other tasks stay byte-identical.

    Example: weft task remove bundles/five scitail --out bundles/four
    """
    from weft.bundle.one_task import remove_task

    _print(remove_task(bundle, name, out), f"removed task {name}", as_json)


@task.command()
def copy(
    source: Annotated[
        Path, typer.Argument(metavar="FROM", help="folder of the bundle or run that has the task")
    ],
    name: TaskArgument,
    target: Annotated[Path, typer.Argument(metavar="TO", help="folder of the bundle to copy the task to")],
    rename: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="name of the task in TO; default: the name it has"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="write a new bundle here and leave TO unchanged; default: change TO"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy a task from one bundle into another.

    Both bundles must have the same encoder, method and shared file.

    Example: weft task copy bundles/five scitail bundles/four --as science
    """
    from weft.bundle.copy_task import copy_task

    done = copy_task(source, name, target, rename=rename, out=out)
    _print(done, f"copied task {done.task}", as_json)


def _read(host: Host, out: Path, file: Path, overrides: list[str], again: str | None = None) -> TaskFile:
    """Read the task file, after a check that `out` can be written."""
    from weft.bundle.one_task import check_out
    from weft.config.task_file import load_task_file

    check_out(host.folder, out)
    return load_task_file(file, overrides, host, again=again)


def _flags(**options: Any) -> list[str]:
    """Turn options into overrides of the section `grow`, as JSON, in which a string stays a string."""
    return [f"grow.{key}={json.dumps(value)}" for key, value in options.items() if value is not None]


def _print(done: Any, headline: str, as_json: bool) -> None:
    from weft.cli.commands.grown import print_unchanged

    print_notes(done.notes)
    if as_json:
        print_json(done.as_dict())
        return
    print_unchanged(done.unchanged)
    print_text(f"{headline}; bundle: {done.folder}")
