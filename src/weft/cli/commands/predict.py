"""`weft predict`: predict every row of a file, or of many files."""

from __future__ import annotations

import glob
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among, task_list
from weft.cli.options import Address, BackendOption, BundleOrExport, Device, EncoderOption, On
from weft.cli.output import print_note, print_text
from weft.errors import WeftError
from weft.utils.counted import counted

if TYPE_CHECKING:
    from weft.corpora.job import Settings


def predict(
    bundle: BundleOrExport,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            help="jsonl, csv, tsv, parquet or text file to predict; - reads standard input; several files "
            "need --out FOLDER; see below",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="task of every row; default: the row's column 'task'"),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="predict this text instead of a file; may be repeated"),
    ] = None,
    text2: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="second text of a pair, once for each --text"),
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="predict every row for every task that takes its number of texts"),
    ] = False,
    tasks: Annotated[
        str | None,
        typer.Option(
            metavar="TASK,TASK",
            help="predict every row for each of these tasks, such as cola,rte",
            autocompletion=task_list,
        ),
    ] = None,
    texts: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[,COLUMN]", help="columns of the text or pair; default: those of the task's files"
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="format of FILE: jsonl, text, csv, tsv, parquet, conll, squad, …; default: by its ending",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="copy this column to the output as 'id'"),
    ] = None,
    with_input: Annotated[
        bool, typer.Option("--with-input", help="copy the whole row to the output as 'input'")
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="all|COLUMN,COLUMN",
            help="copy these columns to the output, in 'input'; all: as --with-input",
        ),
    ] = None,
    digits: Annotated[int, typer.Option(metavar="N", min=0, max=17, help="round numbers to N decimals")] = 4,
    on_error: Annotated[
        str | None,
        typer.Option(
            metavar="stop|skip",
            help="at a row that cannot be read: stop, after predicting those before it (exit code 2), or "
            "report it and predict the others (exit code 1); default: stop for one file, skip for several",
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
    backend: BackendOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="write the predictions to this file; its ending decides: .csv, .tsv, .parquet, else JSON "
            "lines; default: JSON lines on standard output; of several files: a folder",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="processes that predict several files; default: one per GPU, else one per four cores",
        ),
    ] = None,
    on: On = None,
    address: Address = None,
    encoder: EncoderOption = None,
    device: Device = None,
) -> None:
    """Predict the rows of one or many files, for one or many tasks.

    A row needs a task and a text. The task is --task, the row's column 'task', or the only task of the model.
    The text is in the columns of the task's own files, in the columns of --texts, or in 'text' (a pair:
    'text_a' and 'text_b'). So a file that the model was trained on can be predicted as it is. In a .txt file,
    and on standard input with --task, each line is a text; a pair has a tab between its texts.

    The output has one row per row of the input, in the same order. Files of any size are read in small
    portions. With --on-error skip, a row that cannot be read becomes {"line": 7, "error": "…"}.

    With --all or --tasks, a row has one prediction per task, by name. A line of JSON may then also be a
    string, or a list of two strings.

    Several files are predicted by several processes, or on a Ray cluster with --on ray. The folder --out gets
    one file per input, with its name and format; that of texts.txt is texts.txt.jsonl. Rows that cannot be
    read are in NAME.errors.jsonl there. If the command is stopped or killed, repeat it: finished files are
    skipped.

    Example: weft predict runs/first reviews.csv --task sentiment --id review_id --out predictions.csv

    Example: weft predict runs/first --task sentiment --text "A fine film."

    Example: cat lines.jsonl | weft predict runs/first - | head

    Example: weft predict runs/first reviews.txt --tasks sentiment,acceptability

    Example: weft export runs/first --to onnx --out exported && weft predict exported reviews.csv

    Example: weft predict runs/first shards/*.parquet --task sentiment --keep review_id --out predicted
    """
    from weft.corpora.job import Settings
    from weft.inference.requests import Asked
    from weft.interop.onnx.backend import backend_of
    from weft.utils.ray_start import refuse_without_ray
    from weft.workflows.predict import predict_rows
    from weft.workflows.prediction_output import open_output, quiet_standard_output
    from weft.workflows.prediction_progress import Progress

    if every and tasks is not None:
        raise WeftError("found both --all and --tasks; expected one of them: leave --all out")
    if task is not None and (every or tasks is not None):
        other = "--all" if every else "--tasks"
        raise WeftError(f"found both --task and {other}; expected one of them: leave {other} out")
    if precision == "int8":
        if device is not None and device.partition(":")[0] != "cpu":
            raise WeftError(f"--precision int8 runs on a CPU; found --device {device}: leave --device out")
        device = "cpu"
    kept = _names(keep) or []
    whole = with_input or kept == ["all"]
    columns = () if whole else tuple(kept)
    asked = Asked(task, _names(tasks), every, _names(texts), None, id_column, whole, columns)
    if _are_many(files or [], out, workers, on):
        if text or text2:
            raise WeftError("found --text together with several files, --workers or --on; leave --text out")
        if out is None:
            number = len(files or [])
            found = "one file with --workers or --on" if number == 1 else f"{number} files"
            raise WeftError(
                f"found {found} and no --out; expected --out FOLDER, which gets one file of predictions per "
                "input"
            )
        backend_of(bundle, backend)  # refuses a backend that cannot read the folder; workers find it again
        settings = Settings(
            # a name on the hub is no path
            os.path.abspath(bundle) if os.path.lexists(bundle) else str(bundle),
            asked,
            form,
            "skip" if on_error is None else on_error,
            digits,
            precision,
            encoder,
            device,
        )
        _predict_files(settings, files or [], out, workers, on, address)
        return
    refuse_without_ray(on, {"--address": address})
    for option, value in (("--workers", workers), ("--on", on)):
        if value is not None:
            raise WeftError(f"{option} {value} is for files; found none: leave {option} out, or name files")
    file = files[0] if files else None
    complete = False
    output = open_output(out)
    progress = Progress(out is not None or not sys.stdout.isatty())
    try:
        counts = predict_rows(
            bundle,
            output,
            file,
            texts=text or (),
            second_texts=text2 or (),
            asked=asked,
            form=form,
            on_error=on_error or "stop",
            digits=digits,
            precision=precision,
            encoder=encoder,
            device=device,
            backend=backend,
            report=lambda problem: print_text(problem, sys.stderr),
            tell=print_note,
            progress=progress,
        )
        complete = True
    except BrokenPipeError:
        # the reader has what it wanted (`| head`)
        quiet_standard_output()
        return
    finally:
        progress.close()
        output.close(complete)
    if counts.wrong:
        print(_unread(counts.wrong, sum(counts)), file=sys.stderr)
        raise typer.Exit(1)


