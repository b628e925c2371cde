"""`weft task`: a task more, a task less, a task trained again, a task from another bundle."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from weft.config.task_file import Host, TaskFile

task = typer.Typer(
    help="Add a task to a trained model, train one again, take one out or over from another bundle.",
    no_args_is_help=True,
)

BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="a bundle, or a run's folder")]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="the task's name")]
FileArgument = Annotated[
    Path, typer.Argument(metavar="TASK.yaml", help="the sections tasks (one task), train and grow")
]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="key=value", help="such as train.steps=500")]
Out = Annotated[Path, typer.Option(help="the new bundle's folder; BUNDLE itself is exchanged in one move")]
Fraction = Annotated[
    float | None, typer.Option(help="the share of the training rows that is used, such as 0.01")
]
Run = Annotated[
    Path | None, typer.Option(help="keep run.yaml, log.jsonl and metrics.json of the training here")
]
EncoderOption = Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]


@task.command()
def add(
    bundle: BundleArgument,
    file: FileArgument,
    out: Out,
    overrides: Overrides = None,
    only: Annotated[
        str | None, typer.Option(help="what trains: task (its own; the default), head, or all")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="where it begins: auto, average, random, xavier, or the name of a task"),
    ] = None,
    fraction: Fraction = None,
    run: Run = None,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Add a task to a trained model, and train it."""
    host = _host(bundle)
    flags = _flags(only=only, start=start, fraction=fraction)
    given = _read(host, out, file, [*(overrides or []), *flags])
    from weft.cli.commands.grown import print_zero_shot, tell
    from weft.cli.devices import device_of
    from weft.growing.add import add_task

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
        str | None, typer.Option(help="what trains: task (its own; the default), or head")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="begin at the method's own start, not at the present values")
    ] = False,
    fraction: Fraction = None,
    run: Run = None,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train a task of a bundle again; refused where other tasks use its parameters."""
    host = _host(bundle, name)
    flags = _flags(only=only, fraction=fraction)
    given = _read(host, out, file, [*(overrides or []), *flags], again=name)
    from weft.cli.commands.grown import tell
    from weft.cli.devices import device_of
    from weft.growing.retrain import retrain_task

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
    """Take a task out of a bundle; every other file stays as it is."""
    from weft.bundle.one_task import remove_task

    _tell(remove_task(bundle, name, out), f"{name} is out", as_json)


@task.command()
def copy(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="the bundle that has it, or a run's folder")],
    name: TaskArgument,
    target: Annotated[Path, typer.Argument(metavar="TO", help="a bundle that stands on the same")],
    rename: Annotated[str | None, typer.Option("--as", metavar="NAME", help="its name there")] = None,
    out: Annotated[Path | None, typer.Option(help="write here and leave TO as it is")] = None,
    as_json: Json = False,
) -> None:
    """Copy a task into another bundle that stands on the same encoder, method and shared file."""
    from weft.bundle.copy_task import copy_task

    done = copy_task(source, name, target, rename=rename, out=out)
    _tell(done, f"{done.task} is in", as_json)


def _host(bundle: Path, name: str | None = None) -> Host:
    """What a task file is read against; `name` must be one of its tasks."""
    from weft.bundle.load import find_bundle, read_manifest, read_tasks
    from weft.bundle.one_task import check_has
    from weft.config.task_file import Host
    from weft.methods import build_method

    folder = find_bundle(bundle)
    said = read_manifest(folder)
    if name is not None:
        check_has(folder, said, name)
    tasks = read_tasks(folder, said, said["encoder"]["sha256"])
    return Host(folder, tasks, build_method(said["method"]), said["max_length"])


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

    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    if as_json:
        print(json.dumps(done.as_dict()))
        return
    print_unchanged(done.unchanged)
    print(f"{headline}; bundle: {done.folder}")
