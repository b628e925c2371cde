"""`weft submit`: write a model's predictions as the zip file that the GLUE or SuperGLUE server accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import among, benchmarks
from weft.cli.options import Device, EncoderOption, Json, TaskFiles
from weft.cli.output import print_json, print_table, print_text
from weft.cli.paths import check_place
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.data.readers.problem import Problem
    from weft.evaluation.submission import Benchmark
    from weft.evaluation.submission.benchmark import Report

SHOWN = 10
"""How many problems of a file are listed before the rest are counted."""
WNLI = ("majority", "model")
"""The values of `--wnli`."""


def submit(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|BUNDLE",
            help="folder of a run, or of a saved model (a bundle); with --check: a zip file",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="glue|superglue",
            help="benchmark to submit to: glue or superglue",
            autocompletion=benchmarks,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.zip", help="zip file to write; required, except with --check"),
    ] = None,
    tasks: TaskFiles = None,
    fill: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK", help="write a constant instead of predictions for this task; may be repeated"
        ),
    ] = None,
    wnli: Annotated[
        str,
        typer.Option(
            metavar="majority|model",
            autocompletion=among(*WNLI),
            help="what to write for WNLI: its majority label, as papers do, or the model's predictions",
        ),
    ] = "majority",
    check: Annotated[
        bool, typer.Option("--check", help="check an existing zip file, and write nothing")
    ] = False,
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Write a GLUE or SuperGLUE submission, and check it.

    The model predicts the test set of each task. If it has no predictions for a file (the task is not
    trained, or has no test file), the file is filled with a constant, and the report names it. WNLI is filled
    by default.

    Example: weft submit runs/glue --to glue --out glue.zip

    Example: weft submit glue.zip --to glue --check
    """
    from weft.evaluation.submission import BENCHMARKS

    benchmark = BENCHMARKS[to]
    if check:
        _check(benchmark, source, as_json)
        return
    zip_file = _checked_out(source, to, out)
    if wnli not in WNLI:
        raise WeftError(f"--wnli {wnli}: expected {' or '.join(WNLI)}")
    from weft.workflows.submit import submit as write_submission

    report, problems = write_submission(
        source,
        benchmark,
        zip_file,
        files=tasks,
        fill=fill or (),
        insist=["wnli"] if wnli == "model" else [],
        encoder=encoder,
        device=device,
    )
    if as_json:
        listed = [str(problem) for problem in problems]
        print_json({"benchmark": benchmark.name, **report.as_dict(), "problems": listed})
    else:
        _print(benchmark, report, problems)
    if problems:
        raise typer.Exit(1)


def _checked_out(source: Path, to: str, out: Path | None) -> Path:
    if out is None:
        if source.is_file():
            raise WeftError(
                f"{source} is a file; to check a zip file, write: weft submit {source} --to {to} --check"
            )
        raise WeftError(f"--out is missing; write: weft submit {source} --to {to} --out {to}.zip")
    if out.suffix.lower() != ".zip":
        raise WeftError(f"--out {out}: expected a name that ends in .zip")
    check_place("--out", out)
    return out


def _check(benchmark: Benchmark, zip_file: Path, as_json: bool) -> None:
    problems = benchmark.check(zip_file)
    if as_json:
        print_json({"zip": str(zip_file), "problems": [str(problem) for problem in problems]})
    else:
        for line in _problem_lines(problems):
            print_text(line)
        print_text(_verdict(benchmark, zip_file, problems))
    if problems:
        raise typer.Exit(2)


def _problem_lines(problems: Sequence[Problem]) -> list[str]:
    """The first problems of each file, and how many more it has."""
    lines: list[str] = []
    count: Counter[str] = Counter()
    for problem in problems:
        count[problem.source] += 1
        if count[problem.source] <= SHOWN:
            lines.append(str(problem))
    return lines + [f"{source}: … and {n - SHOWN:,} more" for source, n in count.items() if n > SHOWN]


def _verdict(benchmark: Benchmark, zip_file: Path, problems: Sequence[Problem]) -> str:
    if not problems:
        return f"{zip_file}: {len(benchmark.forms)} files in the format of {benchmark.title}'s server"
    return f"{zip_file}: {len(problems):,} problem{'s' * (len(problems) > 1)}"


def _print(benchmark: Benchmark, report: Report, problems: Sequence[Problem]) -> None:
    rows = [
        [entry.file, entry.rows, entry.task if entry.filler is None else "filler"] for entry in report.entries
    ]
    print_table(f"{benchmark.title}: {report.out}", ["file", "predictions", "from"], rows)
    for entry in report.fillers:
        print_text(f"filler: {entry.file} holds no predictions of the model: {entry.why}")
    for line in _problem_lines(problems):
        print_text(line)
    print_text(_verdict(benchmark, report.out, problems))
