"""`weft predict`: a file's lines, answered."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.devices import device_of
from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.inference.precision import Precision

PRECISIONS = ("float32", "bf16", "int8")


def predict(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="a bundle, or a run's folder")],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="one object a line with its `task`; with --all or --tasks a text a line"
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help="answer every line for every task that can read it")
    ] = False,
    tasks: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="answer every line for each of these tasks")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="float32, bf16, or int8 (on a CPU): faster, with slightly other answers")
    ] = "float32",
    out: Annotated[Path | None, typer.Option(help="write here and not to standard output")] = None,
    encoder: Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one")] = None,
) -> None:
    """Answer every line of a file, tasks mixed anyhow: {"task": …, "text": …}, or with the task's columns.

    With --all or --tasks a line has no task: it is a text (FILE.jsonl: a string, a pair, or an object with
    `text`, or `text_a` and `text_b`, or the tasks' columns), and its answers are one object, by task.
    """
    if every and tasks is not None:
        raise WeftError("found both --all and --tasks; expected one of them: leave --all out")
    if precision not in PRECISIONS:
        raise WeftError(f"--precision {precision}: {did_you_mean(precision, PRECISIONS)}")
    if precision == "int8":
        if device is not None and device.partition(":")[0] != "cpu":
            raise WeftError(f"--precision int8 runs on a CPU; found --device {device}: leave --device out")
        device = "cpu"
    from weft.bundle.load import find_bundle

    find_bundle(bundle)
    from weft.inference.requests import read_requests, read_texts

    mixed = not every and tasks is None
    lines: list[Any] = read_requests(file) if mixed else read_texts(file)
    from weft.bundle.load import load
    from weft.inference.requests import as_requests, as_texts
    from weft.utils.files import write_text

    model = load(bundle, encoder=encoder, device=device_of(device))
    if precision == "int8":
        from weft.model.transforms.quantize import quantize

        model = quantize(model)
    passes: Precision = "bf16" if precision == "bf16" else "float32"
    if mixed:
        answers: list[Any] = model.predict(as_requests(lines, model.tasks, file), precision=passes)
    else:
        names = None if tasks is None else [name.strip() for name in tasks.split(",") if name.strip()]
        answers = model.predict_all(as_texts(lines, model, names, file), names, precision=passes)
    text = "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
