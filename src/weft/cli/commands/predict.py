"""`weft predict`: one prediction per line of a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import BundleArgument, Device, EncoderOption
from weft.errors import WeftError, did_you_mean


def predict(
    bundle: BundleArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="one JSON object per line with its `task`; with --all or --tasks one text per line",
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help="predict every line for every task that can read it")
    ] = False,
    tasks: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="predict every line for each of these tasks")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="float32, bf16, or int8 (CPU only): faster, and outputs differ slightly")
    ] = "float32",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write to this file, not to standard output")
    ] = None,
    encoder: EncoderOption = None,
    device: Device = None,
) -> None:
    """Predict every line of a file, tasks in any order: {"task": …, "text": …}, or with the task's columns.

    Prints one JSON object per line. With --all or --tasks a line has no task: it is a text (FILE.jsonl: a
    string, a pair, or an object with `text`, or `text_a` and `text_b`, or the tasks' columns), and its
    predictions are one object, by task.
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
    answers = predict_file(
        bundle, file, tasks=names, every_task=every, precision=precision, encoder=encoder, device=device
    )
    text = "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
