"""`weft predict`: predict every line of a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.completion import among, task_list
from weft.cli.options import BundleArgument, Device, EncoderOption
from weft.errors import WeftError, did_you_mean


def predict(
    bundle: BundleArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="file with one JSON object per line that names its task; with --all or --tasks, one text "
            "per line",
        ),
    ],
    every: Annotated[
        bool,
        typer.Option("--all", help="predict every line for every task that takes its number of texts"),
    ] = False,
    tasks: Annotated[
        str | None,
        typer.Option(
            metavar="TASK,TASK",
            help="predict every line for each of these tasks, such as cola,rte",
            autocompletion=task_list,
        ),
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            metavar="PRECISION",
            autocompletion=among("float32", "bf16", "int8"),
            help="float32, bf16 or int8; bf16 and int8 (CPU only) are faster, and outputs differ slightly",
        ),
    ] = "float32",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the predictions to this file; default: standard output"),
    ] = None,
    encoder: EncoderOption = None,
    device: Device = None,
) -> None:
    """Predict every line of a file, for one task or many.

    A line names its task and its text: {"task": "cola", "text": "Cats sleep."}. A pair has text_a and text_b,
    or the names of the task's columns. Tasks may be in any order. The output is one JSON object per line.

    With --all or --tasks a line names no task. It is a plain text or, in a .jsonl file, a string, a list of
    two strings, or an object with text, with text_a and text_b, or with the tasks' columns. The output is one
    JSON object per line, with one prediction per task.

    Example: weft predict runs/first lines.jsonl --out predictions.jsonl

    Example: weft predict runs/first reviews.txt --tasks sentiment,acceptability
    """
    from weft.utils.files import write_text
    from weft.workflows.predict import PRECISIONS, predict_file

    if every and tasks is not None:
        raise WeftError("found both --all and --tasks; expected one of them: leave --all out")
    if precision not in PRECISIONS:
        raise WeftError(f"--precision {precision}: {did_you_mean(precision, PRECISIONS)}")
    if precision == "int8":
        if device is not None and device.partition(":")[0] != "cpu":
            raise WeftError(f"--precision int8 runs on a CPU; found --device {device}: leave --device out")
        device = "cpu"
    names = None if tasks is None else [name.strip() for name in tasks.split(",") if name.strip()]
    predictions = predict_file(
        bundle, file, tasks=names, every_task=every, precision=precision, encoder=encoder, device=device
    )
    text = "".join(json.dumps(prediction, ensure_ascii=False) + "\n" for prediction in predictions)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
