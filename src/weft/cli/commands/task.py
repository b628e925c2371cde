"""`weft task`: a task more, a task less, a task trained again, a task from another bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.options import BundleArgument, Device, EncoderOption, Json, Overrides, TaskArgument
from weft.cli.output import print_json, print_notes

if TYPE_CHECKING:
    from weft.config.task_file import Host, TaskFile

task = typer.Typer(
    help="Add a task to a trained model, retrain, remove or copy one.",
    no_args_is_help=True,
)

FileArgument = Annotated[
    Path, typer.Argument(metavar="TASK.yaml", help="task file: the sections tasks (one task), train and grow")
]
Out = Annotated[
    Path,
    typer.Option(metavar="FOLDER", help="folder of the new bundle, or BUNDLE to replace it"),
]
Fraction = Annotated[float | None, typer.Option(help="fraction of the training rows to use, such as 0.01")]
Run = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="keep run.yaml, log.jsonl and metrics.json of the training here"),
]


@task.command()
def add(
    bundle: BundleArgument,
    file: FileArgument,
    out: Out,
    overrides: Overrides = None,
    only: Annotated[
        str | None, typer.Option(help="what to train: task (its own parameters; the default), head, or all")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="initialization: auto, average, random, xavier, or the name of a task"),
    ] = None,
    fraction: Fraction = None,
    run: Run = None,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Add a task to a trained model, and train it."""
    from weft.config.task_file import host_of

    host = host_of(bundle)
    flags = _flags(only=only, start=start, fraction=fraction)
    given = _read(host, out, file, [*(overrides or []), *flags])
    from weft.cli.commands.grown import print_zero_shot, tell
    from weft.growing.add import add_task
    from weft.utils.devices import device_of

    done = add_task(
        host.folder,
        given.task,
        out,
        training=given.training,
        grow=given.grow,
        encoder=encoder,
        device=device_of(device),
        run=run,
        resolved=given.resolved,
        tell=(lambda name, found: None) if as_json else print_zero_shot,
    )
    tell(done, as_json)


@task.command()
def retrain(
    bundle: BundleArgument,
    name: TaskArgument,
    file: FileArgument,
    out: Out,
    overrides: Overrides = None,
    only: Annotated[
        str | None, typer.Option(help="what to train: task (its own parameters; the default), or head")
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="start from the method's initial values"),
    ] = False,
    fraction: Fraction = None,
    run: Run = None,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train a task of a bundle again; refused where other tasks use its parameters."""
    from weft.config.task_file import host_of

    host = host_of(bundle, name)
    flags = _flags(only=only, fraction=fraction)
    given = _read(host, out, file, [*(overrides or []), *flags], again=name)
    from weft.cli.commands.grown import tell
    from weft.growing.retrain import retrain_task
    from weft.utils.devices import device_of

    done = retrain_task(
        host.folder,
        name,
        given.task,
        out,
        training=given.training,
        grow=given.grow,
        fresh=fresh,
        encoder=encoder,
        device=device_of(device),
        run=run,
        resolved=given.resolved,
    )
    tell(done, as_json)


@task.command()
def remove(bundle: BundleArgument, name: TaskArgument, out: Out, as_json: Json = False) -> None:
    """Remove a task from a bundle; every other file stays as it is."""
    from weft.bundle.one_task import remove_task

    _tell(remove_task(bundle, name, out), f"{name} is out", as_json)


@task.command()
def copy(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="bundle or run that has the task")],
    name: TaskArgument,
    target: Annotated[Path, typer.Argument(metavar="TO", help="bundle to copy it to")],
    rename: Annotated[str | None, typer.Option("--as", metavar="NAME", help="name of the task in TO")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="write a new bundle and leave TO as it is")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy a task into another bundle that has the same encoder, method and shared file."""
    from weft.bundle.copy_task import copy_task

    done = copy_task(source, name, target, rename=rename, out=out)
    _tell(done, f"{done.task} is in", as_json)


def _read(host: Host, out: Path, file: Path, overrides: list[str], again: str | None = None) -> TaskFile:
    """The task file, once there is a place for the result."""
    from weft.bundle.one_task import check_out
    from weft.config.task_file import load_task_file

    check_out(host.folder, out)
    return load_task_file(file, overrides, host, again=again)


def _flags(**given: Any) -> list[str]:
    """Options as overrides of the section `grow`: JSON is YAML, and keeps a word a word."""
    return [f"grow.{key}={json.dumps(value)}" for key, value in given.items() if value is not None]


def _tell(done: Any, headline: str, as_json: bool) -> None:
    from weft.cli.commands.grown import print_unchanged

    print_notes(done.notes)
    if as_json:
        print_json(done.as_dict())
        return
    print_unchanged(done.unchanged)
    print(f"{headline}; bundle: {done.folder}")