def _are_many(files: list[Path], out: Path | None, workers: int | None, on: str | None) -> bool:
    """Whether the predictions go to a folder: of several files, of a quoted pattern, or by choice."""
    patterns = any(glob.has_magic(str(file)) and not file.exists() for file in files)
    chosen = workers is not None or on is not None or (out is not None and out.is_dir())
    return len(files) > 1 or patterns or (chosen and bool(files))


def _predict_files(
    settings: Settings,
    files: list[Path],
    out: Path,
    workers: int | None,
    on: str | None,
    address: str | None,
) -> None:
    from weft.corpora.predict import predict_files
    from weft.corpora.stopping import Stopped

    try:
        totals = predict_files(
            settings,
            files,
            out,
            workers=workers,
            on=on,
            address=address,
            report=lambda problem: print_text(problem, sys.stderr),
            tell=print_note,
            progress=True,
        )
    except (Stopped, KeyboardInterrupt) as stopped:  # before a worker starts, Ctrl-C is Python's
        print("stopped; finished files stay\n  to continue, repeat the command", file=sys.stderr)
        number = stopped.signal if isinstance(stopped, Stopped) else signal.SIGINT
        raise typer.Exit(128 + number) from None
    rows, are = counted(totals.answered, "row"), "is" if totals.answered == 1 else "are"
    print_note(f"{rows} of {counted(totals.files, 'file')} {are} predicted: {out}")
    if totals.wrong:
        print(
            f"{_unread(totals.wrong, totals.answered + totals.wrong)}: see {out}/*.errors.jsonl",
            file=sys.stderr,
        )
    if totals.failed:
        print(f"{counted(len(totals.failed), 'file')} could not be predicted", file=sys.stderr)
    if totals.wrong or totals.failed:
        raise typer.Exit(1)


def _unread(wrong: int, rows: int) -> str:
    have = "has" if wrong == 1 else "have"
    return f"{wrong:,} of {counted(rows, 'row')} could not be read and {have} no prediction"


def _names(listed: str | None) -> list[str] | None:
    return None if listed is None else [name.strip() for name in listed.split(",") if name.strip()]
