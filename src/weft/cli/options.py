"""The arguments and options that several commands have, each defined once.

A command takes them by type: `def train(source: RunFileArgument, as_json: Json = False)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

RunFileArgument = Annotated[str, typer.Argument(metavar="RUN.yaml", help="run file, or name of a preset")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="key=value", help="override a setting: train.steps=500")
]
BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="folder of a bundle or of a run")]
RunOrBundle = Annotated[Path, typer.Argument(metavar="RUN|BUNDLE", help="folder of a run or of a bundle")]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="name of the task")]

Json = Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")]
EncoderOption = Annotated[
    str | None, typer.Option("--encoder", help="folder or hub id of the encoder, if it has moved")
]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda, …; default: a GPU if there is one, else cpu")
]
TaskFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks", metavar="RUN.yaml", help="run file or task file with a bundle's data; may be repeated"
    ),
]
TaskOption = Annotated[
    str | None, typer.Option("--task", help="name of the task; required if there are several")
]
LabelledSplit = Annotated[str, typer.Option("--split", help="validation or test")]
Split = Annotated[str, typer.Option("--split", help="train, validation or test")]
Rows = Annotated[
    int | None,
    typer.Option("--rows", min=1, help="number of examples per task, always the same ones; default: all"),
]
Seed = Annotated[int, typer.Option("--seed", help="random seed used to select the --rows examples")]
Precision = Annotated[
    str, typer.Option("--precision", help="float32 or bf16; in bf16 metrics differ slightly")
]
NewBundle = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="folder of the new bundle")]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE.svg|FILE.png", help="write a chart to this file")
]
Layers = Annotated[
    str | None, typer.Option("--layers", help="2, 0-2, 'top half', …; default: all, and sites outside layers")
]
Basis = Annotated[
    str | None,
    typer.Option(
        "--basis", metavar="110M", help="round parameter count of the encoder, as papers use it, to divide by"
    ),
]


def one_task(model: Model, folder: Path, name: str | None) -> str:
    """The task that `--task` names; it may be left out where there is one task."""
    names = [task.name for task in model.tasks]
    if name is None and len(names) > 1:
        raise WeftError(f"{folder} has {len(names)} tasks, {', '.join(names)}; say which with --task")
    name = names[0] if name is None else name
    model.task_id(name)
    return name
