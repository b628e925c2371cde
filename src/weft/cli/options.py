"""Arguments and options that several commands share, each defined once.

A command uses them as types: `def train(source: RunFileArgument, as_json: Json = False)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among, encoders, overrides, run_files, task_names
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model.model import Model

RunFileArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN.yaml",
        help="run file, folder of a run, or the name of a preset such as quickstart",
        autocompletion=run_files,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="settings that replace those of the file, such as train.steps=500; values are YAML",
        autocompletion=overrides,
    ),
]
BundleArgument = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE",
        help="folder of a saved model (a bundle), or of a run that has one; or user/name[@revision] on the "
        "Hugging Face hub",
    ),
]
BundleOrExport = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE",
        help="folder of a saved model (a bundle), of a run that has one, or of an export to ONNX",
    ),
]
RunOrBundle = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|BUNDLE",
        help="folder of a run, or of a saved model (a bundle); or user/name[@revision] on the Hugging Face "
        "hub",
    ),
]
RunFileOrBundle = Annotated[
    str,
    typer.Argument(
        metavar="RUN.yaml|RUN|BUNDLE",
        help="run file or name of a preset, to count before training; or folder of a run or of a saved model "
        "(a bundle)",
        autocompletion=run_files,
    ),
]
TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="name of the task", autocompletion=task_names)
]

Json = Annotated[
    bool, typer.Option("--json", help="print one JSON object on standard output instead of tables")
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="ENCODER",
        help="folder or hub id of the encoder, if it has moved",
        autocompletion=encoders,
    ),
]
NewEncoder = Annotated[
    str, typer.Option("--encoder", help="encoder of the run file: minilm, a folder or a hub id")
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ray",
        help="work on a Ray cluster instead of this machine alone; docs/ray.md explains it",
        autocompletion=among("ray"),
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="with --on ray: head node of the cluster, auto or local; default: RAY_ADDRESS, else a cluster "
        "that runs on this machine, else a new one on this machine",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="device to run on: cpu, cuda, cuda:1 or another; default: a GPU if there is one, else cpu",
        autocompletion=among("cpu", "cuda"),
    ),
]
BackendOption = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="torch|onnx",
        help="torch for a bundle, onnx for an export to ONNX (CPU only); default: the one that BUNDLE is for",
        autocompletion=among("torch", "onnx"),
    ),
]
TaskFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks",
        metavar="RUN.yaml",
        help="run file or task file that says where the data is; required for a bundle, which holds no data; "
        "may be repeated; default: the run's own run.yaml",
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="TASK",
        help="name of the task; required if the model has several tasks",
        autocompletion=task_names,
    ),
]
LabelledSplit = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="SPLIT",
        help="split of the data to evaluate on: validation or test",
        autocompletion=among("validation", "test"),
    ),
]
MetricsSplit = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="SPLIT",
        help="split whose scores to read: validation (metrics.json, which a run writes), or test "
        "(metrics.test.json, which weft evaluate --split test writes)",
        autocompletion=among("validation", "test"),
    ),
]
Split = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="SPLIT",
        help="split of the data to read: train, validation or test",
        autocompletion=among("train", "validation", "test"),
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        min=1,
        metavar="N",
        help="evaluate about this many examples per task, the same ones in every call; default: all",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="random seed used to select the --rows examples")
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="PRECISION",
        help="float32, or bf16: faster on a GPU, and the metrics differ slightly",
        autocompletion=among("float32", "bf16"),
    ),
]
NewBundle = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="folder to write the new bundle to")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE.svg|FILE.png", help="write a chart to this file; default: no chart"),
]
HandDrawnPlot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE.svg|FILE.html",
        help="write a chart to this file; default: no chart",
    ),
]
Layers = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="LAYERS",
        help="layers of the encoder to use, counted from 0, such as 2, 0-2 or 'top half'; default: all "
        "layers, and the places outside layers such as the pooler",
    ),
]
Basis = Annotated[
    str | None,
    typer.Option(
        "--basis",
        metavar="110M",
        help="also count with this rounded size of the encoder, as papers do: 110M or 110_000_000; default: "
        "the size that the method's paper uses, if it has one",
    ),
]


def chosen_task(model: Model, folder: Path, name: str | None) -> str:
    """Return the task that `--task` names; the option may be left out if the model has one task."""
    names = [task.name for task in model.tasks]
    if name is None and len(names) > 1:
        raise WeftError(f"{folder} has {len(names)} tasks, {', '.join(names)}; choose one with --task NAME")
    name = names[0] if name is None else name
    model.task_id(name)
    return name
